package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

func TestCheck(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for at, want := range map[string]string{
		"/":                          "",
		"/index.html":                "",
		"/a/a/a/":                    "",
		"/a/a/a/a/":                  "path_repeats",
		"/deep/more/deep/more/":      "",
		"/a/b/a/b/a/b/a/b/":          "path_repeats",
		"/x/a/b/c/a/b/c/a/b/c/a/b/c": "path_repeats",
		"/deep" + strings.Repeat("/deep/more", 6): "path_repeats",
		"/ja/doc/ja/doc/":                         "",
		"/1/2/3/4/5/6/7/8/9/10/11/12/":            "",
		strings.Repeat("/x/y1", 3) + "/z":         "",
		"/cal/2026/1/":                            "",
		"/cal/2029/12/31":                         "",
		"/cal/2030/1/":                            "calendar",
		"/archive/1923/09/01.html":                "",
		"/shelf/1405/11/":                         "", // no year: a shelf
		"/item/88012/3":                           "",
		"/2031-02-01/":                            "calendar",
		"/cal?y=2026&m=1":                         "",
		"/cal?y=2400&m=1":                         "calendar",
		"/cal?month=2150-01":                      "calendar",
		"/search?year=12":                         "",
		"/q?b=2&a=1":                              "",
		"/q?" + strings.Repeat("a[]=1&", 9):       "parameters",
	} {
		if got := Trap(at, now); got != want {
			t.Errorf("Check(%s) = %q, want %q", at, got, want)
		}
	}
	var many []string
	for i := range 25 {
		many = append(many, fmt.Sprintf("p%d=1", i))
	}
	if got := Trap("/q?"+strings.Join(many, "&"), now); got != "parameters" {
		t.Errorf("25 parameters: %q", got)
	}
}

// TestCircles: relative links that make paths of some words in any order, or in turns, end soon,
// and real trees in which names come twice are visited as they are.
func TestCircles(t *testing.T) {
	t.Parallel()
	words := func(n int) (links string) {
		for i := range n {
			links += fmt.Sprintf("<a href=w%c/>x</a>", 'a'+i)
		}
		return links
	}
	for links, most := range map[string]int{
		`<a href="favicons/apple">a</a><a href="more/">b</a><link rel=icon href="favicons/f.ico">`: 300,
		`<a href="index.php/a">a</a><a href="index.php/b/c">b</a>`:                                 300,
		`<a href="favicons/apple">a</a>`:                                                           20,
		words(2):                                                                                   300,
		words(3):                                                                                   300,
		words(4):                                                                                   300,
		words(5):                                                                                   300,
		words(9):                                                                                   300,
		words(13):                                                                                  300,
	} {
		if got := visit(t, "/", 1000, func(string) string { return links }); got > most {
			t.Errorf("%s: %d pages, want at most %d", links, got, most)
		}
	}
	for _, words := range []int{2, 5, 8, 20} { // each page leads to the next word
		next := func(at string) string { return fmt.Sprintf("<a href=w%d/>x</a>", strings.Count(at, "/")%words) }
		if got := visit(t, "/", 1000, next); got > 300 {
			t.Errorf("%d words in turn: %d pages, want at most 300", words, got)
		}
	}
	// An index by the first two letters, each page with all letters below it.
	letters := func(at string) string {
		if strings.Count(at, "/") < 3 {
			return words(26)
		}
		return ""
	}
	if got := visit(t, "/", 1000, letters); got != 1+26+26*26 {
		t.Errorf("an index by two letters: %d pages, want %d", got, 1+26+26*26)
	}
	// Chapters whose lists lie beside them: /text/1/text/, linked one by one from the chapters.
	chapters := func(at string) string {
		switch n := strings.Count(at, "/"); {
		case at == "/":
			var b strings.Builder
			for i := range 400 {
				fmt.Fprintf(&b, "<a href=text/%d/>x</a>", i)
			}
			return b.String()
		case n == 3 && strings.HasSuffix(at, "/"):
			return "<a href=list/text/index.html>x</a>"
		}
		return ""
	}
	if got := visit(t, "/", 2000, chapters); got != 801 {
		t.Errorf("chapters with lists: %d pages, want 801", got)
	}
	// A library of letters: /a/b/a/b/0.html, linked from lists one above another.
	library := func(at string) string {
		var b strings.Builder
		switch depth := strings.Count(at, "/"); {
		case strings.HasSuffix(at, ".html"):
		case depth < 5:
			for _, s := range []string{"a", "b"} {
				b.WriteString("<a href=" + s + "/>x</a>")
			}
		default:
			for i := range 50 {
				fmt.Fprintf(&b, "<a href=%d.html>x</a>", i)
			}
		}
		return b.String()
	}
	if got, want := visit(t, "/", 2000, library), 1+2+4+8+14+14*50; got != want {
		t.Errorf("a library of letters: %d pages, want %d", got, want)
	}
}

// TestNoCircles: directories one above another whose pages lead to directories of one name, such as
// their pictures, are no circle, unless that name leads from one to the next. Nor are directories
// that were among the first to be alike.
func TestNoCircles(t *testing.T) {
	t.Parallel()
	faculty := func(at string) (links string) {
		switch {
		case at == "/":
			links = "<a href=u/news.html>x</a>"
			for d := range 5 {
				links += fmt.Sprintf("<a href=u/d%d/news.html>x</a>", d)
				for l := range 8 {
					links += fmt.Sprintf("<a href=u/d%d/l%d/news.html>x</a>", d, l)
				}
			}
		case strings.HasSuffix(at, "/news.html"):
			links = "<a href=images/plan.html>x</a>"
		}
		return links
	}
	if got, want := visit(t, "/", 2000, faculty), 1+2*(1+5+40); got != want {
		t.Errorf("pictures below each page: %d pages, want %d", got, want)
	}
	alike := func(at string) (links string) {
		switch depth := strings.Count(at, "/"); {
		case at == "/":
			for n := range maxAlike / 8 {
				links += fmt.Sprintf("<a href=x%d/>x</a>", n)
			}
		case strings.HasSuffix(at, "more.html"):
			links = "<a href=a/2.html>x</a><a href=b/2.html>x</a>"
		case depth == 4 && strings.HasSuffix(at, "/"):
			links = "<a href=a/>x</a><a href=b/>x</a><a href=more.html>x</a>"
		case depth < 4:
			links = "<a href=a/>x</a><a href=b/>x</a>"
		}
		return links
	}
	if got, want := visit(t, "/", 2000, alike), 1+maxAlike/8*(1+2+4+8+4*3); got != want {
		t.Errorf("as many alike as may be: %d pages, want %d", got, want)
	}
}

// TestTrapsOfCorpus: no link between the pages of the shared corpus is taken for a trap.
func TestTrapsOfCorpus(t *testing.T) {
	testkit.Long(t)
	links, calendars, circles := 0, make(map[string]*Calendars), make(map[string]*Circles)
	pages := make(map[string]bool)
	type way struct {
		host, to string
		circle   bool
	}
	var ways []way
	for name, body := range testkit.CorpusFiles(t, func(name string) bool { return strings.HasPrefix(name, "sites/") }) {
		host, path, _ := strings.Cut(strings.TrimPrefix(name, "sites/"), "/")
		pages[host+"/"+path] = true
		if !strings.HasSuffix(path, ".html") {
			continue
		}
		p, err := Links(body, "text/html", "http://"+host+"/"+path)
		testkit.Must(t, err)
		if calendars[host] == nil {
			calendars[host], circles[host] = new(Calendars), new(Circles)
		}
		calendars[host].Saw("/"+path, 1, p)
		circles[host].Saw("http://"+name[len("sites/"):], p)
		for _, l := range p.Links {
			if to, ok := strings.CutPrefix(l.URL, "http://"+host); ok {
				ways = append(ways, way{host, to, circles[host].Endless("/"+path, to)})
			}
		}
	}
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, w := range ways {
		if !pages[w.host+w.to] {
			continue
		}
		links++
		if why := Trap(w.to, now); why != "" || calendars[w.host].Endless(w.to, 9) || w.circle {
			t.Errorf("%s%s is not followed: %q", w.host, w.to, why)
		}
	}
	if links < 10_000 {
		t.Errorf("%d links were looked at", links)
	}
}
