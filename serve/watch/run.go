package watch

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/loop"
)

// Run follows the change feed and delivers notices until ctx ends. It may run in several processes
// on one database at once.
func (s *Watches) Run(ctx context.Context) error {
	const sweepEvery = 6 * time.Hour
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.repeat(ctx, s.opt.Poll, "looking at what was published", s.follower.step) })
	g.Go(func() error { return s.repeat(ctx, s.opt.Poll, "sending", s.deliverer.deliverDue) })
	g.Go(func() error { return s.repeat(ctx, sweepEvery, "deleting old notices", s.table.sweep) })
	return g.Wait()
}

// repeat calls step until ctx ends. It pauses after an error, and when there is no more to do at
// once.
func (s *Watches) repeat(ctx context.Context, pause time.Duration, what string, step func(context.Context) (more bool, err error)) error {
	for ctx.Err() == nil {
		more, err := step(ctx)
		if err != nil && ctx.Err() == nil {
			s.opt.Log.ErrorContext(ctx, "watch: "+what+" failed and will be repeated", "err", err)
		}
		if more && err == nil {
			continue
		}
		loop.Pause(ctx, pause)
	}
	return nil
}
