package urlindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// ReaderOptions are the settings of a Reader. The zero value is valid.
type ReaderOptions struct {
	CacheBytes int64         // limit for cached blocks, inflated, and pages of block lists; 64 MiB if zero
	Lag        time.Duration // how long a view is used before the newest state is looked up again; 0: look it up each time
}

const defaultCache = 64 << 20

// Reader finds records by URL. Its methods may be called concurrently, and any number of processes
// may read.
type Reader struct {
	opt    ReaderOptions
	states states
	cache  *readCache

	refreshing sync.Mutex // one refresh at a time

	mu   sync.Mutex // guards the fields below
	view *View
	seen time.Time // when view was known to be the newest
	err  error     // why view is not the newest state; nil: it is the newest
}

// NewReader returns a reader of the index in a store. It reads nothing yet.
func NewReader(st store.Store, opt ReaderOptions) *Reader {
	opt.CacheBytes = cmp.Or(opt.CacheBytes, defaultCache)
	return &Reader{opt: opt, states: statesOf(st), cache: newCache(opt.CacheBytes), view: &View{}}
}

// Current returns the newest state of the index as a view. If that state cannot be read, it returns
// an error to log, and the view before; the first view covers nothing. The view is never nil. The
// caller reads entries that the view does not cover from their segments.
func (r *Reader) Current(ctx context.Context) (*View, error) {
	if v, fresh, _, err := r.held(); fresh {
		return v, err
	}
	if !r.refreshing.TryLock() {
		// Another call is reading the newest state. With a lag, do not wait for it: a slow store
		// must not delay callers that accept an older view.
		if v, _, usable, err := r.held(); usable {
			return v, err
		}
		r.refreshing.Lock()
	}
	defer r.refreshing.Unlock()
	held, fresh, _, err := r.held() // another call may have finished meanwhile
	if fresh {
		return held, err
	}
	asked := time.Now()
	next, err := r.refresh(ctx, held)
	if ctx.Err() != nil {
		return held, fmt.Errorf("URL index: %w", err)
	}
	if err != nil {
		err = fmt.Errorf("URL index: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view, r.seen, r.err = next, asked, err
	return next, err
}

// held returns the current view with its error, whether it is recent enough, and whether it may be
// used even if it is not.
func (r *Reader) held() (v *View, fresh, usable bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	usable = r.opt.Lag > 0 && !r.seen.IsZero()
	return r.view, usable && time.Since(r.seen) < r.opt.Lag, usable, r.err
}

// refresh opens the newest state. It returns held if held is the newest state, and with every
// error.
func (r *Reader) refresh(ctx context.Context, held *View) (*View, error) {
	n, err := r.states.Last(ctx, held.state.N)
	if err != nil || n == held.state.N {
		return held, err
	}
	e, err := r.states.read(ctx, n)
	if err != nil {
		return held, err
	}
	if err := checkCatalog(ctx, r.states.Store, &e.state); err != nil {
		return held, err
	}
	v, err := r.open(ctx, &e.state, held)
	if err != nil {
		return held, fmt.Errorf("state %d: %w", n, err)
	}
	return v, nil
}

// checkCatalog returns ErrOther if a state was built from another catalog than the one in the
// store.
func checkCatalog(ctx context.Context, st store.Store, s *state) error {
	if s.Version == 0 {
		return nil
	}
	record, err := catalog.RecordDigest(ctx, st, s.Version)
	if err != nil && !errors.Is(err, catalog.ErrNotExist) {
		return err
	}
	if record != s.Record {
		return fmt.Errorf("state %d was built from version %d of a catalog with SHA-256 %s; this catalog's has %q: %w", s.N, s.Version, s.Record, record, ErrOther)
	}
	return nil
}

// open opens the runs of a state. It reuses the open runs of held.
func (r *Reader) open(ctx context.Context, s *state, held *View) (*View, error) {
	known := make(map[string]*run)
	for _, old := range held.runs {
		known[old.Name] = old
	}
	v := &View{state: *s, runs: make([]*run, len(s.Runs))}
	load, ctx := errgroup.WithContext(ctx)
	load.SetLimit(parallel)
	for i, ref := range s.Runs {
		if v.runs[i] = known[ref.Name]; v.runs[i] != nil {
			continue
		}
		load.Go(func() (err error) {
			v.runs[i], err = openRun(ctx, r.states.Store, r.cache, ref)
			return err
		})
	}
	return v, load.Wait()
}

// parallel is how many reads of one call run at once, at most.
const parallel = 8

// View is the index at one state. It is immutable, may be used concurrently, and need not be
// closed. Do not use a view for more than half a day: if a later state does not name a run, the run
// is deleted after a day.
type View struct {
	state state
	runs  []*run
}

// Through returns the sequence number up to which the view covers all entries of the catalog,
// except for a few: see Covers.
func (v *View) Through() int64 { return v.state.Through }

// Covers reports whether the records of the entry with this sequence number are in the index. The
// rows of erased or expired entries may be missing all the same.
func (v *View) Covers(seq int64) bool { return v.state.covers(seq) }

// State returns the number of the view's state; 0 covers nothing.
func (v *View) State() int64 { return v.state.N }

// Records returns the number of rows in the index.
func (v *View) Records() (n int64) {
	for _, r := range v.runs {
		n += r.Rows
	}
	return n
}

// Rows are the rows of a range, in order or in reverse. They must not be used concurrently.
type Rows struct {
	merged *sortedrun.Merged
	last   *Row // nil before the first
}

// Rows returns the rows of a range. It reads each block only when it needs it.
func (v *View) Rows(ctx context.Context, in Range) (*Rows, error) {
	m, err := v.begin(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("URL index: %w", err)
	}
	return &Rows{merged: m}, nil
}

// Next returns the next row, or nil behind the last one. The caller may keep the row. An error ends
// the walk; the records can then be found in the segments' indexes.
func (r *Rows) Next(ctx context.Context) (*Row, error) {
	if r.last != nil {
		if err := r.merged.Next(ctx); err != nil {
			return nil, fmt.Errorf("URL index: %w", err)
		}
	}
	line := r.merged.Row()
	if line == nil {
		return nil, nil
	}
	row, err := parseAfter(r.last, line)
	if err != nil {
		return nil, fmt.Errorf("URL index: %w", err)
	}
	r.last = row
	return row, nil
}

// begin returns the merged rows of a range. It reads the first block of each run in parallel.
func (v *View) begin(ctx context.Context, in Range) (*sortedrun.Merged, error) {
	from := make([]sortedrun.Rows, len(v.runs))
	load, loadCtx := errgroup.WithContext(ctx)
	load.SetLimit(parallel)
	for i, r := range v.runs {
		load.Go(func() error {
			c, err := r.begin(loadCtx, in)
			from[i] = c
			return err
		})
	}
	if err := load.Wait(); err != nil {
		return nil, err
	}
	order := sortedrun.Order(compareLines)
	if in.Reverse {
		order = func(a, b []byte) int { return compareLines(b, a) }
	}
	return sortedrun.Merge(order, from...), nil
}

// Blocks returns the number of blocks, of at most BlockRows rows, that a range touches. It is an
// upper limit for the blocks that a walk through the range reads. Blocks reads only lists of blocks
// and ignores After.
func (v *View) Blocks(ctx context.Context, in Range) (int64, error) {
	total := int64(0)
	for _, r := range v.runs {
		n, err := r.touched(ctx, in)
		if err != nil {
			return 0, fmt.Errorf("URL index: %w", err)
		}
		total += n
	}
	return total, nil
}

// touched returns the number of the run's blocks that a range touches.
func (r *run) touched(ctx context.Context, in Range) (int64, error) {
	first, err := r.Find(ctx, in.From)
	last := r.runRef.Blocks - 1
	if err != nil || in.To == "" {
		return last - first + 1, err
	}
	if last, err = r.Find(ctx, in.To); err != nil {
		return 0, err
	}
	b, err := r.block(ctx, last)
	if err != nil || b.head >= in.To { // all of the run is after the range
		return 0, err
	}
	return last - first + 1, nil
}

// BlockRows is the number of rows in a block; the last block of a run may have fewer.
const BlockRows = blockRows

// Split returns positions, in order, that divide a range into sections of about the given number of
// blocks. It reads only lists of blocks, and ignores After and Reverse.
func (v *View) Split(ctx context.Context, in Range, blocks int64) ([]Position, error) {
	var heads []string
	for _, r := range v.runs {
		n, err := r.Find(ctx, in.From)
		if err != nil {
			return nil, fmt.Errorf("URL index: %w", err)
		}
		for n++; n < r.Blocks; n++ { // the first block is not cut: its part of the range is in the first section
			b, err := r.block(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("URL index: %w", err)
			}
			if in.To != "" && b.head >= in.To {
				break
			}
			heads = append(heads, b.head)
		}
	}
	slices.Sort(heads)
	var cuts []Position
	for i := max(blocks, 1); i < int64(len(heads)); i += max(blocks, 1) {
		key, stamp, _ := strings.Cut(heads[i], " ")
		at, err := time.Parse(timeForm, stamp)
		if err != nil {
			return nil, fmt.Errorf("URL index: block of %.100q: %w: %w", heads[i], err, ErrCorrupt)
		}
		if p := (Position{Key: key, Time: at}); len(cuts) == 0 || cuts[len(cuts)-1].Compare(p) < 0 {
			cuts = append(cuts, p)
		}
	}
	return cuts, nil
}
