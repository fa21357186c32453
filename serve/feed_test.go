package serve_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

// copyOf is what somebody keeps of the tree who follows the feed: path to ETag.
type copyOf struct {
	account *account.Account
	want    api.Selection
	page    int
	at      api.Cursor
	files   map[string]string
	events  []api.Event
}

func (c *copyOf) follow(t *testing.T, l *reading.Library) {
	t.Helper()
	for more := true; more; {
		page, err := l.Changes.Wait(t.Context(), c.account, c.want, c.at, c.page, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			if e.Seq <= c.at.Since || e.Seq > page.Next.Since || len(page.Events) > c.page {
				t.Fatalf("%+v in a page from %v to %v", e, c.at, page.Next)
			}
			c.at.Since = e.Seq
			c.apply(t, l, e)
		}
		c.events = append(c.events, page.Events...)
		if page.Next.Since < c.at.Since || page.More == (page.Next.Since == page.Last) {
			t.Fatalf("%+v behind %v", page, c.at)
		}
		c.at, more = page.Next, page.More
	}
}

// apply does as package api says that one may.
func (c *copyOf) apply(t *testing.T, l *reading.Library, e api.Event) {
	t.Helper()
	if e.Op == api.Put && len(e.Files) > 0 {
		for _, f := range e.Files {
			c.files[e.Path+f.Name] = f.ETag
		}
		return
	}
	maps.DeleteFunc(c.files, func(path, _ string) bool {
		return strings.HasPrefix(path, e.Path) && !strings.Contains(path[len(e.Path):], "/")
	})
	maps.Copy(c.files, editionFiles(t, l, c.account, e.Path))
}

// editionFiles gives the ETags of what a directory lists of editions.
func editionFiles(t *testing.T, l *reading.Library, a *account.Account, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for n, err := range l.Tree.List(t.Context(), a, dir) {
		if errors.Is(err, library.ErrNotFound) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(n.Name, "20") {
			files[dir+n.Name] = n.ETag
		}
	}
	return files
}

// TestFeed lets an archive live: batches, several of one edition too, take-downs of every kind,
// liftings and expiries. Who follows, from the beginning or from wherever it was, whatever it
// selects and in whatever pages, has what the tree shows it; so has who reads the files below
// /feed.
func TestFeed(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	now := &passing{}
	s := history(t, now, 0)
	random := rand.New(rand.NewPCG(7, 1))
	hosts := []string{"www.waseda.ac.jp", "waseda.ac.jp", "www.waseda.ac.jp:8080", "wasedax.ac.jp", "www.keio.ac.jp", "example.jpx", "192.0.2.7", "ac.uk"}
	academic := &account.Account{Name: "academic", Domains: []string{"waseda.ac.jp", "keio.ac.jp", "ac.uk"}}
	selections := []api.Selection{
		{}, {Hosts: []string{"www.waseda.ac.jp", "www.keio.ac.jp"}}, {Domains: []string{"waseda.ac.jp", "ac.jp"}}, {SURT: []string{"jp,ac,wa"}, Hosts: []string{"ac.uk"}},
	}
	var early []*copyOf
	for _, a := range []*account.Account{everyone, academic} {
		for i, q := range selections {
			early = append(early, &copyOf{account: a, want: q, page: []int{1, 3, 100}[i%3], files: map[string]string{}})
		}
	}
	var down []catalog.Tombstone
	start := now.now().UTC().Truncate(time.Second)
	for step := range testkit.Size(24, 36) {
		now.ahead += 12 * time.Hour
		at := start.Add(now.ahead)
		host := hosts[random.IntN(len(hosts))]
		switch kind := random.IntN(10); {
		case kind < 6:
			batches := make([]map[string][]*archive.Record, 1+random.IntN(3))
			for i := range batches {
				batches[i] = map[string][]*archive.Record{}
				for _, h := range append(random.Perm(len(hosts))[:random.IntN(4)], random.IntN(2)) {
					url := "http://" + hosts[h] + "/"
					batches[i][hosts[h]] = []*archive.Record{servetest.Page(url, fmt.Sprint(step, i), at), servetest.Page(url+"secret/", "s", at)}
				}
			}
			s.Publish(at.Format("20060102"), batches...)
		case kind < 7:
			stone := catalog.Tombstone{Host: host, Reason: "r", By: "b"}
			switch random.IntN(4) {
			case 0:
				stone.Edition = at.Add(-12 * time.Hour).Format("20060102")
			case 1, 2:
				stone.URLPrefix = "http://" + host + "/secret"
			}
			if _, err := s.Catalog.Remove(t.Context(), stone); err != nil {
				t.Fatal(err)
			}
			down = append(down, stone)
		case kind < 9 && len(down) > 0:
			if _, err := s.Catalog.Restore(t.Context(), down[len(down)-1]); err != nil && !errors.Is(err, catalog.ErrNotExist) {
				t.Fatal(err)
			}
			down = down[:len(down)-1]
		case kind == 9 && step > 12:
			retention := catalog.Retention{Keep: 5 * 24 * time.Hour, Expendable: s.Library.Archive.Expendable}
			if _, err := s.Catalog.Collect(t.Context(), catalog.CollectOptions{Retention: retention}); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range early {
			if random.IntN(3) == 0 {
				c.follow(t, s.Library)
			}
		}
	}
	for _, c := range early {
		c.follow(t, s.Library)
		late := &copyOf{account: c.account, want: c.want, page: 7, files: map[string]string{}}
		late.follow(t, s.Library)
		if !maps.Equal(late.files, c.files) {
			t.Errorf("%s %+v: begun late %v\nbegun early %v", c.account.Name, c.want, late.files, c.files)
		}
		there := map[string]string{}
		for _, h := range hosts {
			surt := catalog.Key(h)
			all := len(c.want.Hosts)+len(c.want.Domains)+len(c.want.SURT) == 0
			ofDomain := slices.ContainsFunc(c.want.Domains, func(d string) bool {
				return h == d || strings.HasSuffix(h, "."+d) || strings.HasSuffix(h, "."+d+":8080")
			})
			ofSURT := slices.ContainsFunc(c.want.SURT, func(p string) bool { return strings.HasPrefix(surt, p) })
			if all || ofDomain || ofSURT || slices.Contains(c.want.Hosts, h) {
				maps.Copy(there, editionFiles(t, s.Library, c.account, "/"+naming.HostPath(h)+"/"))
			}
		}
		if !maps.Equal(there, c.files) {
			t.Errorf("%s %+v: has %v\nthere is %v", c.account.Name, c.want, slices.Sorted(maps.Keys(c.files)), slices.Sorted(maps.Keys(there)))
		}
		if len(there) == 0 {
			t.Errorf("%s %+v selects nothing", c.account.Name, c.want)
		}
		if reflect.DeepEqual(c.want, api.Selection{}) {
			fromFiles := readFeedFiles(t, s.Library, c.account, 0)
			if !reflect.DeepEqual(fromFiles, late.events) {
				t.Errorf("%s: the files have %d events, the feed %d", c.account.Name, len(fromFiles), len(late.events))
			}
		}
	}
	ops := map[api.Op]int{}
	whole := 0
	for _, e := range early[0].events {
		ops[e.Op]++
		whole += min(1, len(e.Files))
	}
	if ops[api.Put] == 0 || ops[api.Delete] == 0 || ops[api.Reseal] == 0 || whole == 0 || whole == ops[api.Put] {
		t.Errorf("the feed had %v, %d with files: not everything was tried", ops, whole)
	}
}

// readFeedFiles reads what the files below /feed hold behind a number, found by name alone.
func readFeedFiles(t *testing.T, l *reading.Library, a *account.Account, since int64) (events []api.Event) {
	t.Helper()
	var latest api.Latest
	if err := json.Unmarshal(read(t, l, a, "/feed/LATEST"), &latest); err != nil {
		t.Fatal(err)
	}
	for _, tile := range api.Tiles(since, latest.Since) {
		z, err := gzip.NewReader(bytes.NewReader(read(t, l, a, tile.Path())))
		if err != nil {
			t.Fatal(err)
		}
		in := json.NewDecoder(z)
		var h api.Header
		if err := in.Decode(&h); err != nil || h.Tile != tile {
			t.Fatalf("%s begins %+v, %v", tile.Path(), h, err)
		}
		for {
			var e api.Event
			err := in.Decode(&e)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || e.Seq < tile.From || e.Seq > tile.To {
				t.Fatalf("%s: %+v, %v", tile.Path(), e, err)
			}
			events = append(events, e)
		}
		if tile.To == latest.Since && h.Mark != latest.Mark {
			t.Errorf("mark %s at the end of %s, %s in LATEST", h.Mark, tile.Path(), latest.Mark)
		}
	}
	return events
}
