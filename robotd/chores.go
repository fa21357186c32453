package robotd

import (
	"context"
	"time"

	"sheaf/internal/loop"
)

// Rounds are the times between two rounds of the chores that have no setting.
type Rounds struct {
	Status     time.Duration // the status is written to its file
	Size       time.Duration // a batch that has reached its size is sealed
	Room       time.Duration // disk and spool are measured
	Express    time.Duration // changes of watched pages are handed in
	QueueDue   time.Duration // watched pages that are due are queued
	Checkpoint time.Duration // what was collected is made durable
}

// UsualRounds returns the rounds of every daemon. Tests of whole days make fewer rounds.
func UsualRounds() Rounds {
	return Rounds{
		Status: time.Minute, Size: 2 * time.Second, Room: 2 * time.Second,
		Express: 2 * time.Second, QueueDue: 2 * time.Second, Checkpoint: 30 * time.Second,
	}
}

// withChores runs fn with the daemon's chores beside it. The chores end with fn; a chore that fails
// ends fn.
func (c *course) withChores(ctx context.Context, fn func(context.Context) error) error {
	others := []func(context.Context) error{func(ctx context.Context) error { return c.opt.Admission.Watch(ctx, c.opt.Sealer.Seal) }}
	for _, chore := range c.chores() {
		others = append(others, func(ctx context.Context) error {
			for loop.Pause(ctx, time.Until(chore.next(time.Now()))) {
				if err := chore.do(ctx); err != nil && ctx.Err() == nil {
					if err := c.opt.Admission.Tolerate(err); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return beside(ctx, fn, others...)
}

// chore is something to be done again and again. next returns the next time after now.
type chore struct {
	next func(now time.Time) time.Time
	do   func(context.Context) error
}

func (c *course) chores() []chore {
	cfg, rounds := c.opt.Settings, &c.opt.Rounds
	queueDue := rounds.QueueDue
	if c.opt.Records.Watched.Active() {
		queueDue = min(queueDue, cfg.Watch.Every)
	}
	all := []chore{
		{c.opt.Session.NextAsk, c.opt.Session.Ask},
		{c.opt.Plan.NextLog, func(ctx context.Context) error { c.opt.Session.HandIn(ctx); return nil }},
	}
	every := func(d time.Duration, do func(context.Context) error) {
		if d > 0 {
			all = append(all, chore{func(now time.Time) time.Time { return now.Add(d) }, do})
		}
	}
	every(cfg.Heartbeat, c.opt.Session.Beat)
	every(cfg.Heartbeat, c.opt.Session.AskWatches)
	every(min(rounds.Express, cfg.Express), func(ctx context.Context) error { return c.opt.Sealer.sealExpress(ctx, cfg.Express) })
	every(queueDue, func(ctx context.Context) error {
		if c.opt.Crawler.MayBeDue() {
			return c.opt.Crawler.QueueDue(ctx)
		}
		return nil
	})
	every(rounds.QueueDue, c.opt.Session.TellMoves)
	every(rounds.Size, func(ctx context.Context) error {
		if c.opt.Records.Batches.Size() < cfg.Batch.Size {
			return nil
		}
		return c.opt.Sealer.Seal(ctx)
	})
	every(rounds.Room, func(context.Context) error { return c.opt.Admission.Look() })
	every(rounds.Checkpoint, c.opt.Crawler.Checkpoint)
	every(time.Hour, func(context.Context) error { return c.opt.Servers.Save() })
	every(rounds.Status, func(context.Context) error { return c.opt.SaveStatus() })
	every(cfg.Statistics, func(context.Context) error { return c.opt.Statistics() })
	return all
}
