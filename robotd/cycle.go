package robotd

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/robotd/config"
	"sheaf/robotd/crawl"
	"sheaf/robotd/managed"
	"sheaf/robotd/polite"
	"sheaf/robotd/revisit"
)

type courseOptions struct {
	Settings   *config.Config
	Plan       config.Plan
	State      *State
	Records    crawl.Records
	Servers    *revisit.Servers
	Admission  *polite.Admission
	Crawler    *crawl.Crawler
	Session    *managed.Session
	Prober     *managed.Prober
	Sealer     *Sealer
	Rounds     Rounds
	SaveStatus func() error // writes the status for when the robot does not run
	Statistics func() error // logs how busy the stages are
	Log        *slog.Logger
}

// course runs cycles. A cycle, usually a day, is one round over all assigned hosts. It ends when no
// host has anything left, or when the window last closes before the next cycle is due. Then the
// collected pages are sealed into a batch, and the log goes to the manager. Between two cycles the
// robot visits watched pages that are due.
//
// The methods of a course must not be called concurrently.
type course struct{ opt courseOptions }

// Run runs one cycle after another until ctx ends. A probe goes on when a cycle ends.
func (c *course) Run(ctx context.Context) error { return beside(ctx, c.run, c.opt.Prober.Run) }

// Cycle runs one cycle: the one that was interrupted, or the next. The batch is then in the spool.
func (c *course) Cycle(ctx context.Context) error { return beside(ctx, c.cycle, c.opt.Prober.Run) }

// beside runs fn, and others beside it. The others end with fn; if one of them fails, fn ends too.
func beside(ctx context.Context, fn func(context.Context) error, others ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	for _, other := range others {
		g.Go(func() error { return other(ctx) })
	}
	g.Go(func() error {
		defer stop()
		return fn(ctx)
	})
	return g.Wait()
}

func (c *course) run(ctx context.Context) error {
	for {
		if err := c.waitForCycle(ctx); err != nil {
			return err
		}
		if !c.opt.Sealer.List.List().Known() {
			err := c.withChores(ctx, func(ctx context.Context) error { return c.opt.Session.AwaitList(ctx, 0) })
			if err != nil {
				return err
			}
		}
		if err := c.cycle(ctx); err != nil {
			return err
		}
	}
}

// waitForCycle waits until the next cycle is due. A cycle that was interrupted is due at once.
func (c *course) waitForCycle(ctx context.Context) error {
	last := c.opt.State.get()
	if last.Number == 0 || last.Ended.IsZero() {
		return nil
	}
	next, ok := c.opt.Plan.NextCycle(last.Began, last.Ended)
	if !ok {
		next = time.Now().AddDate(1, 0, 0)
		c.opt.Log.WarnContext(ctx, "the window never opens: no cycle will begin", "window", c.opt.Plan.Window)
	}
	c.opt.Log.InfoContext(ctx, "waiting for the next cycle", "at", next)
	return c.withChores(ctx, func(ctx context.Context) error { return c.rest(ctx, next) })
}

// rest waits for the next cycle, and meanwhile visits watched pages. If hosts are assigned while
// the window is open, the last cycle goes on with them: another robot cannot finish them tonight.
func (c *course) rest(ctx context.Context, next time.Time) error {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-c.opt.Crawler.Wanted():
			if err := c.opt.Crawler.VisitWatched(ctx, c.round(), next); err != nil {
				return err
			}
		case <-c.opt.Session.Gained():
			// The cycle also goes on if visits begin within an interval: after a start, or when the
			// lease is renewed.
			now := time.Now()
			if from, _ := c.opt.Admission.Planned(now); from.Sub(now) > c.opt.Settings.Interval {
				continue // they are for the next cycle
			}
			last := c.opt.State.get()
			last.Ended = time.Time{}
			return c.opt.State.set(last)
		}
	}
}

// round returns the revisit.Round of the last cycle, which may be under way.
func (c *course) round() revisit.Round {
	last := c.opt.State.get()
	return revisit.NewRound(c.opt.Settings, c.opt.Plan, last.Number, last.Began)
}

func (c *course) cycle(ctx context.Context) error {
	if err := c.begin(); err != nil {
		return err
	}
	list, session := c.opt.Sealer.List, c.opt.Session
	if err := session.Refresh(ctx); err != nil {
		c.opt.Log.WarnContext(ctx, "manager away; going on with the last list", "hosts", len(list.List().URLs), "err", err)
	} else if err := session.AskWatches(ctx); err != nil {
		return err
	}
	session.TakeGained()
	if !list.List().Known() {
		return managed.ErrNoList
	}
	if opens, ok := c.opt.Plan.Window.Next(time.Now()); ok && time.Until(opens) > 0 {
		c.opt.Log.InfoContext(ctx, "waiting for the window", "at", opens, "window", c.opt.Plan.Window)
	}
	for more := true; more; {
		if err := c.crawl(ctx); err != nil {
			return err
		}
		if err := session.Beat(ctx); err != nil { // tells the manager that there is nothing left
			return err
		}
		more = session.TakeGained()
	}
	if err := c.opt.Sealer.Seal(ctx); err != nil {
		return err
	}
	last := c.opt.State.get()
	last.Ended = time.Now()
	if err := c.opt.State.set(last); err != nil {
		return err
	}
	c.opt.Log.InfoContext(ctx, "cycle ended", "cycle", last.Number, "took", last.Ended.Sub(last.Began).Round(time.Second))
	session.HandIn(ctx)
	return c.opt.SaveStatus()
}

// begin begins a cycle, unless one was interrupted.
func (c *course) begin() error {
	last := c.opt.State.get()
	if last.Number > 0 && last.Ended.IsZero() {
		c.opt.Log.Info("cycle taken up", "cycle", last.Number, "since", last.Began)
		return nil
	}
	next := record{Number: last.Number + 1, Began: time.Now()}
	rec := &c.opt.Records
	if err := rec.Frontier.Advance(next.Number); err != nil {
		return err
	}
	rec.Ledger.BeginCycle()
	rec.Tally.Reset()
	c.opt.Log.Info("cycle begins", "cycle", next.Number)
	return c.opt.State.set(next)
}

// crawl visits the assigned hosts until no host has anything left.
func (c *course) crawl(ctx context.Context) error {
	ctx, current, end := c.opt.Crawler.Begin(ctx, c.round())
	defer end()
	err := c.withChores(ctx, func(ctx context.Context) error { return current.Run(ctx, c.opt.Sealer.List.Hosts()) })
	err = errors.Join(err, current.AccountLeft())
	c.opt.Session.Note(current.Hosts())
	return errors.Join(err, c.opt.Crawler.Finish(current))
}
