package catalog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store/storetest"
)

func TestPublishAndRead(t *testing.T) {
	st := newStore(t)
	c := open(t, st)
	empty := pin(t, c)
	if empty.Version() != 0 {
		t.Errorf("an empty store has version %d", empty.Version())
	}
	v := publish(t, c, publication("b1", putSegment(t, st, "www.waseda.ac.jp", "b1"), putSegment(t, st, "debian.jp", "b1")))
	if v.N != 1 || v.Edition != "20261121" || !v.Published.Equal(noon) {
		t.Errorf("published as %+v", v)
	}
	v = publish(t, c, publication("b2", putSegment(t, st, "www.waseda.ac.jp", "b2")))
	if v.N != 2 || v.Edition != "20261121-2" {
		t.Errorf("published as %+v", v)
	}

	for name, c := range map[string]*catalog.Catalog{"same": c, "opened anew": open(t, st)} {
		t.Run(name, func(t *testing.T) {
			s := pin(t, c)
			wantHost(t, s, "www.waseda.ac.jp", "b1 b2")
			wantHost(t, s, "debian.jp", "b1")
			wantHost(t, s, "waseda.ac.jp", "")
			lines, err := s.HostEdition(t.Context(), "www.waseda.ac.jp", "20261121-2")
			if err != nil {
				t.Fatal(err)
			}
			want := segment("www.waseda.ac.jp", "b2")
			want.SURT, want.Edition, want.Seq, want.Published = "jp,ac,waseda,www", "20261121-2", 3, noon
			if len(lines) != 1 || fmt.Sprint(lines[0]) != fmt.Sprint(want) {
				t.Errorf("edition 2: %v\nwant %v", lines, want)
			}
			if v, ok, err := s.Batch(t.Context(), "b1"); !ok || err != nil || v.N != 1 || v.Edition != "20261121" {
				t.Errorf("batch b1: %+v, %v, %v", v, ok, err)
			}
			if _, ok, err := s.Batch(t.Context(), "b"); ok || err != nil {
				t.Errorf("batch b: %v, %v", ok, err)
			}
		})
	}
	wantHost(t, empty, "debian.jp", "")
	wantClean(t, st)
}

func TestEditions(t *testing.T) {
	st := newStore(t)
	tokyo := time.FixedZone("JST", 9*3600)
	now := time.Date(2026, 11, 21, 14, 59, 0, 0, time.UTC) // a minute to midnight in Tokyo
	c := openWith(t, st, catalog.Options{Location: tokyo, Now: func() time.Time { return now }})
	var names []string
	for i := range 12 {
		id := fmt.Sprintf("b%d", i)
		names = append(names, publish(t, c, publication(id, putSegment(t, st, "a.jp", id), putSegment(t, st, "b.jp", id))).Edition)
	}
	now = now.Add(time.Minute)
	names = append(names, publish(t, c, publication("next", putSegment(t, st, "a.jp", "next"))).Edition)
	late := publication("late", putSegment(t, st, "a.jp", "late"))
	late.Day = "20261121"
	names = append(names, publish(t, c, late).Edition)
	if names[0] != "20261121" || names[11] != "20261121-12" || names[12] != "20261122" || names[13] != "20261121-13" {
		t.Errorf("editions are named %q", names)
	}
	s := pin(t, c)
	editions, err := s.Editions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range editions {
		if e.Name != names[i] || e.Version != int64(i+1) {
			t.Errorf("edition %d: %+v, want name %s", i, e, names[i])
		}
	}
	if e := editions[0]; e.Hosts != 2 || e.Records != 4 || e.Segments != 2 {
		t.Errorf("first edition: %+v", e)
	}
	if got := batches(collect(t, s.Edition(t.Context(), "20261121-2"))); got != "b1 b1" {
		t.Errorf("edition 20261121-2 has batches %q", got)
	}
	if got := collect(t, s.EditionAfter(t.Context(), "20261121-2", "jp,a")); len(got) != 1 || got[0].Host != "b.jp" {
		t.Errorf("edition behind jp,a: %v", got)
	}
	for _, err := range s.Edition(t.Context(), "20261123") {
		if !errors.Is(err, catalog.ErrNotExist) {
			t.Errorf("edition that is not: %v", err)
		}
	}
	wantClean(t, st)
}

func TestPublishIsIdempotent(t *testing.T) {
	st := newStore(t)
	c := open(t, st)
	first := publish(t, c, publication("b1", putSegment(t, st, "a.jp", "b1")))
	if again := publish(t, c, publication("b1", segment("a.jp", "b1"))); again != first {
		t.Errorf("again: %+v, first: %+v", again, first)
	}
	other := publication("b1", segment("a.jp", "b1"))
	other.Batches[0].SHA256 = "other"
	other.Entries = nil
	if _, err := c.Publish(t.Context(), other); !errors.Is(err, catalog.ErrBatchConflict) {
		t.Errorf("other digest: %v", err)
	}
	// A publication of which one batch is out already brings the other alone.
	both := publication("b1", segment("a.jp", "b1"), putSegment(t, st, "a.jp", "b2"), putSegment(t, st, "c.jp", "b2"))
	both.Batches = append(both.Batches, catalog.Batch{ID: "b2", SHA256: "digest of b2"})
	if v := publish(t, c, both); v.N != 2 {
		t.Errorf("second publication: %+v", v)
	}
	wantHost(t, pin(t, c), "a.jp", "b1 b2")
	wantClean(t, st)
}

func TestPublishRefuses(t *testing.T) {
	c := open(t, newStore(t))
	failing := errors.New("failing")
	for name, p := range map[string]catalog.Publication{
		"no batches":    {},
		"bad day":       {Day: "20261131", Batches: []catalog.Batch{{ID: "b"}}},
		"bad ID":        publication("a b"),
		"foreign line":  publication("b", segment("a.jp", "other")),
		"no host":       publication("b", segment("", "b")),
		"bad host":      publication("b", segment("a b.jp", "b")),
		"failing lines": {Batches: []catalog.Batch{{ID: "b"}}, Entries: func(y func(catalog.SegmentEntry, error) bool) { y(catalog.SegmentEntry{}, failing) }},
	} {
		if v, err := c.Publish(t.Context(), p); err == nil {
			t.Errorf("%s: published as %+v", name, v)
		}
	}
	if n := pin(t, c).Version(); n != 0 {
		t.Errorf("version %d after refusals", n)
	}
}

func TestFencing(t *testing.T) {
	st := newStore(t)
	c := open(t, st)
	for i, token := range []int64{5, 5, 7, 0} {
		p := publication(fmt.Sprintf("b%d", i))
		p.Token = token
		publish(t, c, p)
	}
	p := publication("late")
	p.Token = 6
	if _, err := c.Publish(t.Context(), p); !errors.Is(err, catalog.ErrFenced) {
		t.Errorf("a token that is over: %v", err)
	}
}

// Publishers on catalogs of their own, which know nothing of each other, all
// succeed, with consecutive versions and sequence numbers in their order.
func TestConcurrentPublishers(t *testing.T) {
	st := newStore(t)
	const publishers, each = 4, 8
	var wg sync.WaitGroup
	for p := range publishers {
		c := openWith(t, st, catalog.Options{Fanout: 4})
		for i := range each {
			id := fmt.Sprintf("p%d-%d", p, i)
			putSegment(t, st, "a.jp", id)
		}
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("p%d-%d", p, i)
				if _, err := c.Publish(t.Context(), publication(id, segment("a.jp", id))); err != nil {
					t.Error(err)
				}
				if err := c.Merge(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := pin(t, open(t, st))
	lines, err := s.Host(t.Context(), "a.jp")
	if err != nil || len(lines) != publishers*each {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for i, l := range lines {
		if l.Seq != int64(i+1) {
			t.Errorf("line %d has sequence number %d", i, l.Seq)
		}
	}
	wantClean(t, st)
}

// Every write of a publication fails, in both ways; repeating it publishes once.
func TestFaults(t *testing.T) {
	for _, outcome := range []storetest.Outcome{storetest.Fails, storetest.FailsButHappened} {
		for _, prefix := range []string{"runs/", "catalog/"} {
			for name, act := range map[string]func(*catalog.Catalog, ...catalog.SegmentEntry) error{
				"publish": func(c *catalog.Catalog, l ...catalog.SegmentEntry) error {
					_, err := c.Publish(t.Context(), publication("b2", l...))
					return err
				},
				"merge": func(c *catalog.Catalog, l ...catalog.SegmentEntry) error {
					if _, err := c.Publish(t.Context(), publication("b2", l...)); err != nil {
						return err
					}
					return c.Merge(t.Context())
				},
			} {
				t.Run(fmt.Sprintf("%s/%s%d", name, prefix, outcome), func(t *testing.T) {
					st := newStore(t)
					publish(t, open(t, st), publication("b1", putSegment(t, st, "a.jp", "b1")))
					line := putSegment(t, st, "a.jp", "b2")
					for skip := range 4 { // the writes that work before one fails
						seen := 0
						faulty := &storetest.Fault{Store: st, Decide: func(_, key string) storetest.Outcome {
							if !strings.HasPrefix(key, prefix) {
								return storetest.Works
							}
							if seen++; seen == skip+1 {
								return outcome
							}
							return storetest.Works
						}}
						c := openWith(t, faulty, catalog.Options{Fanout: 2})
						err := act(c, line)
						if outcome == storetest.FailsButHappened && err != nil {
							t.Errorf("a lost reply was taken for a failure: %v", err)
						}
						if err := act(c, line); err != nil {
							t.Fatalf("repeated: %v", err)
						}
					}
					wantHost(t, pin(t, open(t, st)), "a.jp", "b1 b2")
					wantClean(t, st)
				})
			}
		}
	}
}

// What a failed put left is published only once the store has said that it is
// durable: to be seen is not enough (a directory may not be synced yet).
func TestSeenIsNotDurable(t *testing.T) {
	st := newStore(t)
	for _, prefix := range []string{"runs/", "catalog/"} {
		puts := 0
		faulty := &storetest.Fault{Store: st, Decide: func(_, key string) storetest.Outcome {
			if !strings.HasPrefix(key, prefix) {
				return storetest.Works
			}
			puts++
			return []storetest.Outcome{storetest.FailsButHappened, storetest.Fails}[min(puts, 2)-1]
		}}
		id := "b-" + prefix[:4]
		if _, err := open(t, faulty).Publish(t.Context(), publication(id, putSegment(t, st, "a.jp", id))); err == nil {
			t.Errorf("%s: published after %d puts, of which none succeeded", prefix, puts)
		}
	}
}

// A process that dies between the run and the version leaves an orphan, and no trace else.
func TestCrashBeforeAppend(t *testing.T) {
	st := newStore(t)
	dying := &storetest.Fault{Store: st, Decide: func(_, key string) storetest.Outcome {
		if strings.HasPrefix(key, "catalog/") {
			return storetest.Fails
		}
		return storetest.Works
	}}
	line := putSegment(t, st, "a.jp", "b1")
	if _, err := open(t, dying).Publish(t.Context(), publication("b1", line)); err == nil {
		t.Fatal("published without a log")
	}
	c := open(t, st)
	wantHost(t, pin(t, c), "a.jp", "")
	if v := publish(t, c, publication("b1", line)); v.N != 1 {
		t.Errorf("published as %+v", v)
	}
	if report := wantClean(t, st); report.Orphans != 1 || !strings.HasPrefix(report.OrphanKeys[0], "runs/") {
		t.Errorf("orphans: %q", report.OrphanKeys)
	}
}

func TestPinsAndMerge(t *testing.T) {
	st := newStore(t)
	c := openWith(t, st, catalog.Options{Fanout: 2, BlockSize: 200})
	var pins []*catalog.Snapshot
	for i := range 9 {
		id := fmt.Sprintf("b%d", i)
		publish(t, c, publication(id, putSegment(t, st, "a.jp", id), putSegment(t, st, fmt.Sprintf("h%d.jp", i), id)))
		pins = append(pins, pin(t, c))
		if err := c.Merge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := ""
	for i, s := range append(pins, pin(t, open(t, st))) {
		if i < 9 {
			want = strings.TrimSpace(fmt.Sprintf("%s b%d", want, i))
		}
		wantHost(t, s, "a.jp", want)
	}
	s := pin(t, c)
	for i, e := range []string{"20261121", "20261121-5", "20261121-9"} {
		if lines := collect(t, s.Edition(t.Context(), e)); len(lines) != 2 || lines[0].Batch != fmt.Sprintf("b%d", 4*i) {
			t.Errorf("edition %s after merging: %v", e, lines)
		}
	}
	wantClean(t, st)
}

func TestRemove(t *testing.T) {
	st := newStore(t)
	c, node := openWith(t, st, catalog.Options{Fanout: 2}), open(t, st)
	for _, id := range []string{"b1", "b2"} {
		publish(t, c, publication(id, putSegment(t, st, "bad.x.jp", id), putSegment(t, st, "good.jp", id), putSegment(t, st, "half.jp", id)))
	}
	before := pin(t, c)
	stones := []catalog.Tombstone{{Host: "bad.x.jp", Reason: "court", By: "op"}, {Host: "half.jp", Edition: "20261121", Reason: "owner", By: "op"},
		{Host: "good.jp", URLPrefix: "http://good.jp/private/", Reason: "owner", By: "op"}}
	first, err := c.Remove(t.Context(), stones...)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Remove(t.Context(), stones...); err != nil || again != first {
		t.Errorf("again: %+v, %v; first: %+v", again, err, first)
	}
	publish(t, c, publication("late", putSegment(t, st, "bad.x.jp", "late")))
	if err := c.Merge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*catalog.Snapshot{"pinned before": before, "another node": pin(t, node), "now": pin(t, c)} {
		t.Run(name, func(t *testing.T) {
			wantHost(t, s, "bad.x.jp", "")
			wantHost(t, s, "half.jp", "b2")
			wantHost(t, s, "good.jp", "b1 b2")
			children, err := s.Children(t.Context(), "jp", "", 0)
			if got := childNames(children); err != nil || got != "good half" {
				t.Errorf("jp has %q, %v", got, err)
			}
			if lines := collect(t, s.Edition(t.Context(), "20261121")); len(lines) != 1 || lines[0].Host != "good.jp" {
				t.Errorf("first edition: %v", lines)
			}
			hosts, err := s.Hosts(t.Context(), "", "", 0)
			if err != nil || len(hosts) != 2 {
				t.Errorf("hosts: %v, %v", hosts, err)
			}
			if stones := s.Tombstones("good.jp"); len(stones) != 1 || !stones[0].At.Equal(noon.Add(time.Millisecond)) {
				t.Errorf("tombstones of good.jp: %v", stones)
			}
		})
	}
	wantClean(t, st)
}

func childNames(children []catalog.Child) string {
	var names []string
	for _, c := range children {
		name := c.Name
		if c.Inner {
			name += "/"
		}
		if c.Inner && c.Leaf {
			name += "+"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func TestChildren(t *testing.T) {
	st := newStore(t)
	c := openWith(t, st, catalog.Options{BlockSize: 300})
	hosts := []string{
		"www.waseda.ac.jp", "www.waseda.ac.jp:8080", "waseda-u.ac.jp", "x.waseda-u.ac.jp", "debian.jp", "faq.debian.jp", "x.faq.debian.jp",
		"faq.debian.jp:81", "a.b.c.co.jp", "co.jp", "example.com", "192.0.2.1", "localhost", "localhost:8080", "0.jp",
	}
	for i, host := range hosts {
		id := fmt.Sprintf("b%d", i)
		publish(t, c, publication(id, putSegment(t, st, host, id)))
	}
	s := pin(t, c)
	for path, want := range map[string]string{
		"": "_ip/ com/ jp/ localhost localhost_8080", "jp": "0 ac/ co/+ debian/+", "/jp/ac/": "waseda/ waseda-u/+", "jp/ac/waseda": "www www_8080",
		"jp/debian": "faq/+ faq_81", "jp/debian/faq": "x", "jp/debian/faq/x": "", "jp/co/c/b": "a", "jp/a": "", "_ip": "192.0.2.1",
	} {
		children, err := s.Children(t.Context(), path, "", 0)
		if got := childNames(children); err != nil || got != want {
			t.Errorf("%q has %q, want %q; %v", path, got, want, err)
		}
		var paged []catalog.Child
		for after := ""; ; after = paged[len(paged)-1].Name {
			page, err := s.Children(t.Context(), path, after, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			paged = append(paged, page...)
		}
		if !slices.Equal(paged, children) {
			t.Errorf("%q in pages: %q", path, childNames(paged))
		}
	}
	var paged []string
	for after := ""; ; {
		page, err := s.Hosts(t.Context(), "jp,", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, h := range page {
			paged = append(paged, h.Host)
		}
		after = page[len(page)-1].SURT
	}
	if len(paged) != 11 || !slices.IsSortedFunc(paged, func(a, b string) int { return strings.Compare(catalog.Key(a), catalog.Key(b)) }) {
		t.Errorf("hosts under jp: %q", paged)
	}
}
