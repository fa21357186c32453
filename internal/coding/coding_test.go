package coding

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

func gz(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

func zl(s string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name, body, want string
		values           []string
		removed          bool
	}{
		{"none", "page", "page", nil, false},
		{"gzip", gz("page"), "page", []string{"gzip"}, true},
		{"two members and rubbish", gz("one ") + gz("two") + "rubbish", "one two", []string{"x-gzip"}, true},
		{"declared and not there", "<html>", "<html>", []string{"gzip"}, true},
		{"two codings", gz(zl("page")), "page", []string{"deflate, gzip"}, true},
		{"unknown", "page", "page", []string{"sdch"}, false},
		{"unknown beneath", gz("page"), gz("page"), []string{"sdch", "gzip"}, false},
		{"empty", "", "", []string{"br"}, true},
		{"br declared and not there", "<html><p>page", "<html><p>page", []string{"br"}, true},
		{"deflate declared and not there", "<html><p>page", "<html><p>page", []string{"deflate"}, true},
		{"zstd declared and not there", "<html><p>\xe6\x97\xa5", "<html><p>\xe6\x97\xa5", []string{"zstd"}, true},
		{"too many", "page", "page", []string{strings.Repeat("gzip,", 9)}, false},
	} {
		d, err := Decode(strings.NewReader(c.body), c.values)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, err := io.ReadAll(d)
		if err != nil || string(got) != c.want || d.Removed != c.removed {
			t.Errorf("%s: %q, %v, removed %v", c.name, got, err, d.Removed)
		}
		d.Close()
	}
}

// What is cut or damaged is decoded as far as it goes.
func TestDecodeCut(t *testing.T) {
	var page strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&page, "<p>%d %d</p>", i, i*7919%10007)
	}
	packed := map[string]string{"gzip": gz(page.String()), "deflate": zl(page.String()), "br": encoded(t, page.String(), func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) }),
		"zstd": encoded(t, page.String(), func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w, zstd.WithWindowSize(1<<12))
			if err != nil {
				t.Fatal(err)
			}
			return z
		})}
	for name, whole := range packed {
		d, err := Decode(strings.NewReader(whole[:len(whole)-len(whole)/4]), []string{name})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(d)
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) < page.Len()/4 || !strings.HasPrefix(page.String(), string(got)) {
			t.Errorf("%s: %d of %d bytes, %v", name, len(got), page.Len(), err)
		}
		d.Close()
	}
}

func encoded(t *testing.T, s string, coder func(io.Writer) io.WriteCloser) string {
	t.Helper()
	var b bytes.Buffer
	w := coder(&b)
	_, err := io.WriteString(w, s)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
