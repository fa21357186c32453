package serve_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

// crawl is what a robot brings of one host from day to day: full records of new
// and changed pages, revisits of some that are as they were, pages that broke off,
// and failures.
type crawl struct {
	host   string
	random *rand.Rand
	bodies []string // of each page as it was last stored; empty: gone, or never there
	since  []time.Time
}

func (c *crawl) url(i int) string { return fmt.Sprintf("http://%s/p%d.html", c.host, i) }

func (c *crawl) day(at time.Time) (captures []*archive.Record) {
	for i := range c.bodies {
		at = at.Add(time.Second)
		switch n := c.random.IntN(20); {
		case c.bodies[i] == "" && n < 12, n < 2: // new, or changed
			c.bodies[i], c.since[i] = fmt.Sprintf("%s page %d of %v", strings.Repeat("x", i), i, at), at
			captures = append(captures, servetest.Page(c.url(i), c.bodies[i], at))
		case c.bodies[i] == "":
			captures = append(captures, servetest.Answer(c.url(i), []int{404, 503}[n%2], at))
		case n < 10:
			captures = append(captures, servetest.Again(c.url(i), c.bodies[i], c.since[i], at))
		case n == 10:
			c.bodies[i] = ""
			captures = append(captures, servetest.Answer(c.url(i), 410, at))
		case n == 11:
			captures = append(captures, servetest.Answer(c.url(i), 503, at))
		case n < 15:
			broken := servetest.Page(c.url(i), fmt.Sprintf("a part of page %d of %v", i, at), at)
			broken.Truncated = archive.TruncatedDisconnect
			captures = append(captures, broken)
		}
	}
	if len(captures) == 0 {
		captures = append(captures, servetest.Answer(c.url(0), 503, at))
	}
	return captures
}

// passing is a clock that starts now and goes on when it is told to.
type passing struct{ ahead time.Duration }

func (p *passing) now() time.Time { return time.Now().Add(p.ahead) }

// history publishes days of crawls, each a day after the other.
func history(t *testing.T, clock *passing, days int, hosts ...string) *servetest.Site {
	s := servetest.New(t, nil)
	var err error
	if s.Catalog, err = catalog.Open(t.Context(), s.Store, catalog.Options{Now: clock.now, Fanout: 3}); err != nil {
		t.Fatal(err)
	}
	if s.Library, err = reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store}); err != nil {
		t.Fatal(err)
	}
	var crawls []*crawl
	for i, host := range hosts {
		crawls = append(crawls, &crawl{host, rand.New(rand.NewPCG(uint64(i), 7)), make([]string, 6), make([]time.Time, 6)})
	}
	for d := range days {
		captures := make(map[string][]*archive.Record)
		for i, c := range crawls {
			if d%(i+1) == 0 { // some are visited less often
				captures[c.host] = c.day(clock.now().UTC().Truncate(time.Second))
			}
		}
		s.Publish(clock.now().UTC().Format("20060102"), captures)
		if err := s.Catalog.Merge(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.ahead += 24 * time.Hour
	}
	return s
}

// shown is what readers have of a host now.
func shown(t *testing.T, s *servetest.Site, host string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, name := range []string{"current.tar.gz", "current.warc.gz", "current.members.tar.gz", "current.cdxj"} {
		f, err := s.Library.Tree.Open(t.Context(), everyone, "/"+naming.HostPath(host)+"/"+name)
		if err != nil {
			t.Fatal(err)
		}
		files[name], files[name+" ETag"] = string(readFile(t, f)), f.ETag
		if name == "current.cdxj" {
			files[name+" ETag"] = ""
		}
	}
	return files
}

func linesOf(t *testing.T, s *servetest.Site, host string) []catalog.SegmentEntry {
	t.Helper()
	snap, err := s.Catalog.Pin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	lines, err := snap.Host(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// revisits gives those of the lines' revisits that refer to a record of the lines, and all of them.
func revisits(t *testing.T, s *servetest.Site, lines []catalog.SegmentEntry) (resolved, all map[string]bool) {
	t.Helper()
	there := make(map[string]bool)
	var cells []archive.Cell
	for _, l := range lines {
		x, err := archive.ReadIndexAt(t.Context(), store.Source(s.Store, l.Object, l.Offset), l.IndexOffset, l.IndexLength)
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, x.Cells...)
	}
	for _, c := range cells {
		if c.Kind != archive.Revisit {
			there[fmt.Sprint(c.URL, c.Time.UTC(), c.Digest)] = true
		}
	}
	resolved, all = make(map[string]bool), make(map[string]bool)
	for _, c := range cells {
		if c.Kind == archive.Revisit {
			name := fmt.Sprint(c.URL, c.Time.UTC())
			all[name] = true
			if there[fmt.Sprint(c.URL, c.RefersDate.UTC(), c.Digest)] {
				resolved[name] = true
			}
		}
	}
	return resolved, all
}

// A robot sends what has changed, for forty days; ten are kept. Old editions go, and
// current stays what it was, byte for byte; so does what revisits refer to.
func TestRetention(t *testing.T) {
	clock := new(passing)
	hosts := []string{"www.daily.jp", "www.second.jp", "www.third.jp", "www.fourth.jp"}
	s := history(t, clock, 40, hosts...)
	collect := func() *catalog.Collection {
		t.Helper()
		r, err := s.Catalog.Collect(t.Context(), catalog.CollectOptions{
			Claims:    func(context.Context) (func(string) bool, error) { return func(string) bool { return false }, nil },
			Retention: catalog.Retention{Keep: 10 * 24 * time.Hour, Expendable: s.Library.Archive.Expendable},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Retained.Failed) > 0 {
			t.Errorf("left: %q", r.Retained.Failed)
		}
		return r
	}
	before, lines := make(map[string]map[string]string), make(map[string][]catalog.SegmentEntry)
	for _, host := range hosts {
		before[host], lines[host] = shown(t, s, host), linesOf(t, s, host)
	}
	whole, err := s.Library.Tree.Open(t.Context(), everyone, "/jp/daily/www/all.warc.gz")
	if err != nil {
		t.Fatal(err)
	}
	first := collect()
	if first.Retained.Expired < 20 || first.Deleted.Objects > 0 || first.Condemned.Objects < 10 {
		t.Errorf("first pass: %+v of %+v", first, first.Retained)
	}
	if data := readFile(t, whole); int64(len(data)) != whole.Size { // opened before
		t.Errorf("read %d bytes of %d", len(data), whole.Size)
	}
	check := func() {
		t.Helper()
		for _, host := range hosts {
			if after := shown(t, s, host); !maps.Equal(after, before[host]) {
				t.Errorf("current of %s has changed", host)
			}
			left := linesOf(t, s, host)
			resolvedBefore, _ := revisits(t, s, lines[host])
			resolved, all := revisits(t, s, left)
			for name := range all {
				if resolvedBefore[name] && !resolved[name] {
					t.Errorf("revisit %s refers to what is gone", name)
				}
			}
			for i, l := range lines[host] {
				kept := slices.ContainsFunc(left, func(o catalog.SegmentEntry) bool { return o.Seq == l.Seq })
				_, err := s.Library.Tree.Stat(t.Context(), everyone, "/"+naming.HostPath(host)+"/"+l.Edition+".tar.gz")
				if kept != (err == nil) || err != nil && !errors.Is(err, library.ErrNotFound) {
					t.Errorf("%s of %s: kept %t, %v", l.Edition, host, kept, err)
				}
				if !kept && (i == len(lines[host])-1 || l.Published.After(clock.now().Add(-10*24*time.Hour))) {
					t.Errorf("%s of %s is gone too early", l.Edition, host)
				}
			}
		}
	}
	check()
	if again := collect(); again.Retained.Expired != 0 || again.Condemned.Objects != 0 {
		t.Errorf("the first pass once more: %+v of %+v", again, again.Retained)
	}
	reads := lines
	clock.ahead += 25 * time.Hour
	second := collect()
	if second.Deleted.Objects != first.Condemned.Objects {
		t.Errorf("deleted %d objects, condemned %d", second.Deleted.Objects, first.Condemned.Objects)
	}
	for _, host := range hosts { // of the rest the indexes can be read
		lines[host] = slices.DeleteFunc(slices.Clone(reads[host]), func(l catalog.SegmentEntry) bool {
			_, err := s.Store.Stat(t.Context(), l.Object)
			return err != nil
		})
	}
	check()
	report, err := catalog.Fsck(t.Context(), s.Store, catalog.FsckOptions{Deep: true})
	if err != nil || !report.OK() || report.Orphans != 0 {
		t.Errorf("fsck: %+v, %v", report, err)
	}
}

// What stays and what goes, case by case; each has one host's segments, of which all but the last
// are old.
func TestExpendable(t *testing.T) {
	at := func(day int) time.Time { return dayOne.AddDate(0, 0, day) }
	const p, q = "http://a.jp/p.html", "http://a.jp/q.html"
	last := []*archive.Record{servetest.Page("http://a.jp/", "home", at(9))}
	elsewhere := servetest.Again("http://a.jp/copy.html", "1", at(0), at(1))
	elsewhere.RefersTo = p
	for _, c := range []struct {
		name     string
		segments [][]*archive.Record
		want     string // x: goes
	}{
		{"superseded", [][]*archive.Record{{servetest.Page(p, "1", at(0))}, {servetest.Page(p, "2", at(1))}, last}, "x-"},
		{"still current beside what is superseded", [][]*archive.Record{
			{servetest.Page(p, "1", at(0)), servetest.Page(q, "1", at(0))}, {servetest.Page(p, "2", at(1))}, {servetest.Page(p, "3", at(2))}, last}, "-x-"},
		{"gone", [][]*archive.Record{{servetest.Page(p, "1", at(0))}, {servetest.Answer(p, 404, at(1))}, last}, "x-"},
		{"ill, not gone", [][]*archive.Record{{servetest.Page(p, "1", at(0))}, {servetest.Answer(p, 503, at(1))}, last}, "-x"},
		{"ill after it was gone", [][]*archive.Record{
			{servetest.Page(p, "1", at(0))}, {servetest.Answer(p, 410, at(1))}, {servetest.Answer(p, 503, at(2))}, last}, "x--"},
		{"confirmed in a segment that is old itself", [][]*archive.Record{
			{servetest.Page(p, "1", at(0))}, {servetest.Again(p, "1", at(0), at(1))}, {servetest.Again(p, "1", at(0), at(2))}, last}, "-x-"},
		{"what it was before, again", [][]*archive.Record{
			{servetest.Page(p, "1", at(0))}, {servetest.Page(p, "2", at(1))}, {servetest.Again(p, "1", at(0), at(2))}, last}, "-x-"},
		{"original of a revisit that stays", [][]*archive.Record{
			{servetest.Page(p, "1", at(0))}, {servetest.Again(p, "1", at(0), at(1)), servetest.Page(q, "1", at(1))},
			{servetest.Page(p, "2", at(2))}, last}, "---"},
		{"original of a revisit of the same second", [][]*archive.Record{
			{servetest.Page(p, "1", at(0))}, {servetest.Again(p, "1", at(0), at(0)), servetest.Page(q, "1", at(1))},
			{servetest.Page(p, "2", at(2))}, last}, "---"},
		{"original that was published after its revisit", [][]*archive.Record{
			{servetest.Again(p, "1", at(0), at(0)), servetest.Page(q, "1", at(1))}, {servetest.Page(p, "1", at(0))},
			{servetest.Page(p, "2", at(2))}, last}, "---"},
		{"original at another URL", [][]*archive.Record{
			{servetest.Page(p, "1", at(0))}, {elsewhere, servetest.Page(q, "1", at(1))}, {servetest.Page(p, "2", at(2))}, last}, "---"},
		{"published late", [][]*archive.Record{{servetest.Page(p, "2", at(3))}, {servetest.Page(p, "1", at(0))}, last}, "-x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := servetest.New(t, nil)
			for i, captures := range c.segments {
				s.Publish(at(i).Format("20060102"), map[string][]*archive.Record{"a.jp": captures})
			}
			lines := linesOf(t, s, "a.jp")
			goes, err := s.Library.Archive.Expendable(t.Context(), lines, len(lines)-1)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, g := range goes {
				got += map[bool]string{true: "x", false: "-"}[g]
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
