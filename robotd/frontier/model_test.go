package frontier

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// model is the expected queue of a host, in memory.
type model struct {
	seen  map[string]bool
	queue []Entry
}

// Many hosts, more than entries are kept ready for, are pushed to, visited and reopened in
// any order; each behaves as if it were alone. With SHEAF_TEST_FULL=1 it is 6,000 steps.
func TestManyHosts(t *testing.T) {
	testkit.Slow(t)
	const hosts = aheadHosts + 200
	steps := testkit.Size(2_500, 6_000)
	dir := t.TempDir()
	f, err := Open(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	models := make([]model, hosts)
	rng := rand.New(rand.NewPCG(1, 2))
	for step := range steps {
		i := rng.IntN(hosts)
		if rng.IntN(3) == 0 {
			i = 0 // one host is much longer than the others
		}
		m, name := &models[i], fmt.Sprintf("h%d.example.jp", i)
		h, err := f.Host(name)
		if err != nil {
			t.Fatal(err)
		}
		switch what := rng.IntN(10); {
		case what < 5:
			var links []Entry
			want := 0
			for range rng.IntN(60) {
				scheme := []string{"http", "https"}[rng.IntN(2)]
				e := Entry{URL: fmt.Sprintf("%s://%s/%d", scheme, name, rng.IntN(200+step/10)), Depth: rng.IntN(3), Redirects: rng.IntN(2)}
				links = append(links, e)
				if m.seen == nil {
					m.seen = make(map[string]bool)
				}
				if !m.seen[e.URL] {
					m.seen[e.URL] = true
					m.queue = append(m.queue, e)
					want++
				}
			}
			push(t, h, want, links...)
		case what < 9 && len(m.queue) > 0:
			head(t, h, m.queue[0])
			if what == 8 {
				if err := h.Retry(); err != nil {
					t.Fatal(err)
				}
				e := m.queue[0]
				e.Tries++
				m.queue = append(m.queue, e)
			} else {
				finish(t, h, Done{})
			}
			m.queue = m.queue[1:]
		case step%50 == 0: // as after SIGKILL
			if f, err = Open(dir, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, m := range models {
		h, err := f.Host(fmt.Sprintf("h%d.example.jp", i))
		if err != nil {
			t.Fatal(err)
		}
		if h.Left() != len(m.queue) || h.Len() != len(m.seen) {
			t.Errorf("%s has %d URLs, %d of them left; want %d and %d", h.Name, h.Len(), h.Left(), len(m.seen), len(m.queue))
		}
		for _, e := range m.queue {
			head(t, h, e)
			finish(t, h, Done{})
		}
	}
}

// A sorter returns every page once, as it was added last, however often it spilled.
func TestSorter(t *testing.T) {
	for _, limit := range []int{1, 700, 1 << 20} {
		s := newSorter(t.TempDir(), "www.example.jp:8080", limit)
		want := make(map[uint64]known)
		for n := range 300 {
			e := page(n * n % 97)
			k := known{hash(e.URL), Visit{Digest: fmt.Sprint(n), Full: time.Unix(int64(n), 1).UTC(), Gone: n%5 == 0}, e}
			if k.visit.Gone {
				k.visit = Visit{Gone: true}
			}
			want[k.key] = k
			if err := s.add(k); err != nil {
				t.Fatal(err)
			}
		}
		source, err := s.source()
		if err != nil {
			t.Fatal(err)
		}
		var keys []uint64
		k, more, err := source.next()
		for ; more && err == nil; k, more, err = source.next() {
			keys = append(keys, k.key)
			if w := want[k.key]; k != w {
				t.Errorf("limit %d: %+v, want %+v", limit, k, w)
			}
		}
		if err != nil || len(keys) != len(want) || !slices.IsSorted(keys) {
			t.Errorf("limit %d: %d of %d pages, %v", limit, len(keys), len(want), err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
}
