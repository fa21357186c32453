package webpage_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
	"sheaf/internal/testkit"
	"sheaf/internal/webpage"
)

// text finds the texts that pages put into the reader's language: {{.T "…"}} and p.T("…"), and of
// {{.N "one" "many" …}} and p.N("one", "many", …) the second.
var text = regexp.MustCompile(`\.(?:T\(? ?|N\(? ?"(?:[^"\\]|\\.)*",? )"((?:[^"\\]|\\.)*)"`)

// Every text of every page has its Japanese, with the same verbs in the same order, and the
// dictionary has no others.
func TestEveryTextHasItsJapanese(t *testing.T) {
	used := make(map[string]bool)
	for _, status := range []int{400, 401, 403, 404, 405, 410, 429, 500, 503} {
		used[http.StatusText(status)] = true // titles of problems
	}
	used[problem.NotAnswering] = true
	for _, room := range []string{".", "../../ui", "../../serve/httpd"} {
		testkit.Must(t, filepath.WalkDir(room, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || filepath.Ext(path) != ".go" && filepath.Ext(path) != ".html" {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range text.FindAllSubmatch(source, -1) {
				used[string(m[1])] = true
			}
			return err
		}))
	}
	if len(used) < 50 {
		t.Errorf("only %d texts were found in the pages", len(used))
	}
	verbs := regexp.MustCompile(`%[a-z]`)
	japanese := webpage.Japanese()
	for english := range used {
		translated, ok := japanese[english]
		if !ok {
			t.Errorf("japanese.txt lacks %q", english)
		} else if a, b := verbs.FindAllString(english, -1), verbs.FindAllString(translated, -1); strings.Join(a, "") != strings.Join(b, "") {
			t.Errorf("%q has the verbs %v, its Japanese %v", english, a, b)
		}
	}
	for english := range japanese {
		if !used[english] {
			t.Errorf("japanese.txt has %q, which no page says", english)
		}
	}
}

func TestLanguage(t *testing.T) {
	for _, c := range []struct{ cookie, accept, want string }{
		{"", "", "en"},
		{"", "ja,en;q=0.8", "ja"},
		{"", "fr, ja;q=0.5, en;q=0.4", "ja"},
		{"", "de", "en"},
		{"en", "ja", "en"},
		{"fr", "ja", "ja"},
	} {
		r := httptest.NewRequest("GET", "/?lang=ja", nil)
		r.Header.Set("Accept-Language", c.accept)
		if c.cookie != "" {
			r.Header.Set("Cookie", "lang="+c.cookie)
		}
		if got := webpage.Language(r); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// An archive has a name in either language, or one for both.
func TestNameInTheReadersLanguage(t *testing.T) {
	both, one := &webpage.Site{Name: "Kokubunji Web Archive", NameJapanese: "国分寺ウェブアーカイブ"}, &webpage.Site{Name: "Kokubunji Web Archive"}
	for _, c := range []struct {
		site       *webpage.Site
		lang, want string
	}{{both, "en", both.Name}, {both, "ja", both.NameJapanese}, {one, "ja", one.Name}, {new(webpage.Site), "ja", "Sheaf"}} {
		if got := (webpage.Page{Site: c.site, Lang: c.lang}).SiteName(); got != c.want {
			t.Errorf("%s: %q, want %q", c.lang, got, c.want)
		}
	}
}

// The link to the other language leads back to the page, and never out of the service.
func TestChoiceOfLanguage(t *testing.T) {
	router := mux.NewRouter()
	webpage.Register(router)
	for back, want := range map[string]string{
		"/browse/jp/?after=x":   "/browse/jp/?after=x",
		"//evil.example/":       "/",
		"https://evil.example/": "/",
		"/\\evil.example/":      "/",
		"":                      "/",
		"/a\r\nSet-Cookie: b=c": "/",
	} {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest("GET", "/language/ja?"+url.Values{"back": {back}}.Encode(), nil))
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != want || !strings.HasPrefix(w.Header().Get("Set-Cookie"), "lang=ja;") {
			t.Errorf("back to %q: %d %q %q", back, w.Code, got, w.Header().Get("Set-Cookie"))
		}
	}
}

// Nobody reads "1 watches".
func TestOneAndMany(t *testing.T) {
	const one, many = "%s watch", "%s watches"
	for _, c := range []struct {
		lang string
		n    any
		want string
	}{
		{"en", 0, "0 watches"}, {"en", 1, "1 watch"}, {"en", int64(1), "1 watch"}, {"en", 2, "2 watches"}, {"en", int64(1001), "1,001 watches"},
		{"ja", 1, "1 件の通知"}, {"ja", 2, "2 件の通知"},
	} {
		if got := (webpage.Page{Lang: c.lang}).N(one, many, c.n); got != c.want {
			t.Errorf("%d in %s: %q, want %q", c.n, c.lang, got, c.want)
		}
	}
}

// A page counts in one way: by N, which knows one from many.
func TestPagesCountByN(t *testing.T) {
	counted := regexp.MustCompile(`%[sd] (?:[a-z]+ )?(?:hosts|pages|files|watches|batches|robots|versions|transfers|owners)\b`)
	testkit.Must(t, filepath.WalkDir("../../ui", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`\.T\(? ?"((?:[^"\\]|\\.)*)"`).FindAllSubmatch(source, -1) {
			if counted.Match(m[1]) && !strings.HasPrefix(string(m[1]), "All ") {
				t.Errorf("%s: %q says the same of one and of many; use N", path, m[1])
			}
		}
		return err
	}))
}

func TestNumbers(t *testing.T) {
	var p webpage.Page
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := p.Number(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 9999: "10 kB", 999_499: "999 kB", 999_500: "1.0 MB", 1 << 62: "4.6 EB"} {
		if got := p.Bytes(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
