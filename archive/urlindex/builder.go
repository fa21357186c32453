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

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
	"sheaf/internal/files"
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
