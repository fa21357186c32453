// Package catalog decides what is published: which segment of which host lies where in the object
// store, and since when. The catalog is in the store itself, so every process can read it, and
// every index can be built again.
//
// The catalog is a numbered log over immutable sorted runs. Publishing stores one sorted run of
// rows and then appends version N+1 to the log by put-if-absent. Only that append makes anything
// visible. A version names the runs that make up the catalog, and Merge keeps them few. A reader
// pins a version, holds the block indexes of its runs in memory, and answers by seeks. How much it
// reads depends neither on the size of the catalog nor on the length of its history.
//
// Nothing is ever overwritten, and a step that fails deletes nothing: a run whose version was not
// appended is never read, and Collect deletes it in two passes, a day apart. The run with which an
// edition was published is kept for ever, as the list of the edition.
//
// CATALOG.md describes the bytes.
package catalog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
	"sheaf/internal/files"
)

// Options are the settings of a Catalog. The zero value is valid.
type Options struct {
	Location   *time.Location   // the zone whose days name editions; UTC if nil
	Now        func() time.Time // time.Now if nil
	TempDir    string           // for sorting and for new runs; the system's if empty
	Fanout     int              // number of runs of one level that are merged; 8 if zero
	SortMemory int              // bytes of rows that are sorted in memory before they are spilled; 64 MiB if zero
	BlockSize  int              // bytes of rows in a block, before compression; 64 KiB if zero
	CacheSize  int              // decoded blocks that are cached; 512 if zero
	PinLife    time.Duration    // how long a snapshot may be read; 12 h if zero

	// Boundary, if set, is called before and after each durable write with one of Boundaries. A
	// fault test stops the process in it.
	Boundary files.Boundary
}

// pinLife is the default of Options.PinLife.
const pinLife = 12 * time.Hour

func (o Options) withDefaults() Options {
	o.Location = cmp.Or(o.Location, time.UTC)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.PinLife = cmp.Or(o.PinLife, pinLife)
	o.Fanout, o.SortMemory = cmp.Or(o.Fanout, 8), cmp.Or(o.SortMemory, 64<<20)
	o.BlockSize, o.CacheSize = cmp.Or(o.BlockSize, 64<<10), cmp.Or(o.CacheSize, 512)
	return o
}

// Catalog reads a catalog and appends to it. Its methods may be called concurrently. Any number of
// processes may have a Catalog on the same store: the log decides between them.
type Catalog struct {
	opt Options
	log logbook
	lib *library

	appending sync.Mutex // one append at a time, so that only other processes compete

	mu   sync.Mutex // guards the fields below
	head *state
	seen time.Time              // when head was known to be the newest version
	pins map[*Snapshot]struct{} // snapshots that are not released
}

// state is the catalog at one version, with open runs. It is immutable.
type state struct {
	logEntry
	runs       []*run
	tombstones tombstones
	altered    altered
}

// Open reads the log's last version and the block indexes of its runs. If the store has no catalog,
// Open returns an empty one.
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

// refresh reads the newest version, makes it the head, and returns the head.
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

// take makes next the head, unless the head is newer, and returns the head. asked is a time at
// which no version newer than next existed.
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

// openState opens the runs of a version. It reuses the open runs of held.
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
	s.tombstones, s.altered, err = readTombstones(ctx, s.runs)
	return s, err
}

// Pin returns a snapshot of the newest version. The snapshot's data does not change, except that
// take-downs and lifts apply at once. The snapshot can be read for Options.PinLife, and returns
// ErrExpired afterwards. So other processes know, without being told, when nobody reads a version
// any more. The caller releases the snapshot.
func (c *Catalog) Pin(ctx context.Context) (*Snapshot, error) { return c.PinWithin(ctx, 0) }

// PinWithin is like Pin, but may return a version that was known to be the newest less than age
// ago. This saves a request to a log that may be far away. The snapshot always includes
// publications and take-downs of this Catalog itself.
func (c *Catalog) PinWithin(ctx context.Context, age time.Duration) (*Snapshot, error) {
	if s := c.pinHead(age); s != nil {
		return s, nil
	}
	if _, err := c.refresh(ctx); err != nil {
		return nil, fmt.Errorf("pin catalog: %w", err)
	}
	return c.pinHead(-1), nil
}

// pinHead pins the head if it was known to be the newest version less than age ago, or if age is
// negative. Otherwise it returns nil.
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

// pinnedRuns returns the names of all runs that the head or a snapshot of this Catalog has.
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

// append adds a version to the log and returns the head. It calls next with the head to get the
// version's record, and calls it again with the new head if another process has appended first. If
// next returns nil, append adds nothing.
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
		err = c.opt.Boundary.Write(string(r.Kind)+writeVersion, func() error {
			soon, cancel := context.WithTimeout(ctx, Over/3)
			defer cancel()
			return c.log.append(soon, &head.logEntry, *r)
		})
		if errors.Is(err, store.ErrTaken) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return c.refresh(ctx)
	}
}

// after returns the next version's time: now, or the head's time if the clock was set back.
func (c *Catalog) after(head *state) time.Time {
	now := c.opt.Now().UTC().Truncate(time.Millisecond)
	if now.Before(head.At) {
		return head.At
	}
	return now
}

// newSorter returns a sorter that compares rows as bytes.
func (c *Catalog) newSorter() *sortedrun.Sorter {
	return sortedrun.NewSorter(c.opt.TempDir, c.opt.SortMemory, bytes.Compare)
}

// addRun returns a new slice: runs, followed by added.
func addRun(runs []runRef, added runRef) []runRef {
	return append(append(make([]runRef, 0, len(runs)+1), runs...), added)
}

// Check returns an error if the store has lost or changed the log's last version, or lost the
// oldest or the newest of its runs. It is a quick check for monitoring; Fsck checks everything.
func (c *Catalog) Check(ctx context.Context) error {
	held, err := c.refresh(ctx)
	if err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	now, err := c.log.read(ctx, held.N)
	if err != nil {
		return fmt.Errorf("catalog: version %d: %w", held.N, err)
	}
	if now.digest != held.digest {
		return fmt.Errorf("catalog: version %d has changed since it was read: %w", held.N, ErrCorrupt)
	}
	for i, ref := range now.Runs {
		if i != 0 && i != len(now.Runs)-1 {
			continue
		}
		if _, err := store.ReadAll(ctx, c.log.Store, ref.Name, ref.Size-1, 1); err != nil {
			return fmt.Errorf("catalog: %s of version %d: %w", ref.Name, held.N, err)
		}
	}
	return nil
}

// Boundaries returns the names of the catalog's durable writes. Each method makes its writes in the
// order given. A fault test must stop the process before and after each write.
func Boundaries() []string {
	return []string{
		string(kindPublish) + writeRun, string(kindPublish) + writeVersion,
		string(kindMerge) + writeRun, string(kindMerge) + writeVersion,
		string(kindRemove) + writeRun, string(kindRemove) + writeVersion,
		string(kindRestore) + writeRun, string(kindRestore) + writeVersion, string(kindRestrict) + writeRun, string(kindRestrict) + writeVersion,
		writeCondemn, string(kindErase) + writeRun, string(kindErase) + writeVersion, writeCollect, writeCollected,
		string(kindExpire) + writeRun, string(kindExpire) + writeVersion,
	}
}

// Suffixes of the names of durable writes. The version's kind comes before them.
const (
	writeRun     = "-run"     // the sorted run is stored
	writeVersion = "-version" // the version is appended, which makes the run visible
)

// Names of Collect's durable writes, except for its versions.
const (
	writeCondemn   = "condemn"   // a list of marked objects is stored
	writeCollect   = "collect"   // a marked object is deleted
	writeCollected = "collected" // a list is deleted, after its objects
)
