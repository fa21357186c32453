package robotd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// rounds are the times between two rounds of the chores that no setting names.
type rounds struct {
	status     time.Duration // the status is written to its file; the daemon itself tells the present
	size       time.Duration // a batch that has reached its size is sealed
	room       time.Duration // disk and spool are measured
	express    time.Duration // changes that somebody waits for are handed in
	comeBack   time.Duration // watched pages that are due are queued
	checkpoint time.Duration // what was collected is made durable
}

// usualRounds are every daemon's. Tests of whole days make fewer rounds.
func usualRounds() rounds {
	return rounds{
		status: time.Minute, size: 2 * time.Second, room: 2 * time.Second,
		express: 2 * time.Second, comeBack: 2 * time.Second, checkpoint: 30 * time.Second,
	}
}

// withChores runs fn with the daemon's chores beside it: the questions to the
// manager, the log's hour, batches by size, checkpoints, the status file. The
// chores end with fn; a chore that fails ends fn.
func (r *Robot) withChores(ctx context.Context, fn func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	chore := func(next func(time.Time) time.Time, do func(context.Context) error) {
		g.Go(func() error {
			for {
				if sleep(ctx, time.Until(next(time.Now()))) != nil {
					return nil
				}
				if err := do(ctx); err != nil && ctx.Err() == nil {
					if err := r.tolerate(err); err != nil {
						return err
					}
				}
			}
		})
	}
	chore(r.nextAsk, r.askManager)
	if r.cfg.Heartbeat > 0 {
		chore(every(r.cfg.Heartbeat), r.beat)
	}
	if r.cfg.Heartbeat > 0 {
		chore(every(r.cfg.Heartbeat), r.askWatches)
	}
	if r.cfg.Express > 0 {
		chore(every(min(r.rounds.express, r.cfg.Express)), func(ctx context.Context) error { return r.handInExpress(ctx, r.cfg.Express) })
	}
	chore(every(r.lookForVisits()), func(ctx context.Context) error {
		if r.attends() || len(r.orders.hosts()) > 0 {
			return r.comeBack(ctx)
		}
		return nil
	})
	chore(r.plan.NextLog, func(ctx context.Context) error { r.handIn(ctx); return nil })
	chore(every(r.rounds.size), r.sealBySize)
	chore(every(r.rounds.room), r.lookForRoom)
	chore(every(r.rounds.checkpoint), r.checkpoint)
	chore(every(time.Hour), func(context.Context) error { return r.servers.Save() })
	chore(every(r.rounds.status), func(context.Context) error { return r.saveStatus() })
	if r.cfg.Statistics > 0 {
		chore(every(r.cfg.Statistics), r.logStatistics)
	}
	g.Go(func() error { return r.watchWindow(ctx) })
	g.Go(func() error { return r.measureDistances(ctx) })
	g.Go(func() error {
		defer stop()
		return fn(ctx)
	})
	return g.Wait()
}

// lookForVisits is how often the robot looks whether a watched page is due or a visit was ordered.
func (r *Robot) lookForVisits() time.Duration {
	if r.attends() {
		return min(r.rounds.comeBack, r.cfg.Watch.Every)
	}
	return r.rounds.comeBack
}

func every(d time.Duration) func(time.Time) time.Time {
	return func(now time.Time) time.Time { return now.Add(d) }
}

// nextAsk is when the manager is asked again, which the status tells.
func (r *Robot) nextAsk(now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.askAt = now.Add(r.cfg.Poll)
	return r.askAt
}

func (r *Robot) sealBySize(ctx context.Context) error {
	if r.batches.Size() < r.cfg.Batch.Size {
		return nil
	}
	_, err := r.seal(ctx)
	return err
}

// checkpoint makes what was collected durable against loss of power. Loss of the
// process alone needs no such help.
func (r *Robot) checkpoint(ctx context.Context) error {
	r.mu.Lock()
	c := r.crawl
	r.mu.Unlock()
	if c == nil {
		return nil
	}
	for _, h := range c.all() {
		if ctx.Err() != nil {
			return nil
		}
		if !h.dirty.Swap(false) {
			continue
		}
		if err := h.front.Sync(func() error { return r.batches.Sync(h.name) }); err != nil {
			return fmt.Errorf("checkpoint of %s: %w", h.name, err)
		}
	}
	return nil
}

// askManager asks for a restart (P4) and for changes of the list (P1), and
// reports what was found (P2). A manager that is away is asked again later.
func (r *Robot) askManager(ctx context.Context) error {
	r.asking.Lock()
	defer r.asking.Unlock()
	restart, err := r.manager.IsRestart(ctx, r.list.Generation())
	if err == nil && restart {
		err = r.restart(ctx)
	} else if err == nil {
		err = r.refresh(ctx)
	}
	err = errors.Join(err, r.found.Report(ctx, r.manager))
	if err != nil && ctx.Err() == nil {
		r.log.Warn("manager not reached as planned", "error", err)
	}
	return nil
}

// handIn sends the log (P3) and the hosts found (P2). What the manager does not
// take now stays until the next time.
func (r *Robot) handIn(ctx context.Context) {
	err := r.journal.Rotate(time.Now())
	if err == nil {
		err = r.journal.Submit(ctx, r.manager)
	}
	if err = errors.Join(err, r.found.Report(ctx, r.manager)); err != nil && ctx.Err() == nil {
		r.log.Warn("log or hosts found not handed in; they are kept", "error", err)
	}
}

// restart does what the manager's RESTART asks: it seals what there is, drops the
// list and fetches it anew. Nothing that was collected is lost.
func (r *Robot) restart(ctx context.Context) error {
	r.log.Info("the manager asks for a restart")
	if _, err := r.seal(ctx); err != nil {
		return err
	}
	list := *r.list.List()
	list.ETag = ""
	if err := r.list.Set(&list); err != nil {
		return err
	}
	return r.refresh(ctx)
}

// refresh asks for the list and, where it has changed, works by the new one.
func (r *Robot) refresh(ctx context.Context) error {
	r.mu.Lock()
	old, c := r.list.List(), r.crawl
	r.mu.Unlock()
	list, err := r.manager.List(ctx, old.ETag)
	if err != nil || list == nil {
		return err
	}
	hosts := list.Hosts()
	var dropped []string
	for name := range old.Hosts() {
		if hosts[name] == nil {
			dropped = append(dropped, name)
		}
	}
	if err := r.drop(ctx, c, dropped); err != nil {
		return err
	}
	if err := r.list.Set(list); err != nil {
		return err
	}
	r.log.Info("list of hosts", "generation", list.Generation, "hosts", len(hosts), "dropped", len(dropped))
	switch {
	case c != nil && c.short:
		if err := c.renew(ctx, old, hosts); err != nil {
			return err
		}
	case c != nil:
		return errors.Join(c.renew(ctx, old, hosts), c.startAll(ctx, hosts))
	}
	if list.Gained(old) {
		select {
		case r.gained <- struct{}{}:
		default: // told already
		}
	}
	return nil
}

// drop takes hosts out of the crawl that are another robot's from now on. What
// was collected of them is sealed under the old list, by which it is judged; where none was
// begun there is no need for a batch.
func (r *Robot) drop(ctx context.Context, c *crawl, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if c != nil {
		c.drop(names)
	}
	begun, err := r.anyBegun(names)
	if err != nil {
		return err
	}
	if begun {
		if _, err := r.seal(ctx); err != nil {
			return err
		}
	}
	r.progress.forget(names)
	for _, name := range names {
		if err := r.forget(name); err != nil {
			return err
		}
	}
	return nil
}

// forget drops all that is known of a host.
func (r *Robot) forget(name string) error {
	r.servers.Forget(name)
	r.watches.forget(name)
	return errors.Join(r.frontier.Forget(name), r.robots.Forget(name))
}
