package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/wire"
)

// publishDue publishes what waits where the window is open; where it is shut it
// sees to it that the loop wakes at the next opening.
func (i *Ingest) publishDue(ctx context.Context) (did bool, err error) {
	w := i.opt.Window
	if now := i.opt.Now(); !w.Open(now) {
		if next, ok := w.Next(now); ok && next.Sub(now) < i.opt.Limits.Poll {
			time.AfterFunc(next.Sub(now), func() { wake(i.publishWake) })
		}
		if !i.urgent.Load() && now.Sub(i.urgentSeen) < lookForUrgent {
			return false, nil
		}
		i.urgent.Store(false) // before the look: what is split meanwhile sets it again
		_, n, err := i.publish(ctx, func() bool { return true }, express)
		if err != nil {
			i.urgent.Store(true)
			return false, err
		}
		i.urgentSeen = now
		return n > 0, nil
	}
	_, n, err := i.publish(ctx, func() bool { return w.Open(i.opt.Now()) }, all)
	return n > 0, err
}

// lookForUrgent is how often one looks, while the window is shut, for urgent batches that another
// process has split and not lived to publish; of its own a process knows.
const lookForUrgent = 10 * time.Minute

// Which of the batches that wait are published.
func all(*Batch) bool       { return true }
func express(b *Batch) bool { return b.Express }

// PublishNow makes all post-split batches public in one edition, whatever the
// window says, and tells how many they were.
func (i *Ingest) PublishNow(ctx context.Context) (v catalog.Version, n int, err error) {
	return i.publish(ctx, func() bool { return true }, all)
}

// publish makes what waits public, if it is still due when all is prepared. The
// catalog's append is the one act that does it; whether it happened is asked of
// the catalog before and after, so that a try whose outcome was lost is found out
// and not repeated, and what another process has published meanwhile gets that
// edition's name.
//
// Of all processes one publishes at a time, under a lease. The log refuses one that
// goes on after another has published, by its lease's token.
func (i *Ingest) publish(ctx context.Context, due func() bool, which func(*Batch) bool) (v catalog.Version, n int, err error) {
	waiting, err := i.waiting(ctx, which)
	if err != nil || len(waiting) == 0 {
		return v, 0, err
	}
	err = i.opt.Leases.Do(ctx, leasePublish, func(ctx context.Context, token int64) error {
		v, n, err = i.publishWaiting(ctx, token, due, which)
		return err
	})
	if errors.Is(err, catalog.ErrFenced) {
		err = errors.Join(err, i.raise(ctx))
	}
	return v, n, err
}

// waiting lists those of the batches that wait to be published.
func (i *Ingest) waiting(ctx context.Context, which func(*Batch) bool) ([]*Batch, error) {
	list, err := i.ledger.list(ctx, filter{state: wire.StatePostSplit})
	return slices.DeleteFunc(list, func(b *Batch) bool { return !which(b) }), err
}

// leasePublish is the name of the publisher's lease.
const leasePublish = "publish"

// raise makes the next tokens higher than the log's. Where these are higher for
// another's having published nothing changes; where the leases begin anew, or are
// an older backup's, no publication would ever succeed without.
func (i *Ingest) raise(ctx context.Context) error {
	s, err := i.opt.Catalog.Pin(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	return i.opt.Leases.Raise(ctx, leasePublish, s.Token())
}

// publishWaiting is publish, for the holder of the lease.
func (i *Ingest) publishWaiting(ctx context.Context, token int64, due func() bool, which func(*Batch) bool) (v catalog.Version, n int, err error) {
	waiting, err := i.waiting(ctx, which)
	if err != nil || len(waiting) == 0 {
		return v, 0, err
	}
	rest, err := i.settle(ctx, waiting)
	if err != nil {
		return v, 0, fmt.Errorf("publish: %w", err)
	}
	if len(rest) == 0 {
		return v, len(waiting), nil
	}
	p := catalog.Publication{Entries: i.ledger.lines(ctx, rest), Token: token}
	for _, b := range rest {
		var manifest string
		if err := i.write(writeManifest, func() (err error) { manifest, err = i.keepManifest(ctx, b); return err }); err != nil {
			return v, 0, fmt.Errorf("publish: manifest of batch %s: %w", b.Batch, err)
		}
		p.Batches = append(p.Batches, catalog.Batch{ID: string(b.Batch), SHA256: b.SHA256, Manifest: manifest})
	}
	if !due() {
		return v, len(waiting) - len(rest), nil
	}
	err = i.write(writePublish, func() error { v, err = i.opt.Catalog.Publish(ctx, p); return err })
	if err != nil {
		return v, 0, fmt.Errorf("publish %d batches: %w", len(rest), err)
	}
	if rest, err = i.settle(ctx, rest); err != nil {
		return v, 0, fmt.Errorf("publish: version %d is there: %w", v.N, err)
	}
	if len(rest) > 0 {
		return v, 0, fmt.Errorf("publish: version %d does not have batch %s", v.N, rest[0].Batch)
	}
	return v, len(waiting), nil
}

// settle marks those batches that the catalog holds, version by version, and
// returns the others.
func (i *Ingest) settle(ctx context.Context, waiting []*Batch) (rest []*Batch, err error) {
	s, err := i.opt.Catalog.Pin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	published := make(map[catalog.Version][]*Batch)
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
		if err := i.markPublished(ctx, batches, v); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func (i *Ingest) markPublished(ctx context.Context, batches []*Batch, v catalog.Version) error {
	if err := i.write(writePublished, func() error { return i.ledger.published(ctx, batches, v, i.opt.Now()) }); err != nil {
		return fmt.Errorf("mark %d batches published in version %d: %w", len(batches), v.N, err)
	}
	for _, b := range batches {
		i.log.Info("batch published", "batch", b.Batch, "edition", v.Edition, "version", v.N)
		i.moved(b, wire.StatePostSplit, wire.StatePublished, "")
	}
	wake(i.collectWake)
	return nil
}

// keepManifest stores the signed manifest for ever: provenance outlives the batch. It returns the
// manifest's SHA-256.
func (i *Ingest) keepManifest(ctx context.Context, b *Batch) (digest string, err error) {
	_, signed, err := i.manifest(b)
	if err != nil {
		return "", err
	}
	key := wire.ManifestKey(b.Batch)
	err = i.opt.Store.Put(ctx, key, bytes.NewReader(signed), int64(len(signed)))
	if !errors.Is(err, store.ErrExists) {
		return wire.Digest(signed), err
	}
	r, err := i.opt.Store.Open(ctx, key, 0, -1)
	if err != nil {
		return "", err
	}
	defer r.Close()
	kept, err := io.ReadAll(io.LimitReader(r, wire.MaxManifest+1))
	if err != nil {
		return "", err
	}
	if !bytes.Equal(kept, signed) {
		return "", fmt.Errorf("%s holds another manifest; look at both before anything else is done with this batch", key)
	}
	return wire.Digest(signed), nil
}

// moved tells the observer of a step that b has made.
func (i *Ingest) moved(b *Batch, from, to wire.State, reason wire.Reason) {
	i.opt.Observe(Move{Batch: b.Batch, Robot: b.Robot, From: from, To: to, Reason: reason, Bytes: b.Size, Took: i.opt.Now().Sub(b.Entered)})
}

// collect deletes the files of batches that have been published for long enough:
// robots and catalog agree that the segments are what counts now.
func (i *Ingest) collect(ctx context.Context) (did bool, err error) {
	done, err := i.ledger.uncollected(ctx, i.opt.Now().Add(-i.opt.Limits.KeepInputs))
	if err != nil {
		return false, err
	}
	for _, b := range done {
		if err := i.write(writeCollect, func() error { return i.buffers.drop(b.ID) }); err != nil {
			return false, fmt.Errorf("collect batch %s: %w", b.Batch, err)
		}
		if err := i.write(writeCollected, func() error { return i.ledger.collected(ctx, b) }); err != nil {
			return false, fmt.Errorf("collect batch %s: %w", b.Batch, err)
		}
	}
	return len(done) > 0, nil
}
