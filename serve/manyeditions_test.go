package serve_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// A host's directory with very many editions is listed as it is read, in time that
// grows with their number and not with its square: the first file comes before the last
// is looked at. By default there are 5,000 editions; SHEAF_TEST_EDITIONS=50000 makes it more.
func TestVeryManyEditionsOfAHost(t *testing.T) {
	testkit.Slow(t)
	n := 5_000
	if text := os.Getenv("SHEAF_TEST_EDITIONS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	s := servetest.New(t, nil)
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	s.Publish("20261121", map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page("http://www.waseda.ac.jp/", "waseda", at)}})
	const place = "jp/ac/waseda/www"
	start := time.Now()
	for node, err := range s.Library.FilesOfMany(t.Context(), everyone, place, n) {
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d editions: first file, %s, after %v", n, node.Name, time.Since(start))
		break
	}
	files := make(map[string]bool)
	fixed, editions := 0, time.Duration(0)
	for node, err := range s.Library.FilesOfMany(t.Context(), everyone, place, n) {
		if err != nil {
			t.Fatal(err)
		}
		if files[node.Name] {
			t.Fatalf("%s is listed twice", node.Name)
		}
		files[node.Name] = true
		if node.Fixed {
			fixed++
			if !strings.HasPrefix(node.Name, "20261121-") || node.Size == 0 || node.SHA256 == "" {
				t.Fatalf("%+v", node)
			}
			editions = time.Since(start)
		}
	}
	t.Logf("%d files after %v, the editions' after %v", len(files), time.Since(start), editions)
	// Two forms an edition, current and all; MANIFEST and SHA256SUMS.
	if fixed != 2*n || len(files) != 2*n+4+2 || !files["all.warc.gz"] || !files["MANIFEST"] {
		t.Errorf("%d files, of which %d are editions'", len(files), fixed)
	}
}
