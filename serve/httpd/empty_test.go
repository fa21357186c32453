package httpd_test

import (
	"testing"

	"sheaf/archive/catalog"
)

// TestEmptyFile fetches an empty file: the digests of an edition whose hosts are all taken down.
func TestEmptyFile(t *testing.T) {
	s := newSite(t)
	for _, stone := range []catalog.Tombstone{{Host: "www.keio.ac.jp"}, {Host: host}} {
		stone.Reason, stone.By = "r", "b"
		if _, err := s.Catalog.Remove(t.Context(), stone); err != nil {
			t.Fatal(err)
		}
	}
	for _, method := range []string{"GET", "HEAD"} {
		if resp, body := s.do(t, method, "jp", "/pub/editions/20261121/SHA256SUMS"); resp.StatusCode != 200 || resp.ContentLength != 0 || len(body) != 0 {
			t.Errorf("%s: %s, %d of %d bytes: %s", method, resp.Status, len(body), resp.ContentLength, body)
		}
	}
}
