package urlindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
	"sheaf/internal/files"
)

// Suffixes of the names of durable writes. The state's kind comes before them.
const (
	writeRows   = "-rows"   // cdx.gz
	writeBlocks = "-blocks" // cluster.idx
	writePlaces = "-places" // location.txt
	writePages  = "-pages"  // pages
	writeState  = "-state"  // the log's new entry, which makes the run visible
)

// Options are the settings of a Builder. The zero value is valid.
type Options struct {
	TempDir    string           // for sorting and for new runs; the system's if empty
	SortMemory int              // bytes of rows that are sorted in memory before they are spilled; 64 MiB if zero
	Fanout     int              // number of runs of one level that are merged; 8 if zero
	RunRows    int64            // records after which a run of new entries ends, which limits the spilled bytes; 8,000,000 if zero
	Now        func() time.Time // time.Now if nil
	Log        *slog.Logger     // nil: discards

	// Segment, if set, returns the index of an entry's segment; otherwise the index is read from
	// the store. A benchmark makes up a million segments with it.
	Segment func(context.Context, catalog.SegmentEntry) (*archive.Index, error)

	// Boundary, if set, is called before and after each durable write with the write's name, such
	// as "build-rows", and "before" or "after". A fault test stops the Builder in it.
	Boundary files.Boundary
}

// Builder keeps the index of a catalog up to date. If several Builders run at once, the log of
// states decides which Builder wins. The work of the others is wasted and gets collected, so run
// one at a time.
type Builder struct {
	opt     Options
	catalog *catalog.Catalog
	store   store.Store
	states  states

	updating sync.Mutex // allows one Update at a time; guards checked
	checked  *entry     // the newest state that was found to be of this catalog and to have its runs
}

// NewBuilder returns a builder. st is the store of the catalog and of its segments.
func NewBuilder(c *catalog.Catalog, st store.Store, opt Options) *Builder {
	opt.SortMemory = cmp.Or(opt.SortMemory, 64<<20)
	opt.Fanout = cmp.Or(opt.Fanout, 8)
	opt.RunRows = cmp.Or(opt.RunRows, 8_000_000)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.Segment == nil {
		opt.Segment = func(ctx context.Context, e catalog.SegmentEntry) (*archive.Index, error) {
			return readIndex(ctx, st, e)
		}
	}
	return &Builder{opt: opt, catalog: c, store: st, states: states{store.Log{Store: st, Key: stateKey}, opt.Now, opt.Boundary}}
}

// Update brings the index up to date with the catalog: it adds new entries, rewrites runs with
// erased records, and merges. It may be interrupted at any point and repeated. If the index is
// damaged, or of another catalog, Update discards it and builds it again.
func (b *Builder) Update(ctx context.Context) error {
	b.updating.Lock()
	defer b.updating.Unlock()
	reset := false
	for {
		more, err := b.step(ctx)
		switch {
		case errors.Is(err, store.ErrTaken):
			b.opt.Log.InfoContext(ctx, "URL index: another process was first; going on from there")
		case (errors.Is(err, ErrCorrupt) || errors.Is(err, ErrOther)) && !reset:
			b.opt.Log.ErrorContext(ctx, "URL index: cannot be used; building it again from the segments", "err", err)
			reset = true
			if err := b.reset(ctx); err != nil && !errors.Is(err, store.ErrTaken) {
				return fmt.Errorf("URL index: %w", err)
			}
		case err != nil:
			return fmt.Errorf("URL index: %w", err)
		case !more:
			return nil
		}
	}
}

// Reset discards the index: the next Update, or the one in progress, builds it again from the
// segments. Until then readers use the segments.
func (b *Builder) Reset(ctx context.Context) error {
	for {
		if err := b.reset(ctx); !errors.Is(err, store.ErrTaken) {
			return err
		}
	}
}

func (b *Builder) reset(ctx context.Context) error {
	n, err := b.states.Last(ctx, 0)
	if err != nil {
		return err
	}
	e, err := b.states.read(ctx, n)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	_, err = b.states.append(ctx, e, state{Kind: kindReset})
	return err
}

// newest returns the newest state, once it has checked that the state is of this catalog and has
// its runs.
func (b *Builder) newest(ctx context.Context) (*entry, error) {
	known := int64(0)
	if b.checked != nil {
		known = b.checked.N
	}
	n, err := b.states.Last(ctx, known)
	if err != nil {
		return nil, err
	}
	if b.checked != nil && n == known {
		return b.checked, nil
	}
	e, err := b.states.read(ctx, n)
	if err != nil {
		return nil, err
	}
	if err := checkCatalog(ctx, b.store, &e.state); err != nil {
		return nil, err
	}
	for _, r := range e.Runs {
		if err := b.present(ctx, r); err != nil {
			return nil, err
		}
	}
	b.checked = e
	return e, nil
}

// present returns ErrCorrupt if objects of a run are missing or have the wrong size. It skips the
// runs of b.checked.
func (b *Builder) present(ctx context.Context, r runRef) error {
	if b.checked != nil && slices.ContainsFunc(b.checked.Runs, func(o runRef) bool { return o.Name == r.Name }) {
		return nil
	}
	for _, o := range r.objects() {
		info, err := b.store.Stat(ctx, o.Key)
		if err != nil {
			return damaged(err)
		}
		if info.Size != o.Size {
			return fmt.Errorf("%s: has %d bytes, the state says %d: %w", o.Key, info.Size, o.Size, ErrCorrupt)
		}
	}
	return nil
}

// step performs the next step that is due, and reports whether there may be another step.
func (b *Builder) step(ctx context.Context) (more bool, err error) {
	e, err := b.newest(ctx)
	if err != nil {
		return false, err
	}
	snap, err := b.catalog.Pin(ctx)
	if err != nil {
		return false, err
	}
	defer snap.Release()
	if e.Through > snap.Last() {
		return false, fmt.Errorf("state %d covers entry %d, the catalog ends at %d: %w", e.N, e.Through, snap.Last(), ErrOther)
	}
	full := sortedrun.FullLevel(e.Runs, b.opt.Fanout, func(r runRef) int { return r.Level })
	if e.Through == snap.Last() && e.Swept == e.Through && full == nil {
		return false, nil
	}
	gone, err := loadWithdrawn(ctx, snap)
	if err != nil {
		return false, err
	}
	j := &job{b, snap, e, gone}
	if e.Through < snap.Last() || e.Swept < e.Through {
		return true, j.follow(ctx)
	}
	return true, j.merge(ctx, full)
}

// job is one step of a builder, for one version of the catalog.
type job struct {
	builder *Builder
	snap    *catalog.Snapshot
	prev    *entry
	gone    *withdrawn // tells which rows to leave out of new runs
}

// merge replaces several runs by one run, in a new state.
func (j *job) merge(ctx context.Context, runs []runRef) error {
	next := j.prev.state
	next.Kind = kindMerge
	next.Runs = slices.DeleteFunc(slices.Clone(next.Runs), func(r runRef) bool {
		return slices.ContainsFunc(runs, func(o runRef) bool { return o.Name == r.Name })
	})
	ref, err := j.rewrite(ctx, kindMerge, runs[0].Level+1, runs...)
	if err != nil {
		return err
	}
	if ref.Rows > 0 {
		next.Runs = append(next.Runs, ref)
	}
	_, err = j.builder.states.append(ctx, j.prev, next)
	return err
}

// follow brings the index up to date with the catalog. It makes a run of new entries, up to a
// limit, and rewrites runs with erased records. It appends a state for each of the two.
func (j *job) follow(ctx context.Context) (err error) {
	opt := &j.builder.opt
	c := &newRows{job: j, sorter: sortedrun.NewSorter(opt.TempDir, opt.SortMemory, compareLines), memory: semaphore.NewWeighted(indexMemory)}
	defer func() { err = errors.Join(err, c.sorter.Close()) }()
	through, erased, err := c.collect(ctx)
	if err != nil {
		return err
	}
	at := j.prev
	if through > at.Through {
		if at, err = j.build(ctx, c, through, len(erased) == 0); err != nil {
			return err
		}
	}
	if at.Swept == through {
		return nil
	}
	return j.sweep(ctx, at, through, erased)
}

// build stores the rows as a run and appends the state that names the run. swept says that nothing
// was erased, so that no sweep needs to follow.
func (j *job) build(ctx context.Context, rows *newRows, through int64, swept bool) (*entry, error) {
	next := j.prev.state
	next.Kind, next.Through, next.Holes = kindBuild, through, rows.holes
	if swept {
		next.Swept = through
	}
	var err error
	next.Version = j.snap.Version()
	if next.Record, err = catalog.RecordDigest(ctx, j.builder.states.Store, next.Version); err != nil {
		return nil, err
	}
	sorted, err := rows.sorter.Rows(ctx)
	if err != nil {
		return nil, err
	}
	ref, err := j.makeRun(ctx, kindBuild, 0, sorted)
	if err != nil {
		return nil, err
	}
	if ref.Rows > 0 {
		next.Runs = append(slices.Clone(next.Runs), ref)
	}
	return j.builder.states.append(ctx, j.prev, next)
}

// sweep rewrites the runs that hold rows of erased records, and appends a state whose Swept is
// through.
func (j *job) sweep(ctx context.Context, at *entry, through int64, erased []catalog.Tombstone) error {
	next := at.state
	next.Kind, next.Swept = kindSweep, through
	next.Runs = nil
	for _, r := range at.Runs {
		holds, err := j.holds(ctx, r, erased)
		if err != nil {
			return err
		}
		if holds {
			if r, err = j.rewrite(ctx, kindSweep, r.Level, r); err != nil {
				return err
			}
		}
		if r.Rows > 0 {
			next.Runs = append(next.Runs, r)
		}
	}
	_, err := j.builder.states.append(ctx, at, next)
	return err
}

// holds reports whether a run has rows of erased records.
func (j *job) holds(ctx context.Context, ref runRef, erased []catalog.Tombstone) (bool, error) {
	if len(erased) == 0 {
		return false, nil
	}
	r, err := openRun(ctx, j.builder.states.Store, newCache(defaultCache/8), ref)
	if err != nil {
		return false, err
	}
	looked := make(map[string]bool)
	for _, t := range erased {
		key := keyOfHost(t.Host)
		if looked[key] {
			continue
		}
		looked[key] = true
		c, err := r.begin(ctx, Prefix(key))
		for ; err == nil && c.Row() != nil; err = c.Next(ctx) {
			gone, err := j.gone.has(c.Row())
			if gone || err != nil {
				return gone, err
			}
		}
		if err != nil {
			return false, damaged(err)
		}
	}
	return false, nil
}
