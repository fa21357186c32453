// Package crash kills the real service with SIGKILL, at every durable write of a batch and at
// random moments, and checks what is there afterwards: every batch is published exactly once, fsck
// finds no fault, and no reader saw half of anything.
//
// The service is the one that `sheaf serve` runs, built by the same code in a process of its own:
// the test's binary, started again. The robots that upload to it are robotd's own uploader over
// HTTP and FTP, and some that cut their connections. After a kill the service is only started
// again.
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
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// childEnv is the environment variable with the order for a child process.
const childEnv = "SHEAF_CRASH_TEST_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// SIGKILL leaves the page cache as it is, so a disk would show no more than memory does.
	if st, err := os.Stat(memory); err == nil && st.IsDir() && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", memory)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "10"); err != nil { // the cases wait for disks and each other, not for processors
		panic(err)
	}
	os.Exit(m.Run())
}

// memory is Linux's file system in memory, where t.TempDir makes its directories.
const memory = "/dev/shm"

// order says what a child process does.
type order struct {
	Settings map[string]any // of the service
	Keep     []string       // instead of serving: work on the catalog, alone
	Ahead    time.Duration  // how far that work's clock is ahead
	Host     string         // that this work takes down
	Die      *death         // nil: live
}

// death is a boundary at which a process kills itself.
type death struct {
	Write, When string // of boundaries, and "before" or "after"
	Nth         int    // count of passes of the boundary
	Since       string // a write after which the count begins; empty: at once
}

func (d *death) String() string { return d.When + " " + d.Write }

// hello is what a child prints when it serves.
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
	cfg.Login.Passwords, cfg.Slower = servetest.Cheap, testkit.Slower
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

// keep does what operators do to the catalog, one after the other. Its clock is ahead of earlier
// processes, and a day further with each collection.
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
			_, err = c.Collect(ctx, catalog.CollectOptions{Claims: nobodys, Retention: catalog.Retention{Keep: 20 * time.Hour, Expendable: anything}})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", work, err)
		}
	}
	return nil
}

// anything lets everything expire that is old enough.
func anything(_ context.Context, _ []catalog.SegmentEntry, n int) ([]bool, error) {
	return slices.Repeat([]bool{true}, n), nil
}

// reaper kills the process at a boundary. It is called from all goroutines of the service.
type reaper struct {
	mu    sync.Mutex // guards all below
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
	// The lock is held to the end, so no goroutine passes another boundary.
	fmt.Println(diedAt, d)
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// diedAt begins the line that a child prints before it kills itself.
const diedAt = "died"

// obey receives deaths from the parent, and ends when the parent is gone.
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
