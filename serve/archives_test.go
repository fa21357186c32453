package serve_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/cache"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
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
	memo := cache.NewMemo(256 << 20)
	from := &library.Library{Catalog: s.Catalog, Segments: &library.Segments{Store: s.Store, Memo: memo}, Memo: memo, Spools: library.NewSpools(1 << 30)}
	v, err := from.View(t.Context(), &account.Account{Name: "all", Domains: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	h, err := v.Host(t.Context(), "jp/ac/waseda/www")
	if err != nil {
		t.Fatal(err)
	}
	var segments []catalog.SegmentEntry // as if each edition had brought what the first one did
	for i := range n {
		segment := h.Segments[0]
		segment.Edition, segment.Seq = fmt.Sprintf("20261121-%d", i+2), segment.Seq+int64(i)
		segments = append(segments, segment)
	}
	host := v.HostOf(segments)
	start := time.Now()
	stop := errors.New("stop")
	err = host.Files(t.Context(), func(node library.Node) error {
		t.Logf("%d editions: first file, %s, after %v", n, node.Name, time.Since(start))
		return stop
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	files := make(map[string]bool)
	fixed, editions := 0, time.Duration(0)
	err = host.Files(t.Context(), func(node library.Node) error {
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
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files after %v, the editions' after %v", len(files), time.Since(start), editions)
	// Two forms an edition, current and all; MANIFEST and SHA256SUMS.
	if fixed != 2*n || len(files) != 2*n+4+2 || !files["all.warc.gz"] || !files["MANIFEST"] {
		t.Errorf("%d files, of which %d are editions'", len(files), fixed)
	}
}
