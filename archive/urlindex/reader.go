package urlindex

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
)

// ReaderOptions are settings of a Reader; the zero value is good.
type ReaderOptions struct {
	CacheBytes int64         // bound on inflated blocks and parts of block lists; 64 MiB if zero
	Lag        time.Duration // for how long the newest state is not asked for again; 0: it is each time
}

const defaultCache = 64 << 20

// Reader finds records by URL. Its methods may be called from many goroutines at once, and
// any number of processes may read.
type Reader struct {
	opt    ReaderOptions
	states states
	cache  *cache

	refreshing sync.Mutex // one refresh at a time

	mu   sync.Mutex // guards what follows
	view *View
	seen time.Time // when view was the newest for certain
	err  error     // why the newest state then is not the view's; nil: it is
}

// NewReader makes a reader of the index in a store. Nothing is read yet.
func NewReader(st store.Store, opt ReaderOptions) *Reader {
	if opt.CacheBytes <= 0 {
		opt.CacheBytes = defaultCache
	}
	return &Reader{opt: opt, states: statesOf(st), cache: newCache(opt.CacheBytes), view: &View{}}
}

// Current gives the index as it is now. The view is never nil: where there is no index, or the newest state of it
// cannot be read, it is the one before, or one that covers nothing, so that a caller
// who reads the rest out of the segments is right in any case. The error, which is to be
// logged, tells why it is not the newest.
func (r *Reader) Current(ctx context.Context) (*View, error) {
	if v, err, fresh := r.held(); fresh {
		return v, err
	}
	if !r.refreshing.TryLock() {
		// Another is asking. Who takes what is a little old does not wait for a store that is slow.
		if v, err, ok := r.settled(); ok {
			return v, err
		}
		r.refreshing.Lock()
	}
	defer r.refreshing.Unlock()
	held, err, fresh := r.held() // another may have asked meanwhile
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

// held gives the view in hand, and whether it is new enough.
func (r *Reader) held() (*View, error, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view, r.err, r.opt.Lag > 0 && time.Since(r.seen) < r.opt.Lag && !r.seen.IsZero()
}

// settled gives the view in hand where there is one and a lag is allowed.
func (r *Reader) settled() (*View, error, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view, r.err, r.opt.Lag > 0 && !r.seen.IsZero()
}

// refresh opens the newest state, if it is not the one held.
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

// checkCatalog fails with ErrOther where a state was made of another catalog than the one beside it.
func checkCatalog(ctx context.Context, st store.Store, s *state) error {
	if s.Version == 0 {
		return nil
	}
	record, err := catalog.RecordDigest(ctx, st, s.Version)
	if err != nil && !errors.Is(err, catalog.ErrNotExist) {
		return err
	}
	if record != s.Record {
		return fmt.Errorf("state %d knows version %d of the catalog with SHA-256 %s, it has %q: %w", s.N, s.Version, s.Record, record, ErrOther)
	}
	return nil
}

// open opens a state's runs; those that are open in held are shared.
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

// parallel is how many reads of one call go on at once.
const parallel = 8
