package replay

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// shown returns the text of a page after rewriting.
func shown(t *testing.T, body []byte, contentType string) *Content {
	t.Helper()
	d, err := Open(bytes.NewReader(body), contentType, "http://h/d/p.html")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := d.Rewrite(&out, then, false, nil); err != nil {
		t.Fatal(err)
	}
	if d.Kind == HTML {
		harmless(t, out.String())
	}
	c, err := Read(&out, d.ContentType())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEncodingsOfCorpus: the corpus has a site in every encoding, declared rightly, wrongly and not
// at all. Each copy is shown with the same words in title and text.
func TestEncodingsOfCorpus(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	dir := testkit.Corpus(t, "./sites/faq.debian.jp.test", "./derived")
	originals, err := filepath.Glob(filepath.Join(dir, "sites", "faq.debian.jp.test", "*.html"))
	if err != nil || len(originals) != 17 {
		t.Fatalf("%d pages, %v", len(originals), err)
	}
	for _, copied := range []string{
		"faq-jis-meta", "faq-jis-nometa", "faq-jis-wrongmeta", "faq-sjis-meta", "faq-sjis-nometa", "faq-sjis-wrongmeta",
		"faq-euc-meta", "faq-euc-nometa", "faq-euc-wrongmeta", "faq-utf16-bom",
	} {
		for _, original := range originals {
			name := filepath.Base(original)
			want, got := readFile(t, original), readFile(t, filepath.Join(dir, "derived", copied+".derived.test", name))
			a, b := shown(t, want, "text/html"), shown(t, got, "text/html")
			if a.Title != b.Title || !slices.Equal(a.Blocks, b.Blocks) {
				t.Errorf("%s/%s is shown with other words: %s", copied, name, told(Compare(a, b)))
			}
		}
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestPagesOfCorpus: the pages of the corpus are shown with all their words and without scripts. It
// tries one page in ten, and all with SHEAF_TEST_CORPUS=most.
func TestPagesOfCorpus(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	pages, step := 0, 10
	if os.Getenv("SHEAF_TEST_CORPUS") != "" {
		step = 1
	}
	each(t, testkit.Corpus(t, "./sites"), func(name string, body []byte) {
		if pages++; pages%step != 0 {
			return
		}
		a, err := Read(bytes.NewReader(body), "text/html")
		if err != nil {
			t.Fatal(err)
		}
		b := shown(t, body, "text/html")
		if a.Title != b.Title || !slices.Equal(a.Blocks, b.Blocks) {
			t.Errorf("%s is shown with other words: %.2000s", name, told(Compare(a, b)))
		}
	})
	if pages < 1000 {
		t.Errorf("%d pages only", pages)
	}
}

// each calls f for every HTML file below dir.
func each(t testing.TB, dir string, f func(name string, body []byte)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && (strings.HasSuffix(path, ".html") || strings.HasSuffix(path, ".htm")) {
			f(strings.TrimPrefix(path, dir), readFile(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkRewrite rewrites the corpus and reports bytes of pages a second.
func BenchmarkRewrite(b *testing.B) {
	var pages [][]byte
	size := 0
	each(b, testkit.Corpus(b, "./sites"), func(_ string, body []byte) {
		pages = append(pages, body)
		size += len(body)
	})
	b.SetBytes(int64(size))
	for b.Loop() {
		for _, body := range pages {
			d, err := Open(bytes.NewReader(body), "text/html", "http://h/d/p.html")
			if err != nil {
				b.Fatal(err)
			}
			if err := d.Rewrite(discard{}, then, false, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
