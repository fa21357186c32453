package robotd

import (
	"context"
	"errors"
	"log/slog"
	"sheaf/robotd/config"
	"sheaf/robotd/datadir"
	"time"

	"golang.org/x/sync/errgroup"
)

// Run runs the daemon until ctx ends, which is no error, or, with Config.Once,
// until one cycle is published.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger) (err error) {
	r, err := New(cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	stop, err := r.serveControl()
	if err != nil {
		return err
	}
	defer stop()
	defer func() { err = errors.Join(err, r.saveStatus()) }()
	if err := r.beat(ctx); err != nil { // it may say that the robot is paused
		return err
	}
	if cfg.Once {
		if err := r.awaitList(ctx, onceWait); err != nil {
			return err
		}
		if err := r.Cycle(ctx); err != nil {
			return err
		}
		return r.Drain(ctx)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.uploader.Run(ctx) })
	g.Go(func() error { return r.cycles(ctx) })
	g.Go(func() error { return r.keepProgram(ctx) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	_, err = r.seal(context.WithoutCancel(ctx))
	return err
}

// cycles runs one cycle after another.
func (r *Robot) cycles(ctx context.Context) error {
	for {
		if err := r.waitForCycle(ctx); err != nil {
			return err
		}
		if !r.hasList() {
			if err := r.withChores(ctx, func(ctx context.Context) error { return r.awaitList(ctx, 0) }); err != nil {
				return err
			}
		}
		if err := r.Cycle(ctx); err != nil {
			return err
		}
	}
}

// waitForCycle waits until the next cycle is due. A cycle that was interrupted is due at once.
func (r *Robot) waitForCycle(ctx context.Context) error {
	last := r.cycle
	if last.Number == 0 || last.Ended.IsZero() {
		return nil
	}
	next, ok := r.plan.NextCycle(last.Began, last.Ended)
	if !ok {
		next = time.Now().AddDate(1, 0, 0)
		r.log.Warn("the window never opens: no cycle will begin", "window", r.plan.Window)
	}
	r.log.Info("waiting for the next cycle", "at", next)
	return r.withChores(ctx, func(ctx context.Context) error { return r.rest(ctx, next) })
}

// rest waits for the next cycle. Hosts that come while the window is open are taken into the
// last one, which goes on then: they are of tonight, from a robot that cannot finish them.
func (r *Robot) rest(ctx context.Context, next time.Time) error {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-r.wanted:
			if err := r.visitWatched(ctx, next); err != nil {
				return err
			}
		case <-r.gained:
			if !r.mayVisit(time.Now()) {
				continue // they are for the next cycle
			}
			r.mu.Lock()
			r.cycle.Ended = time.Time{}
			reopened := r.cycle
			r.mu.Unlock()
			return datadir.SaveJSON(r.path("cycle.json"), reopened)
		}
	}
}

// Leave takes a stopped robot off the manager's list (P5), so that its hosts are
// others' at once, and uploads what it still has. Done again, it goes on where it was.
func Leave(ctx context.Context, cfg config.Config, log *slog.Logger) (err error) {
	r, err := New(cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if _, err := r.seal(ctx); err != nil { // under the list that it was collected by
		return err
	}
	if err := r.manager.Unsubscribe(ctx); err != nil {
		return err
	}
	r.handIn(ctx)
	return r.Drain(ctx)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
