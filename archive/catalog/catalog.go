// Package catalog is the authority on what is published: which segment of which
// host lies where in the object store, and since when. All of it lies in the
// store itself, so that any node can read it and every index can be rebuilt.
//
// The idea is a numbered log over immutable sorted runs. Publishing writes one
// sorted run of rows and then appends version N+1 to the log by put-if-absent;
// that append is the only act that makes anything visible. A version names the
// runs that make up the catalog, and Merge keeps them few. A reader pins a
// version, holds the block indexes of its runs in memory, and answers by seeks:
// neither the size of the catalog nor the length of its history has to be read.
//
// Nothing is ever overwritten, and nothing is deleted when a step fails: a run
// whose version was not appended is never looked at, and is left for collection.
// Collect deletes it in two passes, a day apart. The run with which an edition was
// published is kept for ever, as the edition's list.
//
// CATALOG.md tells the bytes.
package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// Options are settings of a catalog; the zero value is good.
type Options struct {
	Location   *time.Location   // the service's zone, in which editions are named; UTC if nil
	Now        func() time.Time // time.Now if nil
	TempDir    string           // where runs are put together before they are stored; the system's if empty
	Fanout     int              // runs of one level that Merge makes one of; 8 if zero
	SortMemory int              // bytes of lines that Publish sorts in memory before it spills; 64 MiB if zero
	BlockSize  int              // bytes of rows in a run's block; 64 KiB if zero
	CacheSize  int              // blocks that are kept inflated; 512 if zero
	PinLife    time.Duration    // how long a snapshot may be read after it was pinned; 12 h if zero

	// Boundary, where it is set, is called before and after each durable write
	// with one of Boundaries and "before" or "after": a fault test dies in it.
	Boundary sortedrun.Boundary
}

// pinLife is the default of Options.PinLife.
const pinLife = 12 * time.Hour

func (o Options) withDefaults() Options {
	if o.Location == nil {
		o.Location = time.UTC
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.PinLife <= 0 {
		o.PinLife = pinLife
	}
	for _, d := range []struct {
		v *int
		n int
	}{{&o.Fanout, 8}, {&o.SortMemory, 64 << 20}, {&o.BlockSize, 64 << 10}, {&o.CacheSize, 512}} {
		if *d.v <= 0 {
			*d.v = d.n
		}
	}
	return o
}

// Catalog reads and appends to the catalog in a store. Its methods may be called
// from many goroutines at once, and any number of processes may have a Catalog
// on the same store: the log decides between them.
type Catalog struct {
	opt Options
	log logbook
	lib *library

	appending sync.Mutex // one append at a time here, so that only other processes are raced

	mu   sync.Mutex // guards what follows
	head *state
	seen time.Time              // when head was the newest version for certain
	pins map[*Snapshot]struct{} // those that are held
}

// state is the catalog at one version, opened. It is never changed.
type state struct {
	logEntry
	runs       []*run
	tombstones tombstones
}

// Open reads the log's last version and the block indexes of its runs. A store
// without a catalog is an empty one.
func Open(ctx context.Context, st store.Store, opt Options) (*Catalog, error) {
	opt = opt.withDefaults()
	lib, err := newLibrary(st, opt.CacheSize)
	if err != nil {
		return nil, err
	}
	c := &Catalog{opt: opt, log: newLogbook(st), lib: lib, pins: make(map[*Snapshot]struct{})}
	if _, err := c.refresh(ctx); err != nil {
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	return c, nil
}

func newLibrary(st store.Store, cacheSize int) (*library, error) {
	codec, err := newCodec()
	if err != nil {
		return nil, err
	}
	cache, err := lru.New[blockID, *sortedrun.Block](cacheSize)
	if err != nil {
		return nil, err
	}
	return &library{store: st, codec: codec, cache: cache}, nil
}

func (c *Catalog) current() *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head
}

// refresh reads the log's last version, if it is not the one held.
func (c *Catalog) refresh(ctx context.Context) (*state, error) {
	held := c.current()
	known := int64(0)
	if held != nil {
		known = held.N
	}
	asked := time.Now()
	n, err := c.log.Last(ctx, known)
	if err != nil {
		return nil, err
	}
	if held != nil && n == known {
		return c.take(held, asked), nil
	}
	e, err := c.log.read(ctx, n)
	if err != nil {
		return nil, err
	}
	next, err := c.openState(ctx, e, held)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", n, err)
	}
	return c.take(next, asked), nil
}

// take makes a version the head, unless a newer one is, and notes that none was
// newer when it was asked for. It gives the head.
func (c *Catalog) take(next *state, asked time.Time) *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head == nil || c.head.N <= next.N {
		c.head = next
		if asked.After(c.seen) {
			c.seen = asked
		}
	}
	return c.head
}

// openState opens what a version names; runs that are open in held are shared.
func (c *Catalog) openState(ctx context.Context, e *logEntry, held *state) (*state, error) {
	s := &state{logEntry: *e}
	open := make(map[string]*run)
	if held != nil {
		for _, r := range held.runs {
			open[r.Name] = r
		}
	}
	for _, ref := range e.Runs {
		r := open[ref.Name]
		if r == nil {
			var err error
			if r, err = c.lib.open(ctx, ref); err != nil {
				return nil, err
			}
		}
		s.runs = append(s.runs, r)
	}
	var err error
	s.tombstones, err = readTombstones(ctx, s.runs)
	return s, err
}

// Pin takes hold of the catalog's last version. What the snapshot reads does
// not change until it is released, except that take-downs apply at once. It can
// be read for Options.PinLife, and fails with ErrExpired afterwards: so other
// processes know, without being told of it, when nobody reads a version any more.
func (c *Catalog) Pin(ctx context.Context) (*Snapshot, error) { return c.PinWithin(ctx, 0) }

// PinWithin is Pin for those to whom the version may also be one that was the
// last within the time given: the log, which may be far away, is not asked then.
// Of what this Catalog itself published or took down it never lags behind.
func (c *Catalog) PinWithin(ctx context.Context, age time.Duration) (*Snapshot, error) {
	if s := c.pinHead(age); s != nil {
		return s, nil
	}
	if _, err := c.refresh(ctx); err != nil {
		return nil, fmt.Errorf("pin catalog: %w", err)
	}
	return c.pinHead(-1), nil
}

// pinHead pins the head if that was the last version within age, or age is negative.
func (c *Catalog) pinHead(age time.Duration) *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age >= 0 && time.Since(c.seen) >= age {
		return nil
	}
	s := &Snapshot{catalog: c, state: c.head, expires: c.seen.Add(c.opt.PinLife)}
	c.pins[s] = struct{}{}
	return s
}

// pinnedRuns gives the names of all runs that a snapshot of this Catalog, or its head, reads.
func (c *Catalog) pinnedRuns() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make(map[string]bool)
	for _, r := range c.head.runs {
		names[r.Name] = true
	}
	for s := range c.pins {
		for _, r := range s.state.runs {
			names[r.Name] = true
		}
	}
	return names
}

func (c *Catalog) unpin(s *Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pins, s)
}

// append adds a version to the log. It asks next what follows on the head, again
// for every head it lost against; next returns nil where nothing is to be done.
func (c *Catalog) append(ctx context.Context, next func(*state) (*logRecord, error)) (*state, error) {
	c.appending.Lock()
	defer c.appending.Unlock()
	for {
		head, err := c.refresh(ctx)
		if err != nil {
			return nil, err
		}
		r, err := next(head)
		if err != nil || r == nil {
			return head, err
		}
		if age := time.Now().Round(0).Sub(r.Added.built.Round(0)); age > c.opt.PinLife {
			return nil, fmt.Errorf("run %s was stored %v ago and may be collected; to be repeated", r.Added.Name, age)
		}
		err = c.opt.Boundary.Write(string(r.Kind)+writeVersion, func() error { return c.log.append(ctx, &head.logEntry, *r) })
		if errors.Is(err, store.ErrTaken) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return c.refresh(ctx)
	}
}

// after is the time by which the version that follows on the head is dated: now,
// or the head's own time where the clock was set back.
func (c *Catalog) after(head *state) time.Time {
	now := c.opt.Now().UTC().Truncate(time.Millisecond)
	if now.Before(head.At) {
		return head.At
	}
	return now
}

// newSorter returns a sorter of rows as bytes.
func (c *Catalog) newSorter() *sortedrun.Sorter {
	return sortedrun.NewSorter(c.opt.TempDir, c.opt.SortMemory, bytes.Compare)
}

// addRun gives the runs with one more, in a slice of its own.
func addRun(runs []runRef, added runRef) []runRef {
	return append(append(make([]runRef, 0, len(runs)+1), runs...), added)
}
