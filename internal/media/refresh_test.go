package media

import "testing"

// A robot follows, and replay rewrites, the refreshes that browsers follow, and no others.
func TestCutRefresh(t *testing.T) {
	for content, want := range map[string][2]string{
		"0; URL='r.html'":          {"0", "r.html"},
		" 5;url = \"a b\" ignored": {"5", "a b"},
		"5 next.html":              {"5", "next.html"},
		"5,next.html\n":            {"5", "next.html"},
		"0.5.1;u.html":             {"0.5.1", "u.html"},
		".;x":                      {".", "x"},
		"1;url='x":                 {"1", "x"},
		"1;url x":                  {"1", "url x"},
		"1;;x":                     {"1", ";x"},
		"1;url=":                   {},
		"3":                        {},
		"3 ; ":                     {},
		"":                         {},
		";url=x":                   {},
		",x":                       {},
		"5url=x":                   {},
		"soon; url=x":              {},
		"-1; url=x":                {},
		"\u00a05; url=x":           {},
	} {
		delay, url, ok := CutRefresh(content)
		if ok != (want[1] != "") || ok && (delay != want[0] || url != want[1]) {
			t.Errorf("%q: after %q to %q, %t; want %q", content, delay, url, ok, want)
		}
	}
}
