package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/lease"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
	"sheaf/serve/tree"
)

const newest = "/current/20261121/jp/"

// currentSite is an archive of two editions, and what makes volumes of the latest versions.
type currentSite struct {
	*servetest.Site
	t     *testing.T
	rules *account.Rules
	reads *counted
	hosts []string // of jp, in the order of the tree
}

// counted counts how often something of a segment is read.
type counted struct {
	store.Store
	n atomic.Int64
}

func (c *counted) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if strings.HasPrefix(key, "segments/") || strings.HasPrefix(key, "packs/") {
		c.n.Add(1)
	}
	return c.Store.Open(ctx, key, off, n)
}

func newCurrentSite(t *testing.T) *currentSite {
	s := &currentSite{Site: servetest.New(t, nil), t: t}
	s.rules = account.NewRules(s.DB, slog.New(slog.DiscardHandler))
	s.reads = &counted{Store: s.Store}
	first, second := make(map[string][]*archive.Record), make(map[string][]*archive.Record)
	dayTwo := dayOne.AddDate(0, 0, 1)
	for i := range 9 {
		host := fmt.Sprintf("www.u%d.ac.jp", i)
		s.hosts = append(s.hosts, host)
		for _, path := range []string{"", "a", "secret/b"} {
			first[host] = append(first[host], servetest.Page("http://"+host+"/"+path, host+strings.Repeat(path, 300), dayOne))
		}
		if i%3 == 0 { // one page is new, one has changed, one is gone
			second[host] = []*archive.Record{
				servetest.Page("http://"+host+"/new", "new of "+host, dayTwo), servetest.Page("http://"+host+"/a", "changed on "+host, dayTwo),
				servetest.Answer("http://"+host+"/secret/b", 404, dayTwo),
			}
		}
	}
	first["example.com"] = []*archive.Record{servetest.Page("http://example.com/", "com", dayOne)}
	s.Publish("20261120", first)
	s.Publish("20261121", second)
	s.fresh()
	return s
}

// fresh waits until readers look for volumes again, and forgets what was computed.
func (s *currentSite) fresh() {
	var err error
	s.Library, err = reading.New(reading.Options{Catalog: s.Catalog, Store: s.reads, Accounts: s.Accounts, Rules: s.rules, Volume: 6 << 10})
	testkit.Must(s.t, err)
}

// maker returns a Maker for whom the newest volumes are due when they have an age.
func (s *currentSite) maker(every time.Duration, domains ...string) *results.CurrentMaker {
	s.fresh()
	return results.NewCurrentMaker(results.CurrentOptions{
		Tree: s.Library.Tree, Store: s.Store, Leases: lease.NewDB(s.DB, nil, lease.Options{}), Domains: domains, Every: every, Look: time.Hour,
		Log: slog.New(slog.DiscardHandler),
	})
}

func (s *currentSite) update(m *results.CurrentMaker) {
	s.t.Helper()
	testkit.Must(s.t, m.Update(s.t.Context(), func(context.Context, time.Duration) error { return nil }))
	s.fresh()
}

// read returns a file, or nil if the account sees none at the path.
func (s *currentSite) read(a *account.Account, path string) []byte {
	s.t.Helper()
	return readIfAny(s.t, s.Library, a, path)
}

// list returns the names in a directory, and the ETags of its files.
func (s *currentSite) list(a *account.Account, dir string) (names []string, tags map[string]string) {
	s.t.Helper()
	tags = make(map[string]string)
	for n, err := range s.Library.Tree.List(s.t.Context(), a, dir) {
		if errors.Is(err, library.ErrNotFound) {
			return nil, nil
		}
		testkit.Must(s.t, err)
		names, tags[n.Name] = append(names, n.Name), n.ETag
	}
	return names, tags
}

// checked returns the hosts of a directory's volumes, by volume, after it has seen to it that the
// volumes have what the hosts' own files have at present.
func (s *currentSite) checked(a *account.Account, dir string) (hosts []string, byVolume map[string][]string) {
	s.t.Helper()
	byVolume = make(map[string][]string)
	for line := range bytes.Lines(s.read(a, dir+"MANIFEST")) {
		var of library.ManifestLine
		testkit.Must(s.t, json.Unmarshal(line, &of))
		if data := s.read(a, dir+of.Path); int64(len(data)) != of.Size {
			s.t.Errorf("%s%s has %d bytes, and %d in the MANIFEST", dir, of.Path, len(data), of.Size)
		}
		volume, ok := strings.CutSuffix(of.Path, ".jsonl")
		if !ok {
			continue
		}
		warc, tgz := s.read(a, dir+volume+".warc.gz"), s.read(a, dir+volume+".tar.gz")
		for line := range bytes.Lines(s.read(a, dir+of.Path)) {
			var of library.VolumeLine
			testkit.Must(s.t, json.Unmarshal(line, &of))
			hosts, byVolume[volume] = append(hosts, of.Host), append(byVolume[volume], of.Host)
			if !bytes.Equal(warc[of.WARC.Offset:][:of.WARC.Length], s.read(a, "/"+of.Path+"/current.warc.gz")) {
				s.t.Errorf("%s of %s%s has other records than its own file", of.Host, dir, volume)
			}
			if own := s.read(a, "/"+of.Path+"/current.members.tar.gz"); !bytes.HasPrefix(own, tgz[of.Tar.Offset:][:of.Tar.Length]) {
				s.t.Errorf("%s of %s%s has other files than its own file", of.Host, dir, volume)
			}
		}
	}
	return hosts, byVolume
}

// The volumes have the latest version of every page of the domain's hosts, as their own files have
// it, and stay as they are when more is published.
func TestCurrentIsMade(t *testing.T) {
	t.Parallel()
	s := newCurrentSite(t)
	if names, _ := s.list(everyone, "/current"); names != nil {
		t.Errorf("before any were made there are %q", names)
	}
	m := s.maker(0, "jp")
	s.update(m)
	hosts, byVolume := s.checked(everyone, newest)
	if !slices.Equal(hosts, s.hosts) || len(byVolume) < 3 || len(byVolume) == len(hosts) {
		t.Errorf("%d volumes have %q, want %q", len(byVolume), hosts, s.hosts)
	}
	root, _ := s.list(everyone, "/")
	editions, _ := s.list(everyone, "/current")
	domains, _ := s.list(everyone, "/current/20261121")
	if !slices.Contains(root, "current") || !slices.Equal(editions, []string{"20261121"}) || !slices.Equal(domains, []string{"jp"}) {
		t.Errorf("listed are %q, %q and %q", root, editions, domains)
	}
	if dir, edition, err := s.Library.Tree.NewestCurrent(t.Context(), everyone, "jp"); dir+"/" != newest[1:] || edition != "20261121" || err != nil {
		t.Errorf("the newest of jp are in %q, of %q, %v", dir, edition, err)
	}
	for _, path := range []string{"/current/20261120", "/current/20261121/com", newest + "00099.tar.gz", newest + "ac", newest + "00001.records.parquet"} {
		if s.read(everyone, path) != nil {
			t.Errorf("there is %s", path)
		}
	}
	names, was := s.list(everyone, newest)
	data := s.read(everyone, newest+"00001.warc.gz")

	s.Publish("20261122", map[string][]*archive.Record{"www.u0.ac.jp": {servetest.Page("http://www.u0.ac.jp/third", "third", dayOne.AddDate(0, 0, 2))},
		"www.u00.ac.jp": {servetest.Page("http://www.u00.ac.jp/", "a host between others", dayOne.AddDate(0, 0, 2))}})
	s.fresh()
	if _, now := s.list(everyone, newest); fmt.Sprint(now) != fmt.Sprint(was) || !bytes.Equal(s.read(everyone, newest+"00001.warc.gz"), data) {
		t.Errorf("after another edition %q are %v, not %v", names, now, was)
	}
	s.update(s.maker(time.Hour, "jp")) // they are not due
	if editions, _ := s.list(everyone, "/current"); len(editions) != 1 {
		t.Errorf("there are %q", editions)
	}
	// Of the next ones only what has changed is measured.
	m = s.maker(0, "jp")
	s.reads.n.Store(0)
	s.update(m)
	if n := s.reads.n.Load(); n > 8 {
		t.Errorf("to measure 2 hosts, segments were read %d times", n)
	}
	if hosts, _ := s.checked(everyone, "/current/20261122/jp/"); len(hosts) != len(s.hosts)+1 {
		t.Errorf("the next ones have %q", hosts)
	}
	if _, now := s.list(everyone, newest); fmt.Sprint(now) != fmt.Sprint(was) {
		t.Errorf("after the next ones %q are %v, not %v", names, now, was)
	}
	s.Publish("20261123", map[string][]*archive.Record{"www.u1.ac.jp": {servetest.Page("http://www.u1.ac.jp/", "again", dayOne.AddDate(0, 0, 3))}})
	s.update(m)
	if editions, _ := s.list(everyone, "/current"); !slices.Equal(editions, []string{"20261122", "20261123"}) {
		t.Errorf("there are %q", editions)
	}
	s.update(m)
	s.update(s.maker(0))
	for info := range s.Store.List(t.Context(), tree.CurrentPrefix, "") {
		t.Errorf("no domain is wanted, and there is %s", info.Key)
	}
}

// To open a volume reads no segment; of a host of which something is taken down, only its own.
func TestCurrentAndTakeDown(t *testing.T) {
	t.Parallel()
	s := newCurrentSite(t)
	s.update(s.maker(0, "jp"))
	_, before := s.checked(everyone, newest)
	s.fresh()
	s.reads.n.Store(0)
	_, was := s.list(everyone, newest)
	if n := s.reads.n.Load(); n != 0 {
		t.Errorf("to list the volumes, segments were read %d times", n)
	}
	const wholly, partly = "00001", "00002"
	_, err := s.Catalog.Remove(t.Context(),
		catalog.Tombstone{Host: before[wholly][0], Reason: "asked", By: "op"},
		catalog.Tombstone{Host: before[partly][0], URLPrefix: "http://" + before[partly][0] + "/a", Reason: "asked", By: "op"})
	testkit.Must(t, err)
	s.fresh()
	s.reads.n.Store(0)
	_, now := s.list(everyone, newest)
	if n := s.reads.n.Load(); n == 0 || n > 8 {
		t.Errorf("to measure one host, segments were read %d times", n)
	}
	for name, tag := range was {
		changes := strings.HasPrefix(name, wholly) || strings.HasPrefix(name, partly) || name == library.Manifest
		if (now[name] != tag) != changes {
			t.Errorf("%s had the ETag %s and has %s", name, tag, now[name])
		}
	}
	left, after := s.checked(everyone, newest)
	if len(left) != len(s.hosts)-1 || slices.Contains(after[wholly], before[wholly][0]) {
		t.Errorf("%q are left", left)
	}
}

// When the take-down of an edition is lifted, what it hid is in the volumes again, in those that
// there are and in the next ones.
func TestCurrentAndLift(t *testing.T) {
	t.Parallel()
	s := newCurrentSite(t)
	s.Publish("20261122", map[string][]*archive.Record{"www.u0.ac.jp": {servetest.Page("http://www.u0.ac.jp/third", "third", dayOne.AddDate(0, 0, 2))}})
	stone := catalog.Tombstone{Host: "www.u0.ac.jp", Edition: "20261121", Reason: "asked", By: "op"}
	_, err := s.Catalog.Remove(t.Context(), stone)
	testkit.Must(t, err)
	s.update(s.maker(0, "jp"))
	s.checked(everyone, "/current/20261122/jp/")
	_, err = s.Catalog.Restore(t.Context(), stone)
	testkit.Must(t, err)
	s.fresh()
	s.checked(everyone, "/current/20261122/jp/")
	s.Publish("20261123", map[string][]*archive.Record{"www.u1.ac.jp": {servetest.Page("http://www.u1.ac.jp/", "again", dayOne.AddDate(0, 0, 3))}})
	s.update(s.maker(0, "jp"))
	if hosts, _ := s.checked(everyone, "/current/20261123/jp/"); !slices.Equal(hosts, s.hosts) {
		t.Errorf("the next volumes have %q", hosts)
	}
}

// What a kill left of volumes that were to be deleted is not taken for new ones.
func TestHalfDeleted(t *testing.T) {
	t.Parallel()
	s := newCurrentSite(t)
	s.update(s.maker(0, "jp"))
	_, was := s.list(everyone, newest)
	for _, name := range []string{"volumes.json", "00001.jsonl.gz"} {
		testkit.Must(t, s.Store.Delete(t.Context(), "current/20261121/jp/"+name))
	}
	s.update(s.maker(0, "jp")) // the same edition is still to be made
	if _, now := s.list(everyone, newest); fmt.Sprint(now) != fmt.Sprint(was) {
		t.Errorf("the volumes are %v, not %v", now, was)
	}
	for _, day := range []string{"20261122", "20261123"} {
		s.Publish(day, map[string][]*archive.Record{"www.u1.ac.jp": {servetest.Page("http://www.u1.ac.jp/", day, dayOne.AddDate(0, 0, 2))}})
		s.update(s.maker(0, "jp"))
	}
	testkit.Must(t, s.Store.Put(t.Context(), "current/20261121/jp/00002.jsonl.gz", strings.NewReader("x"), 1))
	s.Publish("20261124", map[string][]*archive.Record{"www.u1.ac.jp": {servetest.Page("http://www.u1.ac.jp/", "new", dayOne.AddDate(0, 0, 4))}})
	s.update(s.maker(0, "jp"))
	if editions, _ := s.list(everyone, "/current"); !slices.Equal(editions, []string{"20261123", "20261124"}) {
		t.Errorf("there are %q", editions)
	}
	for info := range s.Store.List(t.Context(), "current/20261121/", "") {
		t.Errorf("%s is left", info.Key)
	}
}

// What expires is not needed for the latest versions, and changes no volume.
func TestCurrentAndExpiry(t *testing.T) {
	t.Parallel()
	s := newCurrentSite(t)
	changed := make(map[string][]*archive.Record)
	for _, host := range s.hosts[:5] {
		for _, path := range []string{"", "a", "secret/b", "new"} {
			changed[host] = append(changed[host], servetest.Page("http://"+host+"/"+path, "changed "+path, dayOne.AddDate(0, 0, 2)))
		}
	}
	s.Publish("20261122", changed)
	s.update(s.maker(0, "jp"))
	const dir = "/current/20261122/jp/"
	_, was := s.list(everyone, dir)
	later, err := catalog.Open(t.Context(), s.Store, catalog.Options{Now: func() time.Time { return time.Now().AddDate(1, 0, 0) }})
	testkit.Must(t, err)
	r, err := later.Collect(t.Context(), catalog.CollectOptions{
		Claims:    func(context.Context) (func(string) bool, error) { return func(string) bool { return false }, nil },
		Retention: catalog.Retention{Keep: 24 * time.Hour, Expendable: s.Library.Archive.Expendable},
	})
	testkit.Must(t, err)
	if r.Retained.Expired != 7 { // of five hosts the first edition, of two of them the second
		t.Errorf("%d segments have expired", r.Retained.Expired)
	}
	s.fresh()
	s.reads.n.Store(0)
	_, now := s.list(everyone, dir)
	if n := s.reads.n.Load(); fmt.Sprint(now) != fmt.Sprint(was) || n > 0 {
		t.Errorf("after %d reads of segments the volumes are %v, not %v", n, now, was)
	}
	if hosts, _ := s.checked(everyone, dir); !slices.Equal(hosts, s.hosts) {
		t.Errorf("the volumes have %q", hosts)
	}
}

// Who sees less of a volume, or more than everybody does, gets that.
func TestCurrentWithinScope(t *testing.T) {
	t.Parallel()
	s := newCurrentSite(t)
	for _, r := range []account.Rule{{Domain: "www.u3.ac.jp", Accounts: []string{"alice"}, Reason: "contract"}, {Domain: "www.u8.ac.jp", Accounts: []string{"alice"}, Reason: "contract"}} {
		_, err := s.rules.Add(t.Context(), r)
		testkit.Must(t, err)
	}
	s.update(s.maker(0, "jp"))
	alice := &account.Account{Name: "alice", Domains: []string{"*"}}
	part := s.Account("part", "always", "www.u0.ac.jp", "www.u7.ac.jp", "example.com")
	for a, want := range map[*account.Account][]string{
		everyone: slices.DeleteFunc(slices.Clone(s.hosts), func(h string) bool { return h == "www.u3.ac.jp" || h == "www.u8.ac.jp" }),
		alice:    s.hosts, part: {"www.u0.ac.jp", "www.u7.ac.jp"},
	} {
		if got, _ := s.checked(a, newest); !slices.Equal(got, want) {
			t.Errorf("%s sees %q, want %q", a.Name, got, want)
		}
	}
	if dir, _, err := s.Library.Tree.NewestCurrent(t.Context(), s.Account("org", "always", "example.org"), "jp"); dir != "" || err != nil {
		t.Errorf("an account of another domain is shown %q, %v", dir, err)
	}
	if names, _ := s.list(s.Account("com", "always", "example.com"), "/current"); names != nil {
		t.Errorf("an account of another domain sees %q", names)
	}
}

// Making goes on where it was broken off, and what is made is not to be seen before it is complete.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	s := newCurrentSite(t)
	stop := errors.New("stop")
	for n := range 3 {
		made := 0
		err := s.maker(0, "jp").Update(t.Context(), func(context.Context, time.Duration) error {
			made++
			return stop
		})
		s.fresh()
		if names, _ := s.list(everyone, "/current"); !errors.Is(err, stop) || names != nil || made != 1 {
			t.Fatalf("round %d: %v, made %d, there is %q", n, err, made, names)
		}
		if n == 1 { // another edition does not make it begin anew
			s.Publish("20261122", map[string][]*archive.Record{"www.u0.ac.jp": {servetest.Page("http://www.u0.ac.jp/x", "x", dayOne.AddDate(0, 0, 2))}})
		}
	}
	s.update(s.maker(0, "jp"))
	if editions, _ := s.list(everyone, "/current"); !slices.Equal(editions, []string{"20261121"}) {
		t.Errorf("there are %q", editions)
	}
	_, was := s.list(everyone, newest)
	complete, _, err := tree.StoredCurrents(t.Context(), s.Store)
	testkit.Must(t, err)
	testkit.Must(t, tree.DeleteCurrent(t.Context(), s.Store, complete[0]))
	_, err = s.Library.Tree.MakeCurrent(t.Context(), everyone, "20261121", "jp", tree.Current{}, func(context.Context, time.Duration) error { return nil })
	testkit.Must(t, err)
	s.fresh()
	if _, now := s.list(everyone, newest); fmt.Sprint(now) != fmt.Sprint(was) || len(now) < 10 {
		t.Errorf("made in one go, the volumes are %v, not %v", now, was)
	}
}

// A damaged list costs time, and changes nothing.
func TestDamagedList(t *testing.T) {
	t.Parallel()
	s := newCurrentSite(t)
	s.update(s.maker(0, "jp"))
	_, was := s.list(everyone, newest)
	const key = "current/20261121/jp/00001.jsonl.gz"
	for _, damaged := range [][]byte{nil, []byte("x"), []byte("\x1f\x8b")} {
		testkit.Must(t, s.Store.Delete(t.Context(), key))
		if damaged != nil {
			testkit.Must(t, s.Store.Put(t.Context(), key, bytes.NewReader(damaged), int64(len(damaged))))
		}
		s.fresh()
		if _, now := s.list(everyone, newest); fmt.Sprint(now) != fmt.Sprint(was) {
			t.Errorf("with %q in the list the volumes are %v, not %v", damaged, now, was)
		}
	}
	testkit.Must(t, s.Store.Delete(t.Context(), "current/20261121/jp/volumes.json"))
	testkit.Must(t, s.Store.Put(t.Context(), "current/20261121/jp/volumes.json", strings.NewReader("{"), 1))
	s.fresh()
	if names, _ := s.list(everyone, newest); names != nil {
		t.Errorf("with a damaged list of volumes there are %q", names)
	}
	s.update(s.maker(0, "jp")) // with the damaged list 00001, too
	if _, now := s.list(everyone, newest); fmt.Sprint(now) != fmt.Sprint(was) {
		t.Errorf("made again, the volumes are %v, not %v", now, was)
	}
}
