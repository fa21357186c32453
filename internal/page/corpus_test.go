package page

import (
	"maps"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// One site of the shared corpus stands there in every encoding, declared rightly,
// wrongly and not at all. Each copy must read as the original does, links and all.
func TestCorpus(t *testing.T) {
	testkit.Long(t)
	const original = "sites/faq.debian.jp.test/"
	files := maps.Collect(testkit.CorpusFiles(t, func(name string) bool {
		return strings.HasSuffix(name, ".html") && (strings.HasPrefix(name, original) || strings.HasPrefix(name, "derived/faq-"))
	}))
	read := func(name string) *Page {
		body, ok := files[name]
		if !ok {
			t.Fatalf("the corpus lacks %s", name)
		}
		p, err := Links(body, "text/html", "http://h/")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var names []string
	for file := range files {
		if name, ok := strings.CutPrefix(file, original); ok && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	if len(names) != 17 {
		t.Fatalf("%d pages, want 17", len(names))
	}
	for copied, charset := range map[string]string{
		"faq-jis-meta": "iso-2022-jp", "faq-jis-nometa": "iso-2022-jp", "faq-jis-wrongmeta": "iso-2022-jp",
		"faq-sjis-meta": "shift_jis", "faq-sjis-nometa": "shift_jis", "faq-sjis-wrongmeta": "shift_jis",
		"faq-euc-meta": "euc-jp", "faq-euc-nometa": "euc-jp", "faq-euc-wrongmeta": "euc-jp",
		"faq-utf16-bom": "utf-16", "faq-broken": "euc-jp",
	} {
		for _, name := range names {
			want, got := read(original+name), read("derived/"+copied+".derived.test/"+name)
			if !strings.HasPrefix(got.Charset, charset) {
				t.Errorf("%s/%s was read as %s", copied, name, got.Charset)
			}
			if g, w := links(got), links(want); g != w {
				t.Errorf("%s/%s: links\n%s\nwant\n%s", copied, name, g, w)
			}
			if copied == "faq-broken" {
				continue // its text has lost bytes
			}
			if g, w := got.Title+got.Text, want.Title+want.Text; g != w {
				at := 0
				for at < min(len(g), len(w)) && g[at] == w[at] {
					at++
				}
				t.Errorf("%s/%s differs at %d: %.60q, want %.60q", copied, name, at, g[max(0, at-5):], w[max(0, at-5):])
			}
		}
	}
}
