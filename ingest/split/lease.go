package split

import (
	"context"
	"errors"
	"sync"
	"time"

	"sheaf/ingest/inbox"
	"sheaf/internal/loop"
)

// Several processes may work on one ledger and one set of batch files. A process holds the batch
// that it splits by a lease: an end time in the batch's row, which the process extends while it is
// at work. After the end time another process may claim the batch. Every claim raises the batch's
// token, which fences off a holder that was only slow.
//
// If a process dies, other processes on the same machine end its leases at once: each process keeps
// a file in the buffers locked as long as it lives (lease.Presence). When a process starts or has
// nothing else to do, it ends the leases of dead ones.

// hold extends b's lease again and again until stop is called. If another process takes the batch,
// held ends with inbox.ErrLost as its cause.
func (s *Splitter) hold(ctx context.Context, b *inbox.Batch) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	var extending sync.WaitGroup
	extending.Go(func() {
		_ = loop.After(held, s.opt.Lease/3, func(ctx context.Context) error {
			err := s.extend(ctx, b, s.opt.Now().Add(s.opt.Lease))
			if errors.Is(err, inbox.ErrLost) {
				cancel(inbox.ErrLost)
			}
			return err
		}, func(err error) {
			s.opt.Log.ErrorContext(ctx, "cannot extend the lease on a batch; once it has passed, another process may take the batch over", "batch", b.Batch, "err", err)
		})
	})
	return held, func() {
		cancel(nil)
		extending.Wait()
	}
}

// free ends the lease on a batch, even if ctx has ended because the service stops.
func (s *Splitter) free(ctx context.Context, b *inbox.Batch) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.extend(ctx, b, time.Time{}); err != nil && !errors.Is(err, inbox.ErrLost) {
		s.opt.Log.WarnContext(ctx, "a batch stays leased until its lease ends", "batch", b.Batch, "err", err)
	}
}

func (s *Splitter) extend(ctx context.Context, b *inbox.Batch, until time.Time) error {
	return s.opt.Write(inbox.BoundaryClaim, func() error { return s.opt.Ledger.Extend(ctx, b, until) })
}
