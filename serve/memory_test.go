package serve_test

import (
	"fmt"
	"io"
	"net/url"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
	"sheaf/serve/library"
	"sheaf/serve/records"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
)

// Sixty readers who have all begun to read a file, and read on slowly, cost the service no more
// memory than its cache may take and a little: whatever the file is, and however many records it is
// made of. These are 10,000, for which 50 MiB are allowed; with SHEAF_TEST_FULL=1 it is a million
// and 300 MiB.
func TestSlowReadersCostNoMemory(t *testing.T) {
	testkit.Slow(t)
	const (
		readers = 60
		host    = "www.waseda.ac.jp"
	)
	days, captures, most := 4, 2_500, int64(50<<20)
	if testkit.Full() {
		days, captures, most = 10, 100_000, 300<<20
	}
	s := servetest.New(t, nil)
	var editions []string
	for day := range days {
		batch := make([]*archive.Record, captures)
		at := time.Date(2026, 11, 1+day, 3, 0, 0, 0, time.UTC)
		for i := range batch {
			page := fmt.Sprintf("http://%s/documents/of-the-day-%d/page-%07d.html", host, day, i)
			batch[i] = servetest.Page(page, fmt.Sprintf("page %d of %d", i, day), at)
			batch[i].Links = []archive.Link{{URL: page + "/next", Kind: "a"}}
		}
		editions = append(editions, s.Publish(at.AddDate(0, 0, 1).Format("20060102"), map[string][]*archive.Record{host: batch}))
	}
	// As a page of the second edition is taken down, none of that edition's files is a stored one.
	_, err := s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: host, URLPrefix: "http://" + host + "/documents/of-the-day-1/page-0000001.html", Reason: "asked", By: "op"})
	testkit.Must(t, err)

	const dir = "/jp/ac/waseda/www/"
	all, err := records.ParseQuery(url.Values{"url": {host + "/*"}, "limit": {"100000"}}, nil)
	testkit.Must(t, err)
	paths, answers := []string{"/ls-lR.gz", dir + "MANIFEST", dir + "SHA256SUMS"}, make(map[string]func() (*library.File, error))
	for _, form := range []string{".tar.gz", ".members.tar.gz", ".warc.gz"} {
		to, err := s.Library.Bundles.New(t.Context(), everyone, form)
		testkit.Must(t, err)
		_, err = results.Gather(t.Context(), all, s.Library.Records, everyone, to, form, records.Budget{}, func() {})
		testkit.Must(t, err)
		b, err := to.Finish(t.Context())
		testkit.Must(t, err)
		paths = append(paths, "pages"+form)
		answers["pages"+form] = func() (*library.File, error) { return s.Library.Bundles.Open(t.Context(), everyone, b, "pages") }
	}
	for _, base := range []string{editions[0], editions[1], "current", "all"} {
		for _, form := range []string{".members.tar.gz", ".tar.gz", ".warc.gz", ".cdxj", ".wacz", ".links.gz"} {
			paths = append(paths, dir+base+form)
		}
	}
	for n, err := range s.Library.Tree.List(t.Context(), everyone, "/days/"+editions[0]+"/jp") {
		testkit.Must(t, err)
		paths = append(paths, "/days/"+editions[0]+"/jp/"+n.Name)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for _, path := range paths {
		files, ranges := make([]*library.File, readers), make([]io.ReadCloser, readers)
		var opening errgroup.Group
		for i := range readers {
			opening.Go(func() (err error) {
				open := answers[path]
				if open == nil {
					open = func() (*library.File, error) { return s.Library.Tree.Open(t.Context(), everyone, path) }
				}
				if files[i], err = open(); err != nil {
					return err
				}
				off := files[i].Size / 2 * int64(i%2) // half of them resume
				if ranges[i], err = files[i].OpenRange(t.Context(), off, files[i].Size-off); err == nil {
					_, err = io.ReadFull(ranges[i], make([]byte, min(100, files[i].Size-off)))
				}
				return err
			})
		}
		if err := opening.Wait(); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		grown := heap() - before
		t.Logf("%6d KiB for %d readers of %s, %d bytes", grown>>10, readers, path, files[0].Size)
		if grown > most {
			t.Errorf("%s: %d MiB for %d readers, want %d at most", path, grown>>20, readers, most>>20)
		}
		for i := range readers {
			testkit.Must(t, ranges[i].Close())
			testkit.Must(t, files[i].Close())
		}
	}
}
