package robotd

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/robotd/config"
	"sheaf/robotd/revisit"
)

// A cycle, usually a day, is one round over all assigned hosts. It ends when no host has anything
// left, or when the window last closes before the next cycle is due. Then the collected pages are
// sealed into a batch, and the log goes to the manager. Between two cycles the robot visits watched
// pages that are due.

// runCycles runs one cycle after another until ctx ends. A probe goes on when a cycle ends.
func (r *Robot) runCycles(ctx context.Context) error { return beside(ctx, r.cycles, r.session.Probe) }

// Cycle runs one cycle: it takes up the one that was interrupted or begins the next, visits every
// assigned host until nothing is left, makes the batch and hands in the log. Drain uploads the
// batch.
func (r *Robot) Cycle(ctx context.Context) error { return beside(ctx, r.cycle, r.session.Probe) }

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

func (r *Robot) cycles(ctx context.Context) error {
	for {
		if err := r.waitForCycle(ctx); err != nil {
			return err
		}
		if !r.list.List().Known() {
			err := r.withChores(ctx, func(ctx context.Context) error { return r.session.AwaitList(ctx, 0) })
			if err != nil {
				return err
			}
		}
		if err := r.cycle(ctx); err != nil {
			return err
		}
	}
}

// waitForCycle waits until the next cycle is due. A cycle that was interrupted is due at once.
func (r *Robot) waitForCycle(ctx context.Context) error {
	last := r.state.get()
	if last.Number == 0 || last.Ended.IsZero() {
		return nil
	}
	next, ok := r.plan.NextCycle(last.Began, last.Ended)
	if !ok {
		next = time.Now().AddDate(1, 0, 0)
		r.log.WarnContext(ctx, "the window never opens: no cycle will begin", "window", r.plan.Window)
	}
	r.log.InfoContext(ctx, "waiting for the next cycle", "at", next)
	return r.withChores(ctx, func(ctx context.Context) error { return r.rest(ctx, next) })
}

// rest waits for the next cycle, and meanwhile visits watched pages. If hosts are assigned while
// the window is open, the last cycle goes on with them: another robot cannot finish them tonight.
func (r *Robot) rest(ctx context.Context, next time.Time) error {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-r.crawler.Wanted():
			if err := r.crawler.VisitWatched(ctx, r.round(), next); err != nil {
				return err
			}
		case <-r.session.gained:
			// The cycle also goes on if visits begin within an interval: after a start, or when the
			// lease is renewed.
			now := time.Now()
			if from, _ := r.manners.Admission.Planned(now); from.Sub(now) > r.cfg.Interval {
				continue // they are for the next cycle
			}
			last := r.state.get()
			last.Ended = time.Time{}
			return r.state.set(last)
		}
	}
}

// round returns the revisit.Round of the last cycle, which may be under way.
func (r *Robot) round() revisit.Round {
	last := r.state.get()
	return revisit.NewRound(&r.cfg, r.plan, last.Number, last.Began)
}

func (r *Robot) cycle(ctx context.Context) error {
	if err := r.beginCycle(); err != nil {
		return err
	}
	list, session := r.list, r.session
	if err := session.Refresh(ctx); err != nil {
		r.log.WarnContext(ctx, "manager away; going on with the last list", "hosts", len(list.List().URLs), "err", err)
	} else if err := session.AskWatches(ctx); err != nil {
		return err
	}
	session.TakeGained()
	if !list.List().Known() {
		return errNoList
	}
	if opens, ok := r.plan.Window.Next(time.Now()); ok && time.Until(opens) > 0 {
		r.log.InfoContext(ctx, "waiting for the window", "at", opens, "window", r.plan.Window)
	}
	for more := true; more; {
		if err := r.crawl(ctx); err != nil {
			return err
		}
		if err := session.Beat(ctx); err != nil { // tells the manager that there is nothing left
			return err
		}
		more = session.TakeGained()
	}
	if err := r.seal(ctx); err != nil {
		return err
	}
	last := r.state.get()
	last.Ended = time.Now()
	if err := r.state.set(last); err != nil {
		return err
	}
	r.log.InfoContext(ctx, "cycle ended", "cycle", last.Number, "took", last.Ended.Sub(last.Began).Round(time.Second))
	session.HandIn(ctx)
	return r.saveStatus()
}

// beginCycle begins a cycle, unless one was interrupted.
func (r *Robot) beginCycle() error {
	last := r.state.get()
	if last.Number > 0 && last.Ended.IsZero() {
		r.log.Info("cycle taken up", "cycle", last.Number, "since", last.Began)
		return nil
	}
	next := record{Number: last.Number + 1, Began: time.Now()}
	rec := &r.records
	if err := rec.Frontier.Advance(next.Number); err != nil {
		return err
	}
	rec.Ledger.BeginCycle()
	rec.Tally.Reset()
	r.log.Info("cycle begins", "cycle", next.Number)
	return r.state.set(next)
}

// crawl visits the assigned hosts until no host has anything left.
func (r *Robot) crawl(ctx context.Context) error {
	ctx, current, end := r.crawler.Begin(ctx, r.round())
	defer end()
	err := r.withChores(ctx, func(ctx context.Context) error { return current.Run(ctx, r.list.Hosts()) })
	err = errors.Join(err, current.AccountLeft())
	r.session.progress.note(r.state.Number(), current.Hosts())
	return errors.Join(err, r.crawler.Finish(current))
}

// State is the last cycle, in a file. Its methods may be called concurrently.
type State struct {
	path string

	mu   sync.Mutex // guards last
	last record
}

// record is the content of a State's file.
type record struct {
	Number int64     `json:"number"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"` // zero: the cycle is not over
}

// OpenState reads the last cycle from a file. If there is no file, there was no cycle.
func OpenState(path string) (*State, error) {
	s := &State{path: path}
	return s, config.LoadJSON(path, &s.last)
}

// Number returns the number of the last cycle; zero: there was none.
func (s *State) Number() int64 { return s.get().Number }

// get returns the last cycle. If its times lie ahead, the clock was set back since. Then they count
// as now: otherwise the next cycle would wait until they come again.
func (s *State) get() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().Round(0) // the wall clock's
	if s.last.Ended.Round(0).After(now) {
		s.last.Ended = now
	}
	if s.last.Began.Round(0).After(now) {
		s.last.Began = now
	}
	return s.last
}

func (s *State) set(r record) error {
	s.mu.Lock()
	s.last = r
	s.mu.Unlock()
	return config.SaveJSON(s.path, r)
}
