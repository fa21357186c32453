package media

import (
	"slices"
	"strings"
	"testing"
)

// A stored header tells the length of the stored body, and says under another name how the body was
// sent. That of a response without body speaks of a body elsewhere, and stays.
func TestStoredFields(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		size    int64
		decoded bool
		fields  []string
		want    []string
	}{
		{"as sent", 200, 5, true, []string{"A: 1", "Content-Length: 5"}, []string{"A: 1", "Content-Length: 5"}},
		{"decoded", 200, 5, true, []string{"content-length: 3", "Content-Encoding: gzip"},
			[]string{"content-length: 5", "X-Crawler-content-length: 3", "X-Crawler-Content-Encoding: gzip"}},
		{"not decoded", 200, 3, false, []string{"Content-Encoding: br", "Content-Length: 3"}, []string{"Content-Encoding: br", "Content-Length: 3"}},
		{"chunked", 200, 3, true, []string{"Transfer-Encoding: chunked"}, []string{"X-Crawler-Transfer-Encoding: chunked", "Content-Length: 3"}},
		{"two lengths", 200, 3, true, []string{"Content-Length: 3", "Content-Length: 4"}, []string{"Content-Length: 3", "X-Crawler-Content-Length: 4"}},
		{"elsewhere", 200, -1, true, []string{"Content-Length: 3", "Content-Encoding: gzip", "A: 1"}, []string{"X-Crawler-Content-Length: 3", "X-Crawler-Content-Encoding: gzip", "A: 1"}},
		{"not modified", 304, 0, true, []string{"Content-Length: 99"}, []string{"Content-Length: 99"}},
		{"no content", 204, 0, true, []string{"A: 1"}, []string{"A: 1"}},
		{"not modified, with a body", 304, 2, true, []string{"A: 1"}, []string{"A: 1", "Content-Length: 2"}},
	} {
		given := func(yield func(name, value string) bool) {
			for _, f := range c.fields {
				if name, value, _ := strings.Cut(f, ": "); !yield(name, value) {
					return
				}
			}
		}
		var got []string
		for name, value := range StoredFields(given, c.status, c.decoded, c.size) {
			got = append(got, name+": "+value)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

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
