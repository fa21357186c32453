package urlindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
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
