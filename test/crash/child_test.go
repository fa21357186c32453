// Package crash kills the real service with SIGKILL, at every durable write of a
// batch's way and at random, and checks what is there afterwards: every batch is
// published exactly once, fsck is clean, and no reader saw half of anything.
//
// The service is the one that `sheaf serve` runs, put together by the same code
// and in a process of its own: the test's binary, started again. The robots that
// upload to it are robotd's own uploader over HTTP and FTP, beside some that cut
// their connections. Nothing helps the service up again but starting it.
package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/lease/etcdtest"
)

// childEnv holds the order with which the test's binary runs as a child.
const childEnv = "SHEAF_CRASH_TEST_CHILD"

func TestMain(m *testing.M) {
	etcdtest.Main()
	if text := os.Getenv(childEnv); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// SIGKILL takes nothing from the page cache, so a disk shows nothing here that memory does not.
	if st, err := os.Stat(memory); err == nil && st.IsDir() && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", memory)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "10"); err != nil { // the cases wait for disks and one another, not for processors
		panic(err)
	}
	os.Exit(m.Run())
}

// memory is Linux's file system in memory; t.TempDir makes its directories there.
const memory = "/dev/shm"

// order is what a child is to do.
type order struct {
	Settings map[string]any // of the service
	Keep     []string       // in place of the service: work on the catalog, alone
	Ahead    time.Duration  // of the clock at that work
	Host     string         // that is taken down by it
	Die      *death         // nil: live
}

// death is a boundary at which a process kills itself.
type death struct {
	Write, When string // of service.Boundaries, and "before" or "after"
	Nth         int    // time that it comes by
	Since       string // a write after which the counting begins; empty: at once
}

func (d *death) String() string { return d.When + " " + d.Write }

// hello is what a child tells when it serves.
type hello struct {
	service.Addresses
	Token string
}

func child(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	r := &reaper{}
	r.arm(o.Die)
	if o.Keep != nil {
		return keep(o, r)
	}
	cfg, err := service.Load("", o.Settings)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := service.New(context.Background(), cfg, log, service.WithBoundary(r.boundary))
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(hello{s.Addresses(), s.OperatorToken()}); err != nil {
		return err
	}
	go r.obey(bufio.NewScanner(os.Stdin))
	return s.Run(context.Background())
}

// keep does what operators do to the catalog, one after the other. Its clock is ahead of
// the lives before, and a day further with each collection.
func keep(o order, r *reaper) error {
	ctx := context.Background()
	objects, err := store.OpenFS(filepath.Join(o.Settings["data"].(string), "store"))
	if err != nil {
		return err
	}
	ahead := o.Ahead
	c, err := catalog.Open(ctx, objects, catalog.Options{
		Fanout: 2, Now: func() time.Time { return time.Now().Add(ahead) },
		Boundary: func(write, when string) { r.boundary("catalog/"+write, when) },
	})
	if err != nil {
		return err
	}
	host := catalog.Tombstone{Host: o.Host, Reason: "asked for", By: "test"}
	nobodys := func(context.Context) (func(string) bool, error) { return func(string) bool { return false }, nil }
	for _, work := range o.Keep {
		switch work {
		case "merge":
			err = c.Merge(ctx)
		case "remove":
			_, err = c.Remove(ctx, host)
		case "restore":
			_, err = c.Restore(ctx, host)
		case "collect":
			ahead += 25 * time.Hour
			_, err = c.Collect(ctx, catalog.CollectOptions{Claims: nobodys})
		case "retain":
			ahead += 72 * time.Hour
			_, err = c.Collect(ctx, catalog.CollectOptions{Claims: nobodys, Retention: catalog.Retention{Keep: 48 * time.Hour, Expendable: anything}})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", work, err)
		}
	}
	return nil
}

// anything lets go of all that is old enough.
func anything(_ context.Context, _ []catalog.SegmentEntry, n int) ([]bool, error) {
	return slices.Repeat([]bool{true}, n), nil
}

// reaper ends the process at a boundary. It is called from all of the service's goroutines.
type reaper struct {
	mu    sync.Mutex // guards what follows
	death *death
	seen  int
}

func (r *reaper) arm(d *death) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.death, r.seen = d, 0
}

func (r *reaper) boundary(write, when string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.death
	switch {
	case d == nil:
		return
	case d.Since != "":
		if d.Since == write && when == "after" {
			d.Since = ""
		}
		return
	case d.Write != write || d.When != when:
		return
	}
	if r.seen++; r.seen < max(d.Nth, 1) {
		return
	}
	// The lock is held to the end, so nobody passes another boundary.
	fmt.Println(diedAt, d)
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// diedAt begins the line with which a child tells that it dies by itself.
const diedAt = "died"

// obey arms the deaths that the parent sends, and ends when the parent is gone.
func (r *reaper) obey(orders *bufio.Scanner) {
	for orders.Scan() {
		var d death
		if err := json.Unmarshal(orders.Bytes(), &d); err != nil {
			panic(err)
		}
		r.arm(&d)
	}
	os.Exit(3)
}
