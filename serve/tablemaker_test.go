package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/lease"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
	"sheaf/serve/tree"
)

const inJP = "/days/20261120/jp/"

// tableSite is an archive whose tables are made.
type tableSite struct {
	*servetest.Site
	t     *testing.T
	rules *account.Rules
	grace time.Duration
	maker func(days int) *results.TableMaker
}

func newTableSite(t *testing.T) *tableSite {
	s := &tableSite{Site: servetest.New(t, nil), t: t}
	s.rules = account.NewRules(s.DB, slog.New(slog.DiscardHandler))
	var err error
	s.Library, err = reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Accounts: s.Accounts, Rules: s.rules, Volume: 8 << 10})
	testkit.Must(t, err)
	leases := lease.NewDB(s.DB, nil, lease.Options{})
	s.maker = func(days int) *results.TableMaker {
		return results.NewTableMaker(results.TableOptions{
			Tree: s.Library.Tree, Files: s.Library.Results, Records: s.Library.Records, Store: s.Store, Leases: leases, Days: days, Every: time.Hour, Grace: s.grace, Log: slog.New(slog.DiscardHandler),
		})
	}
	batch := make(map[string][]*archive.Record)
	for i := range 6 {
		host := fmt.Sprintf("www.u%d.ac.jp", i)
		for _, path := range []string{"", "a", "secret/b"} {
			batch[host] = append(batch[host], servetest.Page("http://"+host+"/"+path, host+strings.Repeat(path, 300), dayOne))
		}
	}
	batch["example.com"] = []*archive.Record{servetest.Page("http://example.com/", "com", dayOne)}
	s.Publish("20261120", batch)
	return s
}

// read returns a file, or nil if the account sees none at the path.
func (s *tableSite) read(a *account.Account, path string) []byte {
	s.t.Helper()
	return readIfAny(s.t, s.Library, a, path)
}

// urls returns what the tables of records of a domain's volumes have, as the MANIFEST lists them.
func (s *tableSite) urls(a *account.Account, dir string) (urls []string) {
	s.t.Helper()
	for line := range bytes.Lines(s.read(a, dir+"MANIFEST")) {
		var of library.ManifestLine
		testkit.Must(s.t, json.Unmarshal(line, &of))
		if !strings.HasSuffix(of.Path, ".records.parquet") {
			continue
		}
		data := s.read(a, dir+of.Path)
		if int64(len(data)) != of.Size || servetest.SHA256(data) != of.SHA256 {
			s.t.Errorf("%s is not what the MANIFEST says", of.Path)
		}
		rows, err := parquet.Read[struct {
			URL      string `parquet:"url"`
			Filename string `parquet:"warc_filename"`
			Offset   int64  `parquet:"warc_record_offset"`
		}](bytes.NewReader(data), of.Size)
		testkit.Must(s.t, err)
		for _, r := range rows {
			urls = append(urls, r.URL)
			if warc := s.read(a, "/"+r.Filename); int64(len(warc)) <= r.Offset {
				s.t.Errorf("%s: no record at %d of %s", r.URL, r.Offset, r.Filename)
			}
		}
	}
	return urls
}

func (s *tableSite) update(m *results.TableMaker) {
	s.t.Helper()
	testkit.Must(s.t, m.Update(s.t.Context()))
}

// fresh waits until readers look for tables again.
func (s *tableSite) fresh() {
	var err error
	s.Library, err = reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Accounts: s.Accounts, Rules: s.rules, Volume: 8 << 10})
	testkit.Must(s.t, err)
}

// An edition has tables of each volume of its domains: rows for all of its records, in the order of
// the tree.
func TestTablesOfVolumes(t *testing.T) {
	t.Parallel()
	s := newTableSite(t)
	m := s.maker(1)
	s.update(m)
	got := s.urls(everyone, inJP)
	if len(got) != 18 || got[0] != "http://www.u0.ac.jp/" || got[17] != "http://www.u5.ac.jp/secret/b" {
		t.Errorf("the tables of jp have %q", got)
	}
	if got := s.urls(everyone, "/days/20261120/com/"); len(got) != 1 {
		t.Errorf("those of com have %q", got)
	}
	var names []string
	for n, err := range s.Library.Tree.List(t.Context(), everyone, inJP) {
		testkit.Must(t, err)
		names = append(names, n.Name)
	}
	all := strings.Join(names, " ")
	for _, name := range []string{"00001.tar.gz", "00001.records.parquet", "00002.hosts.parquet", "00002.links.parquet", "MANIFEST"} {
		if !strings.Contains(all, name) {
			t.Errorf("%s is not in %s", name, all)
		}
	}
	// Nothing is made twice, nor by another process.
	before := s.keys()
	s.update(m)
	s.update(s.maker(1))
	if now := s.keys(); now != before {
		t.Errorf("made again: %s, was %s", now, before)
	}
	// Only the newest days have tables.
	s.Publish("20261121", map[string][]*archive.Record{"www.u1.ac.jp": {servetest.Page("http://www.u1.ac.jp/new", "new", dayOne.AddDate(0, 0, 1))}})
	s.update(m)
	s.fresh()
	if got := s.urls(everyone, inJP); got != nil {
		t.Errorf("the day before still has %q", got)
	}
	if got := s.urls(everyone, "/days/20261121/jp/"); len(got) != 1 {
		t.Errorf("the newest day has %q", got)
	}
	s.update(s.maker(0))
	if keys := s.keys(); keys != "" {
		t.Errorf("without days there are %s", keys)
	}
}

// keys returns the keys of all tables.
func (s *tableSite) keys() string {
	s.t.Helper()
	var keys []string
	for info, err := range s.Store.List(context.Background(), tree.TablesPrefix, "") {
		testkit.Must(s.t, err)
		keys = append(keys, info.Key)
	}
	return strings.Join(keys, "\n")
}

// A table is not to be seen from the moment in which something of its volume is taken down, until
// it is made again; tables of other volumes stay.
func TestTablesAndTakeDown(t *testing.T) {
	t.Parallel()
	s := newTableSite(t)
	m := s.maker(3)
	s.update(m)
	const table = inJP + "00001.records.parquet"
	was := s.read(everyone, table)
	for _, stone := range []catalog.Tombstone{
		{Host: "www.u0.ac.jp", URLPrefix: "http://www.u0.ac.jp/secret/", Reason: "asked", By: "op"}, {Host: "www.u0.ac.jp", Reason: "asked", By: "op"},
	} {
		_, err := s.Catalog.Remove(t.Context(), stone)
		testkit.Must(t, err)
		if s.read(everyone, table) != nil {
			t.Fatal("the table of before is still there")
		}
		for _, name := range tree.VolumeTables {
			if s.read(everyone, inJP+"00002."+name) == nil {
				t.Errorf("%s of another volume is gone", name)
			}
		}
		s.update(m)
		s.fresh()
		for _, url := range s.urls(everyone, inJP) {
			if strings.HasPrefix(url, "http://"+stone.Host+"/"+strings.TrimPrefix(stone.URLPrefix, "http://"+stone.Host+"/")) {
				t.Errorf("%s is in a table", url)
			}
		}
		if s.read(everyone, table) == nil {
			t.Error("the table is not made again")
		}
		if n := strings.Count(s.keys(), "/00001-"); n != 2*len(tree.VolumeTables) { // of jp and com
			t.Errorf("%d tables of volumes 00001 are stored", n)
		}
	}
	for _, of := range []catalog.Tombstone{{Host: "www.u0.ac.jp"}, {Host: "www.u0.ac.jp", URLPrefix: "http://www.u0.ac.jp/secret/"}} {
		_, err := s.Catalog.Restore(t.Context(), of)
		testkit.Must(t, err)
	}
	s.update(m)
	s.fresh()
	if got := s.read(everyone, table); !bytes.Equal(got, was) {
		t.Error("the take-downs are lifted, and the table is another")
	}
}

// Who sees less of a volume, or more than everybody does, does not see its tables.
func TestTablesWithinScope(t *testing.T) {
	t.Parallel()
	s := newTableSite(t)
	_, err := s.rules.Add(t.Context(), account.Rule{Domain: "www.u4.ac.jp", Accounts: []string{"alice"}, Reason: "contract"})
	testkit.Must(t, err)
	m := s.maker(3)
	s.update(m)
	for _, url := range s.urls(everyone, inJP) {
		if strings.HasPrefix(url, "http://www.u4.") {
			t.Errorf("%s is hidden", url)
		}
	}
	if got := s.urls(everyone, inJP); len(got) != 15 {
		t.Errorf("everybody sees %d records, want 15", len(got))
	}
	alice := &account.Account{Name: "alice", Domains: []string{"*"}}
	part := s.Account("part", "always", "www.u0.ac.jp", "www.u5.ac.jp")
	for _, a := range []*account.Account{alice, part} {
		for _, url := range s.urls(a, inJP) {
			if strings.HasPrefix(url, "http://www.u4.") || !a.Covers(strings.Split(url, "/")[2]) {
				t.Errorf("%s sees %s", a.Name, url)
			}
		}
	}
	// When the rule is lifted, everybody gets what was hidden.
	list, err := s.rules.List(t.Context())
	testkit.Must(t, err)
	testkit.Must(t, s.rules.Remove(t.Context(), list[0].ID))
	s.update(m)
	s.fresh()
	if got := s.urls(everyone, inJP); len(got) != 18 {
		t.Errorf("without the rule everybody sees %d records, want 18", len(got))
	}
}

// A table that nobody sees any more is kept for a while. If what was hidden is to be seen again by
// then, the table is, at once.
func TestTablesComeBack(t *testing.T) {
	t.Parallel()
	s := newTableSite(t)
	s.grace = time.Hour
	m := s.maker(3)
	s.update(m)
	const table = inJP + "00001.records.parquet"
	was, keys := s.read(everyone, table), s.keys()
	stone := catalog.Tombstone{Host: "www.u0.ac.jp", Reason: "asked", By: "op"}
	_, err := s.Catalog.Remove(t.Context(), stone)
	testkit.Must(t, err)
	s.update(m)
	if now := s.keys(); len(now) <= len(keys) {
		t.Errorf("no table was made: %s", now)
	}
	_, err = s.Catalog.Restore(t.Context(), catalog.Tombstone{Host: "www.u0.ac.jp"})
	testkit.Must(t, err)
	if got := s.read(everyone, table); !bytes.Equal(got, was) {
		t.Error("the table is not there again")
	}
}

// A day has tables of all that its editions brought, of those of express batches, too.
func TestTablesOfADay(t *testing.T) {
	t.Parallel()
	s := newTableSite(t)
	m := s.maker(1)
	for n := range 4 {
		at := dayOne.Add(time.Duration(n+1) * time.Hour)
		s.Publish("20261120", map[string][]*archive.Record{"www.u1.ac.jp": {servetest.Page("http://www.u1.ac.jp/new", fmt.Sprint(n), at)}})
		s.update(m)
	}
	s.fresh()
	if got := s.urls(everyone, inJP); len(got) != 18+4 {
		t.Errorf("the day's tables have %q", got)
	}
}
