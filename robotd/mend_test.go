package robotd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// The disk loses parts of a host's queue in the middle of a cycle, when some of the
// pages lie in a batch of the spool and some in the open segment. All the same every
// page arrives, and once; none is fetched again but the one in hand.
func TestDamagedQueue(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const pages = 150
	for name, damage := range map[string]func(files map[string]string) error{
		"log cut":       func(f map[string]string) error { return os.Truncate(f["log"], 1500) },
		"log gone":      func(f map[string]string) error { return os.Remove(f["log"]) },
		"log garbled":   func(f map[string]string) error { return overwrite(f["log"], 1200, 2000) },
		"journal cut":   func(f map[string]string) error { return os.Truncate(f["journal"], 2000) },
		"journal holes": func(f map[string]string) error { return overwrite(f["journal"], 3000, 3001) },
		"all garbled": func(f map[string]string) error {
			for _, path := range f {
				if err := overwrite(path, 200, 900); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			site := newSite(t, "127.0.0.61")
			site.tree("www.a.test", pages)
			site.page("www.b.test/", "text/html", []byte("<a href=http://www.a.test/only-from-b.html>a</a>"))
			site.page("www.a.test/only-from-b.html", "text/html", []byte("found"))
			s := newService(t, "http://www.a.test/", "http://www.b.test/")
			cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr, "www.b.test": site.addr})
			cfg.Interval = 0
			r, err := New(cfg, testLog(t))
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			toThird := site.holdAfter(pages / 3)
			defer toThird()
			ended := make(chan error, 1)
			go func() { ended <- r.Cycle(ctx) }()
			testkit.Until(t, "a third of the visits", site.holds)
			if err := r.seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			toEnd := site.holdAfter(2 * pages / 3)
			defer toEnd()
			toThird()
			testkit.Until(t, "two thirds of the visits", site.holds)
			stop()
			if err := <-ended; err == nil {
				t.Fatal("the cycle ended well, although it was stopped")
			}
			toEnd()
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			files := make(map[string]string)
			for _, kind := range []string{"log", "journal"} {
				found, err := filepath.Glob(filepath.Join(cfg.DataDir, "frontier", "*", "www.a.test", "1."+kind))
				if err != nil || len(found) != 1 {
					t.Fatalf("%s: %v, %v", kind, found, err)
				}
				files[kind] = found[0]
			}
			if err := damage(files); err != nil {
				t.Fatal(err)
			}
			if r, err = New(cfg, testLog(t)); err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if err := r.Cycle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := r.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, h := range s.all()[0].manifest.Coverage {
				if h.Host == "www.a.test" && (h.Left == 0 || h.LeftWhy != "later" || h.Collected == 0) {
					t.Errorf("a batch made under way says %+v", h)
				}
			}
			archived := make(map[string]int)
			for i := range s.all() {
				for url := range s.cells(i, "www.a.test") {
					archived[url]++
				}
			}
			if len(archived) != pages+1 || archived["http://www.a.test/only-from-b.html"] != 1 {
				t.Errorf("%d pages arrived, want %d", len(archived), pages+1)
			}
			again := 0
			for at, hits := range site.hits {
				if strings.HasSuffix(at, "/robots.txt") {
					continue
				}
				again += hits - 1
				if n := archived["http://"+at]; n > 1 {
					t.Errorf("%s arrived %d times", at, n)
				}
			}
			if again > 1 {
				t.Errorf("%d pages were fetched again", again)
			}
		})
	}
}

// overwrite spoils some of a file's bytes.
func overwrite(path string, from, to int) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(data) < to {
		return fmt.Errorf("%s has only %d bytes", path, len(data))
	}
	for i := from; i < to; i++ {
		data[i] ^= 0x55
	}
	return os.WriteFile(path, data, 0o644)
}
