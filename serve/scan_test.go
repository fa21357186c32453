package serve_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/records"
	"sheaf/serve/servetest"
)

// scene is a site with an index that covers some of it, and the same without one.
type scene struct {
	*servetest.Site
	t       *testing.T
	r       *rand.Rand
	without *reading.Library
	readers []*account.Account
	day     int
	cuts    int
}

var sceneHosts = []string{
	"example.jp", "www.example.jp", "www2.example.jp", "a.example.jp", "example.jp:8080", "www.example.jp:8080", "example.jp:80",
	"example-x.jp", "my_host.jp", "sub.a.example.jp", "192.0.2.7", "192.0.2.7:81", "www.other.org",
}

func newScene(t *testing.T, r *rand.Rand) *scene {
	s := &scene{Site: servetest.New(t, nil), t: t, r: r}
	var err error
	if s.without, err = reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store}); err != nil {
		t.Fatal(err)
	}
	s.readers = []*account.Account{everyone, s.Account("some", "always", "a.example.jp", "www.example.jp", "192.0.2.7"), s.Account("org", "always", "org")}
	return s
}

// publish brings an edition of random records.
func (s *scene) publish() {
	s.day++
	day := time.Date(2026, 11, s.day, 0, 0, 0, 0, time.UTC)
	hosts := make(map[string][]*archive.Record)
	for range 20 + s.r.IntN(120) {
		host := sceneHosts[s.r.IntN(len(sceneHosts))]
		scheme := "http"
		if strings.HasSuffix(host, ":80") {
			scheme = "https"
		}
		url := fmt.Sprintf("%s://%s/%s", scheme, host, []string{"", "a", "A", "a/b", "a/b?x=1", "b.png", "z", "%E6%97%A5"}[s.r.IntN(8)])
		at := day.Add(time.Duration(s.r.IntN(6))*time.Hour + time.Duration(s.r.IntN(3))*time.Millisecond)
		body := fmt.Sprint(s.r.IntN(3))
		switch s.r.IntN(5) {
		case 0:
			hosts[host] = append(hosts[host], servetest.Answer(url, 404, at))
		case 1:
			hosts[host] = append(hosts[host], servetest.Again(url, body, day.AddDate(0, 0, -s.r.IntN(2)), at))
		default:
			hosts[host] = append(hosts[host], servetest.Page(url, body, at))
		}
	}
	s.Publish(day.Format("20060102"), hosts)
}

// takeDown takes something down, for good or until it is lifted.
func (s *scene) takeDown() {
	stone := catalog.Tombstone{Host: sceneHosts[s.r.IntN(len(sceneHosts))]}
	switch s.r.IntN(3) {
	case 0:
		stone.URLPrefix = "http://" + stone.Host + "/a"
	case 1:
		stone.Edition = fmt.Sprintf("202611%02d", 1+s.r.IntN(s.day))
	}
	if _, err := s.Catalog.Remove(s.t.Context(), stone); err != nil {
		s.t.Fatal(err)
	}
}

// search makes up a search.
func (s *scene) search() records.Search {
	keys := []string{"jp,example)/", "jp,example)/a", "jp,example:8080)/a/b?x=1", "jp,example:80)/z", "192.0.2.7)/z", "org,other)/a", "jp,nothing)/"}
	hosts := []string{"example.jp", "example.jp", "example.jp:8080", "example.jp:80", "192.0.2.7", "other.org", "nothing.jp"}
	i := s.r.IntN(len(keys))
	t := library.Target{Match: library.Match(1 + s.r.IntN(5)), Host: hosts[i], Key: keys[i]}
	switch t.Match {
	case library.MatchPrefix:
		t.Key = keys[i][:strings.Index(keys[i], ")")+1+s.r.IntN(3)%2]
	case library.MatchHost:
		t.Key = ""
	case library.MatchDomain:
		t = library.Target{Match: t.Match, Host: []string{"jp", "example.jp", "www.example.jp", "192.0.2.7", "org"}[s.r.IntN(5)]}
	case library.MatchAll:
		t = library.Target{Match: t.Match}
	}
	out := records.Search{Targets: []library.Target{t}, Reverse: t.Match <= library.MatchHost && s.r.IntN(2) == 0}
	if s.r.IntN(3) == 0 {
		out.From = time.Date(2026, 11, 1+s.r.IntN(s.day), s.r.IntN(6), 0, 0, 0, time.UTC)
	}
	if s.r.IntN(3) == 0 {
		out.To = time.Date(2026, 11, 1+s.r.IntN(s.day), s.r.IntN(6), 0, 0, 0, time.UTC)
	}
	return out
}

// searched tells all of a search, and where it can be gone on with.
func searched(t *testing.T, l *reading.Library, a *account.Account, search records.Search) (lines []string, at []records.Position) {
	t.Helper()
	r, err := l.Records.Search(t.Context(), a, search)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	err = r.Each(t.Context(), func(c *records.Capture, pos records.Position) error {
		lines, at = append(lines, fmt.Sprintf("%v %s", pos, whole(t, c))), append(at, pos)
		return nil
	})
	if err != nil {
		t.Fatalf("%+v: %v", search, err)
	}
	return lines, at
}

// whole tells all of a record that is told to anybody.
func whole(t *testing.T, c *records.Capture) string {
	t.Helper()
	file, offset, err := c.Place(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	original, err := c.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := ""
	if original != nil {
		of = fmt.Sprint(original.Segment.Seq, original.Offset)
	}
	return fmt.Sprintf("%+v %d %s %d %s", *c.Cell, c.Segment.Seq, file, offset, of)
}

// Whether the URL index covers all, some or nothing of what is asked for, and
// whatever it has that is not here any more: what is found, its order and its places are the same
// as without it, and a place that one gave leads on in the other. SHEAF_TEST_QUERIES is how
// many searches are tried in each archive.
func TestIndexMakesNoDifference(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	searches := servetest.Number("SHEAF_TEST_QUERIES", 66)
	for seed := range uint64(testkit.Size(1, 3)) {
		s := newScene(t, rand.New(rand.NewPCG(seed, 11)))
		s.publish()
		found := 0
		for n := range searches {
			switch s.r.IntN(12) {
			case 0:
				if s.day < 12 {
					s.publish()
				}
			case 1, 2:
				s.Index()
			case 3:
				if s.r.IntN(3) == 0 {
					s.takeDown()
				}
			}
			a, search := s.readers[s.r.IntN(len(s.readers))], s.search()
			want, at := searched(t, s.without, a, search)
			got, _ := searched(t, s.Library, a, search)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, search %d: %s %+v\n%s", seed, n, a.Name, search, firstOther(got, want))
			}
			found += len(want)
			if len(at) > 0 {
				i := s.r.IntN(len(at))
				search.After = &at[i]
				if s.r.IntN(4) == 0 {
					s.Index()
				}
				if got, _ := searched(t, s.Library, a, search); !slices.Equal(got, want[i+1:]) {
					t.Fatalf("seed %d, search %d: %s %+v behind %+v\n%s", seed, n, a.Name, search, at[i], firstOther(got, want[i+1:]))
				}
			}
			s.compareURL(a)
			s.compareCuts(a, search, want)
		}
		if found < searches {
			t.Errorf("seed %d: only %d records were found", seed, found)
		}
		if s.cuts == 0 {
			t.Errorf("seed %d: nothing was divided", seed)
		}
	}
}

// compareCuts divides a search, and puts what is found together again.
func (s *scene) compareCuts(a *account.Account, search records.Search, want []string) {
	s.t.Helper()
	if search.After = nil; search.Reverse {
		return
	}
	r, err := s.Library.Records.Search(s.t.Context(), a, search)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	cuts, total, err := r.Split(s.t.Context(), 0, int64(20+s.r.IntN(200)))
	if err != nil || total < int64(len(want)) {
		s.t.Fatalf("%+v: %d records in all, and %d were found; %v", search, total, len(want), err)
	}
	s.cuts += len(cuts)
	var got []string
	for i := range len(cuts) + 1 {
		if search.Until = nil; i < len(cuts) {
			search.Until = &cuts[i]
		}
		some, _ := searched(s.t, s.Library, a, search)
		got = append(got, some...)
		search.After = search.Until
	}
	if !slices.Equal(got, want) {
		s.t.Fatalf("%s %+v in %d stretches, cut at %+v\n%s", a.Name, search, len(cuts)+1, cuts, firstOther(got, want))
	}
}

// compareURL asks for one URL's records, and for what is like it.
func (s *scene) compareURL(a *account.Account) {
	s.t.Helper()
	url := fmt.Sprintf("http://%s/%s", sceneHosts[s.r.IntN(len(sceneHosts))], []string{"a", "a/b", "nothing", "z"}[s.r.IntN(4)])
	var told [2][]string
	for i, l := range []*reading.Library{s.Library, s.without} {
		all, err := l.Records.Captures(s.t.Context(), a, url)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, c := range all {
			told[i] = append(told[i], whole(s.t, c))
		}
		near, err := l.Records.Suggest(s.t.Context(), a, url, 3)
		if err != nil {
			s.t.Fatal(err)
		}
		told[i] = append(told[i], near...)
	}
	if !slices.Equal(told[0], told[1]) {
		s.t.Fatalf("%s %s\n%s", a.Name, url, firstOther(told[0], told[1]))
	}
}

func firstOther(got, want []string) string {
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return fmt.Sprintf("%d and %d records; number %d is\n%s, without the index\n%s", len(got), len(want), i, g, w)
		}
	}
	return ""
}

// What is found is right also where the index is damaged, wherever the walk comes upon it.
func TestDamagedIndex(t *testing.T) {
	s := newScene(t, rand.New(rand.NewPCG(5, 11)))
	for range 4 {
		s.publish()
		s.Index()
	}
	search := records.Search{Targets: []library.Target{{Match: library.MatchAll}}}
	want, _ := searched(t, s.without, everyone, search)
	if got, _ := searched(t, s.Library, everyone, search); len(want) < 100 || !slices.Equal(got, want) {
		t.Fatal(firstOther(got, want))
	}
	damaged := 0
	for object, err := range s.Store.List(t.Context(), "urls/", "") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(object.Key, "cdx.gz") {
			continue
		}
		name := filepath.Join(s.Dir, filepath.FromSlash(object.Key))
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 0x55
		if err := os.Chmod(name, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		damaged++
	}
	if damaged == 0 {
		t.Fatal("no runs in the store")
	}
	fresh, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, URLs: urlindex.NewReader(s.Store, urlindex.ReaderOptions{})})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := searched(t, fresh, everyone, search); !slices.Equal(got, want) {
		t.Fatal(firstOther(got, want))
	}
}

// opens counts what is read of a store.
type opens struct {
	store.Store
	n atomic.Int64
}

func (o *opens) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	o.n.Add(1)
	return o.Store.Open(ctx, key, off, n)
}

// Where a host's records lie is told with few reads, also if one of them is taken down and the
// cache holds the indexes of some segments only: the answer's lines take the segments in turn.
func TestPlacesSpareReads(t *testing.T) {
	const pages, editions = 50, 5
	s := servetest.New(t, nil)
	const host = "www.example.org"
	for e := range editions {
		var batch []*archive.Record
		for n := range pages {
			batch = append(batch, servetest.Page(fmt.Sprintf("http://%s/%03d", host, n), fmt.Sprint(n, e), dayOne.AddDate(0, 0, e)))
		}
		s.Publish(fmt.Sprintf("202611%02d", 2+e), map[string][]*archive.Record{host: batch})
	}
	s.Index()
	_, err := s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: host, URLPrefix: "http://" + host + "/007", Reason: "asked", By: "op"})
	testkit.Must(t, err)
	counted := &opens{Store: s.Store}
	l, err := reading.New(reading.Options{
		Catalog: s.Catalog, Store: counted, Accounts: s.Accounts, CacheBytes: 100 << 10, URLs: urlindex.NewReader(s.Store, urlindex.ReaderOptions{}),
	})
	testkit.Must(t, err)
	q, err := records.ParseQuery(url.Values{"url": {host + "/*"}, "limit": {"1000"}}, nil)
	testkit.Must(t, err)
	n := 0
	_, err = q.Run(t.Context(), l.Records, everyone, records.Budget{}, func(c records.Record) error {
		n++
		_, _, err := c.Place(t.Context())
		return err
	})
	testkit.Must(t, err)
	if reads := counted.n.Load(); n != (pages-1)*editions || reads > 3*editions {
		t.Errorf("%d records by %d reads, want at most %d", n, reads, 3*editions)
	}
}

// With the index, a walk over very many tiny hosts does not read an object for each of them,
// and one URL of a host of many segments is not looked for in each of these.
func TestIndexSparesReads(t *testing.T) {
	testkit.Slow(t)
	const hosts, editions = 400, 12
	s := servetest.New(t, nil)
	tiny := make(map[string][]*archive.Record)
	for n := range hosts {
		host := fmt.Sprintf("h%d.example.jp", n)
		tiny[host] = []*archive.Record{servetest.Page("http://"+host+"/", "x", dayOne)}
	}
	s.Publish("20261101", tiny)
	for e := range editions {
		s.Publish(fmt.Sprintf("202611%02d", 2+e), map[string][]*archive.Record{"www.example.org": {
			servetest.Page("http://www.example.org/", fmt.Sprint(e), dayOne.AddDate(0, 0, e)), servetest.Page("http://www.example.org/b", "b", dayOne.AddDate(0, 0, e)),
		}})
	}
	s.Index()
	count := func(search records.Search, with bool) (n int, reads int64) {
		counted := &opens{Store: s.Store}
		opt := reading.Options{Catalog: s.Catalog, Store: counted}
		if with {
			opt.URLs = urlindex.NewReader(counted, urlindex.ReaderOptions{})
		}
		l, err := reading.New(opt)
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Records.Search(t.Context(), everyone, search)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.Each(t.Context(), func(*records.Capture, records.Position) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n, counted.n.Load()
	}
	for name, c := range map[string]struct {
		target         library.Target
		records        int
		without, least int64
	}{
		"tiny hosts": {library.Target{Match: library.MatchDomain, Host: "jp"}, hosts, hosts, 20},
		"one URL":    {library.Target{Match: library.MatchExact, Host: "example.org", Key: "org,example)/"}, editions, editions, 10},
	} {
		search := records.Search{Targets: []library.Target{c.target}}
		n, reads := count(search, false)
		if n != c.records || reads < c.without {
			t.Errorf("%s, without the index: %d records by %d reads", name, n, reads)
		}
		if n, reads := count(search, true); n != c.records || reads > c.least {
			t.Errorf("%s, with it: %d records by %d reads, want at most %d", name, n, reads, c.least)
		}
	}
}
