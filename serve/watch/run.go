package watch

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// sweepEvery is how often what is old is forgotten.
const sweepEvery = 6 * time.Hour

// Run follows and delivers until ctx ends.
func (s *Watches) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Follow(ctx, s.opt.Poll) })
	g.Go(func() error { return s.Deliver(ctx, s.opt.Poll) })
	g.Go(func() error {
		for ctx.Err() == nil {
			if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.opt.Log.WarnContext(ctx, "watch: what is old could not be forgotten", "err", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(sweepEvery):
			}
		}
		return nil
	})
	return g.Wait()
}
