package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/ftp"
	"sheaf/internal/lease"
	"sheaf/internal/testkit"
	"sheaf/serve/reading"
	"sheaf/serve/results"
)

// tableSite is a service whose newest days have tables.
type tableSite struct {
	*site
	make    func()
	library func() *reading.Library // one that sees at once what was made
}

func newTableSite(t *testing.T) *tableSite {
	s := newSite(t)
	opt := results.TableOptions{
		Tree: s.Library.Tree, Files: s.Library.Results, Records: s.Library.Records, Store: s.Store, Leases: lease.NewDB(s.DB, nil, lease.Options{}), Days: 2, Every: time.Hour, Log: slog.New(slog.DiscardHandler),
	}
	tables, texts := results.NewTableMaker(opt), results.NewTextMaker(opt)
	library := func() *reading.Library {
		lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Accounts: s.Accounts})
		testkit.Must(t, err)
		return lib
	}
	fresh := func() results.TableOptions {
		lib, opt := library(), opt
		opt.Tree, opt.Files, opt.Records = lib.Tree, lib.Results, lib.Records
		return opt
	}
	s.publish(day, 2, 100, "www.waseda.ac.jp", "www.keio.ac.jp", "example.com")
	s.publish(day.AddDate(0, 0, 1), 2, 100, "www.waseda.ac.jp")
	s.publish(day.AddDate(0, 0, 2), 2, 100, "www.keio.ac.jp", "www.waseda.ac.jp")
	makeAll := func() {
		testkit.Must(t, tables.Update(t.Context()))
		testkit.Must(t, texts.Update(t.Context()))
		latest := results.NewCurrentMaker(results.CurrentOptions{Tree: fresh().Tree, Store: s.Store, Leases: opt.Leases, Domains: []string{"jp"}, Every: time.Nanosecond, Look: time.Hour, Log: opt.Log})
		testkit.Must(t, latest.Update(t.Context(), func(context.Context, time.Duration) error { return nil }))
		testkit.Must(t, results.NewLinkMaker(fresh()).Update(t.Context()))
	}
	return &tableSite{s, makeAll, library}
}

// tables returns which tables a mirror has, and expects that each holds what its SHA256SUMS says.
func (s *tableSite) tables(dir string) (names []string) {
	s.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*/2026*/*/00001.*"))
	testkit.Must(s.TB, err)
	for _, name := range found {
		rel, err := filepath.Rel(dir, name)
		testkit.Must(s.TB, err)
		names = append(names, filepath.ToSlash(rel))
		sums := exec.CommandContext(s.Context(), testkit.Tool(s.TB, "sha256sum"), "-c", "--quiet", "SHA256SUMS")
		sums.Dir = filepath.Dir(name)
		if out, err := sums.CombinedOutput(); err != nil {
			s.Errorf("%s: %v\n%s", rel, err, out)
		}
	}
	return names
}

func latestIn(edition string) (names []string) {
	for _, name := range []string{"inlinks", "linkhosts", "links"} {
		names = append(names, fmt.Sprintf("current/%s/jp/00001.%s.parquet", edition, name))
	}
	return names
}

func tablesIn(day string) (names []string) {
	for _, name := range []string{"hosts.parquet", "links.parquet", "records.parquet", "texts.parquet", "wet.gz"} {
		names = append(names, fmt.Sprintf("days/%s/jp/00001.%s", day, name))
	}
	return names
}

// A mirror has the tables that the service has, follows what becomes of them, and deletes those
// that nobody wants any more.
func TestTables(t *testing.T) {
	testkit.Slow(t)
	each(t, func(t *testing.T, scheme string) {
		s := newTableSite(t)
		s.make()
		opt := s.options(scheme, t.TempDir())
		opt.Tables = []string{"jp"}
		s.mirror(opt)
		want := slices.Concat(latestIn("20261103"), tablesIn("20261102"), tablesIn("20261103"))
		if got := s.tables(opt.Dir); !slices.Equal(got, want) {
			t.Errorf("the mirror has %q, want %q", got, want)
		}
		if sum := s.mirror(opt); sum.Fetched != 0 || sum.Deleted != 0 {
			t.Errorf("again: %+v", sum)
		}

		damaged := filepath.Join(opt.Dir, want[0])
		testkit.Must(t, os.WriteFile(damaged, bytes.Repeat([]byte("x"), 100), 0o600))
		opt.Check = true
		if sum := s.mirror(opt); sum.Fetched != 1 {
			t.Errorf("after damage: %+v", sum)
		}
		s.tables(opt.Dir)

		s.takeDown(catalog.Tombstone{Host: "www.keio.ac.jp"})
		s.mirror(opt)
		if got := s.tables(opt.Dir); !slices.Equal(got, tablesIn("20261102")) {
			t.Errorf("after a take-down the mirror has %q", got)
		}
		s.make()
		s.follows(opt, want...)
		for i := range 2 {
			s.publish(day.AddDate(0, 0, 3+i), 2, 100, "www.waseda.ac.jp")
			s.make()
		}
		s.follows(opt, slices.Concat(latestIn("20261104"), latestIn("20261105"), tablesIn("20261104"), tablesIn("20261105"))...)
		opt.Tables = nil
		s.mirror(opt)
		if got := s.tables(opt.Dir); got != nil {
			t.Errorf("nobody wants tables, and the mirror has %q", got)
		}
		s.equal(opt.Dir, japan)
	})
}

// follows expects the mirror to have these tables, once a service that has just started serves
// them: one at work may show what was there up to tree.TablesFreshFor ago.
func (s *tableSite) follows(opt Options, want ...string) {
	s.Helper()
	s.Library = s.library()
	scheme, _, _ := strings.Cut(opt.URL, ":")
	s.ftp = s.serveFTP(ftp.Config{})
	opt.URL = s.url(scheme, "alice")
	h := s.handler()
	s.intercept(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { h.ServeHTTP(w, r) })
	s.mirror(opt)
	if got := s.tables(opt.Dir); !slices.Equal(got, want) {
		s.Errorf("the mirror has %q, want %q", got, want)
	}
}

// A mirror that runs on without news asks for what may have come or gone, and for nothing else.
func TestTablesWithoutNews(t *testing.T) {
	m := &mirror{Options: Options{Tables: []string{"jp"}}}
	m.state.Tables = tablesOf{Days: []string{"20261101", "20261102", "20261103"}, until: time.Now().Add(-time.Second)}
	m.state.Pending = map[string]string{"/days/20261101/jp/": "is not there", "/current/20261031/jp/": "is not there", "/jp/": "is not there"}
	here := []string{"/days/20261031/jp/", "/days/20261101/jp/", "/days/20261102/jp/", "/current/20261101/jp/", "/current/20261102/jp/"}
	got := m.toRead(here, []string{"/current/20261102/jp/", "/current/20261103/jp/"})
	if want := []string{"/current/20261031/jp/", "/current/20261101/jp/", "/current/20261103/jp/", "/days/20261101/jp/", "/days/20261103/jp/"}; !slices.Equal(got, want) {
		t.Errorf("it asks for %q, want %q", got, want)
	}
}

// While the account's window is shut, tables in which something may be that was taken down are
// deleted, as nobody can say which ones.
func TestTablesOutsideTheWindow(t *testing.T) {
	s := newTableSite(t)
	s.make()
	opt := s.options("http", t.TempDir())
	opt.Tables = []string{"jp"}
	s.mirror(opt)
	s.takeDown(catalog.Tombstone{Host: "www.keio.ac.jp", URLPrefix: "http://www.keio.ac.jp/p1"})
	s.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.URL.Path, "/pub/") {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
	opt.MaxWait, opt.aside = 100*time.Millisecond, 10*time.Millisecond
	if _, err := Run(t.Context(), opt); err == nil {
		t.Error("the mirror is up to date, though it got no file")
	}
	if got := s.tables(opt.Dir); got != nil {
		t.Errorf("the mirror has %q", got)
	}
}

// A service that has made no tables yet has no folder of latest versions.
func TestNoTablesYet(t *testing.T) {
	each(t, func(t *testing.T, scheme string) {
		s := newTableSite(t)
		opt := s.options(scheme, t.TempDir())
		opt.Tables = []string{"jp"}
		s.mirror(opt)
		if got := s.tables(opt.Dir); got != nil {
			t.Errorf("the mirror has %q", got)
		}
	})
}

func TestTablesOfTopLevelDomains(t *testing.T) {
	_, err := Run(t.Context(), Options{URL: "http://127.0.0.1:1", Dir: t.TempDir(), Tables: []string{"ac.jp"}})
	if err == nil || !strings.Contains(err.Error(), `tables of "ac.jp": only top-level domains have them, such as jp`) {
		t.Error(errors.Join(errors.New("no clear refusal"), err))
	}
}
