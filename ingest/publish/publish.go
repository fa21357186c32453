// Package publish makes post-split batches visible to readers. In the publish window it appends one
// version to the catalog for all waiting batches: an edition. Later it deletes the batches' files.
package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/ingest/inbox"
	"sheaf/internal/lease"
	"sheaf/internal/window"
	"sheaf/internal/wire"

	"golang.org/x/time/rate"
)

// Options are a Publisher's settings and the parts that it uses.
type Options struct {
	*inbox.Env
	Store   store.Store
	Catalog *catalog.Catalog
	Leases  lease.Locker
	Window  *window.Schedule // nil: always open
	Poll    time.Duration    // longest time between two calls of Due
}

// Publisher moves batches from post-split to published, and collects them. Only one process
// publishes at a time, under a lease.
type Publisher struct {
	opt Options

	// Wake is rung when Due has work, and WakeCollector when Collect has.
	Wake, WakeCollector inbox.Bell

	urgent     atomic.Bool   // an express batch may wait to be published
	urgentSeen time.Time     // when Due last looked for an express batch
	express    *rate.Limiter // limits editions outside the window
	swept      time.Time     // when Collect last called Sweep
}

// New returns a Publisher. It does nothing until Due, Now or Collect is called.
func New(opt Options) *Publisher {
	return &Publisher{
		opt: opt, Wake: inbox.NewBell(), WakeCollector: inbox.NewBell(),
		express: rate.NewLimiter(rate.Every(betweenExpress), expressAtOnce),
	}
}

// Ready tells the Publisher that a batch is post-split, and rings Wake. An express batch need not
// wait for the window.
func (p *Publisher) Ready(express bool) {
	if express {
		p.urgent.Store(true)
	}
	p.Wake.Ring()
}

// lookForUrgent is how often Due looks for express batches while the window is shut. Ready
// announces this process's express batches. Due looks for the express batches of processes that
// died after they had split them.
const lookForUrgent = 10 * time.Minute

// Outside the window, at most one edition comes each betweenExpress in the long run, and up to
// expressAtOnce in quick succession. Express batches that have to wait share an edition.
const (
	betweenExpress = time.Minute
	expressAtOnce  = 10
)

// Due publishes waiting batches if the window is open, and express batches at any time, limited in
// rate. It reports whether it published anything. If the window opens before the next poll, Due has
// Wake rung then. Due must not be called concurrently.
func (p *Publisher) Due(ctx context.Context) (did bool, err error) {
	w, now := p.opt.Window, p.opt.Now()
	if w.Open(now) {
		_, n, err := p.publish(ctx, func() bool { return w.Open(p.opt.Now()) }, false)
		return n > 0, err
	}
	if next, ok := w.Next(now); ok && next.Sub(now) < p.opt.Poll {
		time.AfterFunc(next.Sub(now), p.Wake.Ring)
	}
	if !p.urgent.Load() && now.Sub(p.urgentSeen) < lookForUrgent {
		return false, nil
	}
	if short := 1 - p.express.TokensAt(now); short > 0 {
		time.AfterFunc(time.Duration(short*float64(betweenExpress)), p.Wake.Ring)
		return false, nil
	}
	p.urgent.Store(false) // before the look: a batch that is split meanwhile sets it again
	_, n, err := p.publish(ctx, always, true)
	if err != nil {
		p.urgent.Store(true)
		return false, err
	}
	p.urgentSeen = now
	if n > 0 {
		p.express.AllowN(now, 1)
	}
	return n > 0, nil
}

func always() bool { return true }

// Now publishes all post-split batches in one edition, even outside the window, and returns their
// number.
func (p *Publisher) Now(ctx context.Context) (v catalog.Version, n int, err error) {
	return p.publish(ctx, always, false)
}

// Recall sends a robot's unpublished batches back to be split once more, so that they are judged
// anew. It waits until no process publishes.
func (p *Publisher) Recall(ctx context.Context, robot string) error {
	return p.opt.Leases.Do(ctx, leasePublish, func(ctx context.Context, _ int64) error {
		n, err := p.opt.Ledger.Recall(ctx, robot, p.opt.Now())
		if err != nil {
			return fmt.Errorf("recall the batches of robot %s: %w", robot, err)
		}
		p.opt.Log.WarnContext(ctx, "batches that are not published yet are judged anew", "robot", robot, "waiting", n)
		return nil
	})
}

const leasePublish = "publish"

// publish publishes the waiting batches, or only the express ones, if due still returns true when
// all is prepared. Only the catalog's append makes them visible. Before and after, publish asks the
// catalog whether it has the batches. So an append whose answer was lost is not repeated, and
// batches that another process has published get the version of that edition.
//
// If the lease has passed to another process, the catalog refuses the append because of the lease's
// token.
func (p *Publisher) publish(ctx context.Context, due func() bool, express bool) (v catalog.Version, n int, err error) {
	waiting, err := p.waiting(ctx, express)
	if err != nil || len(waiting) == 0 {
		return v, 0, err
	}
	err = p.opt.Leases.Do(ctx, leasePublish, func(ctx context.Context, token int64) error {
		v, n, err = p.publishWaiting(ctx, token, due, express)
		return err
	})
	if errors.Is(err, catalog.ErrFenced) {
		err = errors.Join(err, p.raise(ctx))
	}
	return v, n, err
}

// waiting returns the post-split batches, or only the express ones.
func (p *Publisher) waiting(ctx context.Context, express bool) ([]*inbox.Batch, error) {
	list, err := p.opt.Ledger.List(ctx, inbox.Filter{State: wire.StatePostSplit})
	return slices.DeleteFunc(list, func(b *inbox.Batch) bool { return express && !b.Express }), err
}

// raise makes the next tokens of the publisher's lease higher than the catalog's. It changes
// nothing if they are higher already. Without raise no publication would succeed after the leases
// began again at 1, or came from an older backup.
func (p *Publisher) raise(ctx context.Context) error {
	s, err := p.opt.Catalog.Pin(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	return p.opt.Leases.Raise(ctx, leasePublish, s.Token())
}

// publishWaiting is publish for the holder of the lease.
func (p *Publisher) publishWaiting(ctx context.Context, token int64, due func() bool, express bool) (v catalog.Version, n int, err error) {
	waiting, err := p.waiting(ctx, express)
	if err != nil || len(waiting) == 0 {
		return v, 0, err
	}
	rest, err := p.settle(ctx, waiting)
	if err != nil {
		return v, 0, fmt.Errorf("publish: %w", err)
	}
	if len(rest) == 0 {
		return v, len(waiting), nil
	}
	version := catalog.Publication{Entries: p.opt.Ledger.Entries(ctx, rest), Token: token}
	for _, b := range rest {
		of := catalog.Batch{ID: string(b.Batch), SHA256: b.SHA256}
		if err := p.opt.Write(inbox.BoundaryManifest, func() (err error) { of.Manifest, of.Collection, err = p.keepManifest(ctx, b); return err }); err != nil {
			return v, 0, fmt.Errorf("publish: manifest of batch %s: %w", b.Batch, err)
		}
		version.Batches = append(version.Batches, of)
	}
	if !due() {
		return v, len(waiting) - len(rest), nil
	}
	err = p.opt.Write(inbox.BoundaryPublish, func() error { v, err = p.opt.Catalog.Publish(ctx, version); return err })
	if err != nil {
		return v, 0, fmt.Errorf("publish %d batches: %w", len(rest), err)
	}
	if rest, err = p.settle(ctx, rest); err != nil {
		return v, 0, fmt.Errorf("publish: version %d is in the catalog: %w", v.N, err)
	}
	if len(rest) > 0 {
		return v, 0, fmt.Errorf("publish: version %d does not have batch %s", v.N, rest[0].Batch)
	}
	return v, len(waiting), nil
}

// settle marks the batches that the catalog already has as published, version by version, and
// returns the other batches.
func (p *Publisher) settle(ctx context.Context, waiting []*inbox.Batch) (rest []*inbox.Batch, err error) {
	s, err := p.opt.Catalog.Pin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	published := make(map[catalog.Version][]*inbox.Batch)
	for _, b := range waiting {
		v, ok, err := s.Batch(ctx, string(b.Batch))
		switch {
		case err != nil:
			return nil, err
		case ok:
			published[v] = append(published[v], b)
		default:
			rest = append(rest, b)
		}
	}
	for v, batches := range published {
		if err := p.markPublished(ctx, batches, v); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func (p *Publisher) markPublished(ctx context.Context, batches []*inbox.Batch, v catalog.Version) error {
	if err := p.opt.Write(inbox.BoundaryPublished, func() error { return p.opt.Ledger.Published(ctx, batches, v, p.opt.Now()) }); err != nil {
		return fmt.Errorf("mark %d batches published in version %d: %w", len(batches), v.N, err)
	}
	for _, b := range batches {
		p.opt.Log.InfoContext(ctx, "batch published", "batch", b.Batch, "edition", v.Edition, "version", v.N)
	}
	p.WakeCollector.Ring()
	return nil
}

// keepManifest stores the signed manifest for ever, because the origin of an archive must be known
// longer than its batch is kept. It returns the manifest's SHA-256 and the batch's collection. It
// fails if the store has another manifest of the batch.
func (p *Publisher) keepManifest(ctx context.Context, b *inbox.Batch) (digest string, of wire.Collection, err error) {
	m, signed, err := p.opt.Env.Manifest(ctx, b)
	if err != nil {
		return "", of, err
	}
	key := wire.ManifestKey(b.Batch)
	err = p.opt.Store.Put(ctx, key, bytes.NewReader(signed), int64(len(signed)))
	if errors.Is(err, store.ErrExists) {
		var kept []byte
		if kept, err = store.ReadAll(ctx, p.opt.Store, key, 0, -1); err == nil && !bytes.Equal(kept, signed) {
			err = fmt.Errorf("%s holds another manifest; look at both before anything else is done with this batch", key)
		}
	}
	return wire.Digest(signed), m.Collection, err
}

// sweepEvery is how often Collect looks for objects of interrupted attempts in the store.
const sweepEvery = time.Hour

// Collect deletes the files of published batches, because their segments are in the store, and
// calls Sweep hourly. It reports whether it collected any batch. Collect must not be called
// concurrently.
func (p *Publisher) Collect(ctx context.Context) (did bool, err error) {
	done, err := p.opt.Ledger.Uncollected(ctx)
	if err != nil {
		return false, err
	}
	for _, b := range done {
		err := p.opt.Env.Collect(ctx, b)
		if err == nil {
			err = p.opt.Write(inbox.BoundaryCollected, func() error { return p.opt.Ledger.Collected(ctx, b) })
		}
		if err != nil {
			return false, fmt.Errorf("collect batch %s: %w", b.Batch, err)
		}
	}
	if now := p.opt.Now(); now.Sub(p.swept) >= sweepEvery {
		if err := p.opt.Sweep(ctx); err != nil {
			return false, fmt.Errorf("collect what no batch has: %w", err)
		}
		p.swept = now
	}
	return len(done) > 0, nil
}

// Claims returns a function that reports whether an object of the store belongs to a batch that may
// still be published. The store's collection uses it. Objects are named by batch and attempt, and
// no attempt uses the objects of another. So an object that no batch claims now will never be
// claimed.
//
// Claims fails if the catalog ends before the last version that published a batch: then versions
// are lost, and nothing may be collected.
func (p *Publisher) Claims(ctx context.Context) (func(key string) bool, error) {
	last, err := p.opt.Ledger.LastVersion(ctx) // before reading the catalog, which only grows
	if err != nil {
		return nil, err
	}
	s, err := p.opt.Catalog.Pin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	if n := s.Version(); n < last {
		return nil, fmt.Errorf("the catalog ends at version %d, but version %d published a batch: its record is lost; see sheaf fsck, and restore it before anything is collected", n, last)
	}
	ids, err := p.opt.Ledger.Underway(ctx)
	if err != nil {
		return nil, err
	}
	return func(key string) bool {
		name := path.Base(key)
		return slices.ContainsFunc(ids, func(id wire.BatchID) bool { return strings.Contains(name, string(id)+"-") })
	}, nil
}
