package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/urlindex"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/lease"
	"sheaf/internal/operators"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/records"
	"sheaf/serve/replay"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
)

// Sixty readers who have all begun to read a file, and read on slowly, cost the service no more
// memory than its cache may take and a little: whatever the file is, and however many records it is
// made of. These are 6,000, for which 30 MiB are allowed; with SHEAF_TEST_FULL=1 it is a million
// and 300 MiB.
func TestSlowReadersCostNoMemory(t *testing.T) {
	testkit.Slow(t)
	const (
		readers = 60
		host    = "www.waseda.ac.jp"
	)
	days, captures, lines, most := 4, 1_500, 500, int64(30<<20)
	if testkit.Full() {
		days, captures, lines, most = 10, 100_000, 20_000, 300<<20 // a million records; if each reader had these lines, they took 340 MB
	}
	s := servetest.New(t, &account.Account{Name: account.Anonymous, Domains: []string{"jp"}})
	const again = "http://" + host + "/again" // has as many versions as there may be
	first := time.Date(2026, 11, 1, 3, 0, 0, 0, time.UTC)
	var editions []string
	for day := range days {
		batch := make([]*archive.Record, captures)
		at := first.AddDate(0, 0, day)
		for i := range batch {
			page := fmt.Sprintf("http://%s/documents/of-the-day-%d/page-%07d.html", host, day, i)
			batch[i] = servetest.Page(page, fmt.Sprintf("page %d of %d", i, day), at)
			batch[i].Links = []archive.Link{{URL: page + "/next", Kind: "a", Anchor: "next"}, {URL: "http://www.keio.ac.jp/", Kind: "a"}}
			if i%4 == 1 {
				batch[i] = servetest.Again(again, "again", first, at.Add(time.Duration(i)*100*time.Millisecond))
			}
		}
		batch[1] = servetest.Page(again, "again", first)
		s.Others = map[string]string{host: strings.Repeat(beside("http://"+host+"/other"), captures)}
		editions = append(editions, s.Publish(at.AddDate(0, 0, 1).Format("20060102"), map[string][]*archive.Record{host: batch}))
		covered(t, s, fmt.Sprintf("r1-%sT000000Z-%d", editions[day], day+1), at, captures/10)
	}
	made(t, s)
	// As a page of the second edition is taken down, none of that edition's files is a stored one.
	_, err := s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: host, URLPrefix: "http://" + host + "/documents/of-the-day-1/page-0000002.html", Reason: "asked", By: "op"})
	testkit.Must(t, err)

	linked(t, s)

	const dir = "/jp/ac/waseda/www/"
	all, err := records.ParseQuery(url.Values{"url": {host + "/*"}, "limit": {"20000"}}, nil)
	testkit.Must(t, err)
	paths, begin := filesOfTheTree(t, s), answersByHTTP(t, s, map[string]string{
		api.PathCDX:                             fmt.Sprintf("?limit=%d&url=%s/*", lines, host),
		api.PathTables + api.TableOfRecords:     fmt.Sprintf("?limit=%d&url=%s/*", lines, host),
		api.PathTables + api.TableOfLinks:       fmt.Sprintf("?limit=%d&url=%s/*", lines, host),
		api.PathTables + api.TableOfHosts:       "?url=jp&matchType=domain",
		api.PathCoverage:                        "?limit=10000&url=jp&matchType=domain",
		api.PathInlinks:                         "?limit=10000&url=www.keio.ac.jp",
		api.PathInlinkHosts:                     "?limit=10000&url=www.keio.ac.jp",
		api.PathChanges:                         "?since=0&limit=1000",
		api.PathHosts:                           "",
		api.PathTimeMap + "link/" + again:       "",
		api.PathTimeMap + "json/" + again:       "",
		replay.Path(first, replay.Plain, again): "",
		replay.Path(first, replay.Bytes, again): "",
		replay.VersionsPath(again):              "",
	})
	for name := range begin {
		paths = append(paths, name)
	}
	for _, form := range []string{".tar.gz", ".members.tar.gz", ".warc.gz"} {
		to, err := s.Library.Results.NewBundle(t.Context(), everyone, form)
		testkit.Must(t, err)
		_, err = results.Gather(t.Context(), all, s.Library.Records, everyone, to, form, records.Budget{}, func() {})
		testkit.Must(t, err)
		b, err := to.Finish(t.Context())
		testkit.Must(t, err)
		paths = append(paths, "pages"+form)
		begin["pages"+form] = ofFile(t, func() (*library.File, error) { return s.Library.Results.Open(t.Context(), everyone, b, "pages") })
	}
	paths = append(paths, "/days/"+editions[1]+"/jp/changes.jsonl.gz", "/days/"+editions[1]+"/jp/changes.parquet")
	for _, base := range []string{editions[0], editions[1], editions[0] + "-" + editions[1], "current", "all"} {
		for _, form := range []string{".members.tar.gz", ".tar.gz", ".warc.gz", ".cdxj", ".wacz", ".links.gz", ".others.warc.gz"} {
			if base+form != "current.others.warc.gz" { // they stand for no page
				paths = append(paths, dir+base+form)
			}
		}
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

// covered stores the manifest of a batch, with what was not collected of many hosts.
func covered(t *testing.T, s *servetest.Site, batch string, at time.Time, hosts int) {
	t.Helper()
	m := wire.Manifest{Format: wire.ManifestFormat, Batch: wire.BatchID(batch), Robot: "r1", Created: at, Size: 1, SHA256: strings.Repeat("0", 64)}
	for i := range hosts {
		c := wire.Coverage{Host: fmt.Sprintf("host-%06d.ac.jp", i), Collected: 3, Failed: map[string]int64{"timeout": 2}, Answers: map[string]int64{"404": 1}}
		for page := range 4 {
			c.URLs = append(c.URLs, wire.CoveredURL{URL: fmt.Sprintf("http://%s/%s/%d", c.Host, strings.Repeat("long/", 20), page), Why: "failed timeout"})
		}
		m.Coverage = append(m.Coverage, c)
	}
	data, err := m.Unsigned()
	testkit.Must(t, err)
	testkit.Must(t, s.Store.Put(t.Context(), wire.ManifestKey(m.Batch), bytes.NewReader(data), int64(len(data))))
}

// made makes the files that are not made for readers, and has readers find them.
func made(t *testing.T, s *servetest.Site) {
	t.Helper()
	leases, quiet := lease.NewDB(s.DB, nil, lease.Options{TTL: time.Hour}), slog.New(slog.DiscardHandler)
	tables := results.NewTableMaker(results.TableOptions{
		Tree: s.Library.Tree, Files: s.Library.Results, Records: s.Library.Records, Store: s.Store, Leases: leases, Days: 1, Every: time.Hour, Log: quiet,
	})
	finish(t, tables)
	latest := results.NewCurrentMaker(results.CurrentOptions{Tree: s.Library.Tree, Store: s.Store, Leases: leases, Domains: []string{"jp"}, Every: time.Hour, Look: time.Hour, Log: quiet})
	testkit.Must(t, latest.Update(t.Context(), func(context.Context, time.Duration) error { return nil }))
	s.Index()
	fresh(t, s)
}

// finish makes what m makes, in as many passes as that takes.
func finish(t *testing.T, m *results.TableMaker) {
	t.Helper()
	var err error
	for range 20 {
		if err = m.Update(t.Context()); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// fresh has readers find what was made.
func fresh(t *testing.T, s *servetest.Site) {
	t.Helper()
	var err error
	s.Library, err = reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Accounts: s.Accounts, URLs: urlindex.NewReader(s.Store, urlindex.ReaderOptions{})})
	testkit.Must(t, err)
}

// linked makes the tables of the links of the latest versions.
func linked(t *testing.T, s *servetest.Site) {
	t.Helper()
	links := results.NewLinkMaker(results.TableOptions{
		Tree: s.Library.Tree, Files: s.Library.Results, Records: s.Library.Records, Store: s.Store, Leases: lease.NewDB(s.DB, nil, lease.Options{TTL: time.Hour}), Every: time.Hour, Log: slog.New(slog.DiscardHandler),
	})
	finish(t, links)
	fresh(t, s)
}

// filesOfTheTree returns the paths of all listed files but those of hosts. Of files that differ by
// numbers only, such as the editions', it returns the last one.
func filesOfTheTree(t *testing.T, s *servetest.Site) []string {
	t.Helper()
	kinds, numbers := make(map[string]string), regexp.MustCompile(`\d+`)
	var walk func(dir string)
	walk = func(dir string) {
		for n, err := range s.Library.Tree.List(t.Context(), everyone, dir) {
			testkit.Must(t, err)
			if path := dir + n.Name; n.Dir {
				walk(path + "/")
			} else {
				kinds[numbers.ReplaceAllString(path, "N")] = path
			}
		}
	}
	walk("/")
	return append(slices.Sorted(maps.Values(kinds)), "/ls-lR.gz")
}

// answersByHTTP returns the long answers to requests, whose queries asked has by path. Each reader
// is in a network of its own.
func answersByHTTP(t *testing.T, s *servetest.Site, asked map[string]string) map[string]beginning {
	t.Helper()
	router := mux.NewRouter()
	nobody := func(_ operators.Role, _ audit.Act, h http.Handler) http.Handler { return h }
	testkit.Must(t, httpd.Register(router, httpd.Options{Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Gate: nobody}))
	var one sync.Mutex // searches one after the other, of which there may be few at once
	all := make(map[string]beginning)
	for path, query := range asked {
		of := func(coding string) beginning {
			return func(i int) (int64, func() error, error) {
				one.Lock()
				defer one.Unlock()
				r := httptest.NewRequestWithContext(t.Context(), "GET", path+query, nil)
				r.RemoteAddr = fmt.Sprintf("10.%d.0.1:1", i)
				r.Header.Set("Accept-Encoding", coding)
				w := &slowReader{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{}), let: make(chan struct{})}
				ended := make(chan struct{})
				go func() { defer close(ended); router.ServeHTTP(w, r) }()
				testkit.Receive(t, "the beginning of "+path, w.begun)
				if w.Code != http.StatusOK {
					return 0, func() error { close(w.let); <-ended; return nil }, fmt.Errorf("status %d", w.Code)
				}
				size, _ := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64) // not said of what is compressed
				return size, func() error { close(w.let); <-ended; return nil }, nil
			}
		}
		all[path] = of("gzip")
		if path == api.PathCDX {
			all[path+" as it is"] = of("identity")
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
