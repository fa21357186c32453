package coding

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"testing"
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
