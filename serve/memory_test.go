package serve_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
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
	days, captures, lines, most := 4, 2_500, 1_000, int64(50<<20)
	if testkit.Full() {
		days, captures, lines, most = 10, 100_000, 100_000, 300<<20
	}
	s := servetest.New(t, &account.Account{Name: account.Anonymous, Domains: []string{"jp"}})
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
	paths, begin := []string{"/ls-lR.gz", dir + "MANIFEST", dir + "SHA256SUMS"}, answersByHTTP(t, s, fmt.Sprintf("?limit=%d&url=%s/*", lines, host))
	for name := range begin {
		paths = append(paths, name)
	}
	for _, form := range []string{".tar.gz", ".members.tar.gz", ".warc.gz"} {
		to, err := s.Library.Bundles.New(t.Context(), everyone, form)
		testkit.Must(t, err)
		_, err = results.Gather(t.Context(), all, s.Library.Records, everyone, to, form, records.Budget{}, func() {})
		testkit.Must(t, err)
		b, err := to.Finish(t.Context())
		testkit.Must(t, err)
		paths = append(paths, "pages"+form)
		begin["pages"+form] = ofFile(t, func() (*library.File, error) { return s.Library.Bundles.Open(t.Context(), everyone, b, "pages") })
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
		if begin[path] == nil {
			begin[path] = ofFile(t, func() (*library.File, error) { return s.Library.Tree.Open(t.Context(), everyone, path) })
		}
		sizes, ends := make([]int64, readers), make([]func() error, readers)
		var opening errgroup.Group
		for i := range readers {
			opening.Go(func() (err error) {
				sizes[i], ends[i], err = begin[path](i)
				return err
			})
		}
		if err := opening.Wait(); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		grown := heap() - before
		t.Logf("%6d KiB for %d readers of %s, %d bytes", grown>>10, readers, path, sizes[0])
		if grown > most {
			t.Errorf("%s: %d MiB for %d readers, want %d at most", path, grown>>20, readers, most>>20)
		}
		for _, end := range ends {
			testkit.Must(t, end())
		}
	}
}

// beginning has the i-th of some readers begin to read something, and read no further. It returns
// how many bytes there are, and what ends the reading.
type beginning func(i int) (size int64, end func() error, err error)

// ofFile reads a file. Every other reader resumes in its middle.
func ofFile(t *testing.T, open func() (*library.File, error)) beginning {
	return func(i int) (int64, func() error, error) {
		f, err := open()
		if err != nil {
			return 0, nil, err
		}
		off := f.Size / 2 * int64(i%2)
		r, err := f.OpenRange(t.Context(), off, f.Size-off)
		if err != nil {
			return 0, nil, errors.Join(err, f.Close())
		}
		_, err = io.ReadFull(r, make([]byte, min(100, f.Size-off)))
		return f.Size, func() error { return errors.Join(r.Close(), f.Close()) }, err
	}
}

// answersByHTTP returns the long answers to a query, by name. Each reader is in a network of its
// own.
func answersByHTTP(t *testing.T, s *servetest.Site, asked string) map[string]beginning {
	t.Helper()
	router := mux.NewRouter()
	nobody := func(_ operators.Role, _ audit.Act, h http.Handler) http.Handler { return h }
	testkit.Must(t, httpd.Register(router, httpd.Options{Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Gate: nobody}))
	var one sync.Mutex // searches one after the other, of which there may be few at once
	all := make(map[string]beginning)
	for _, of := range []struct{ path, coding string }{
		{api.PathCDX, "identity"}, {api.PathCDX, "gzip"}, {api.PathTables + api.TableOfRecords, "gzip"}, {api.PathTables + api.TableOfLinks, "gzip"},
	} {
		all[of.path+" in "+of.coding] = func(i int) (int64, func() error, error) {
			one.Lock()
			defer one.Unlock()
			r := httptest.NewRequestWithContext(t.Context(), "GET", of.path+asked, nil)
			r.RemoteAddr = fmt.Sprintf("10.%d.0.1:1", i)
			r.Header.Set("Accept-Encoding", of.coding)
			w := &slowReader{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{}), let: make(chan struct{})}
			ended := make(chan struct{})
			go func() { defer close(ended); router.ServeHTTP(w, r) }()
			testkit.Receive(t, "the beginning of "+of.path, w.begun)
			if w.Code != http.StatusOK {
				return 0, nil, fmt.Errorf("status %d", w.Code)
			}
			size, _ := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64) // not said of what is compressed
			return size, func() error { close(w.let); <-ended; return nil }, nil
		}
	}
	return all
}

// slowReader takes nothing of an answer until let is closed.
type slowReader struct {
	*httptest.ResponseRecorder
	once       sync.Once
	begun, let chan struct{}
}

func (s *slowReader) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.let
	return len(p), nil
}
