package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"

	"sheaf/internal/testkit"
)

// The tar file of a page says why it is not whole, as its WARC record does. A segment in which it
// does not say so is refused.
func TestTruncatedInTar(t *testing.T) {
	f := *newForge(t)
	data, _ := f.build()
	_, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Host: testHost})
	testkit.Must(t, err)
	z, err := gzip.NewReader(bytes.NewReader(data))
	testkit.Must(t, err)
	said := make(map[string]string)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		testkit.Must(t, err)
		said[h.Name] = h.PAXRecords["SCHILY.xattr.user.warc.truncated"]
	}
	cut := 0
	for _, c := range f.was {
		if c.Kind == Page && said[c.Name] != c.Truncated {
			t.Errorf("%s: %q in the tar, %q in the WARC record", c.URL, said[c.Name], c.Truncated)
		}
		if c.Kind != Page || c.Truncated == "" {
			continue
		}
		cut++
		e := c.tarEntry()
		e.truncated = ""
		for i := range f.was {
			if f.was[i].URL == c.URL {
				fresh := *f.cells[i]
				fresh.headers = e.headers()
				f.cells[i] = &fresh
			}
		}
	}
	if cut == 0 {
		t.Fatal("no page is cut")
	}
	data, _ = f.build()
	if _, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Host: testHost}); err == nil {
		t.Error("a tar file that hides that its page is cut is accepted")
	}
}
