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

// withChores runs fn with the robot's chores beside it. The chores end with fn; a chore that fails
// ends fn.
func (r *Robot) withChores(ctx context.Context, fn func(context.Context) error) error {
	others := []func(context.Context) error{func(ctx context.Context) error { return r.manners.Admission.Watch(ctx, r.seal) }}
	for _, chore := range r.chores() {
		others = append(others, func(ctx context.Context) error {
			for loop.Pause(ctx, time.Until(chore.next(time.Now()))) {
				if err := chore.do(ctx); err != nil && ctx.Err() == nil {
					if err := r.manners.Admission.Tolerate(err); err != nil {
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

func (r *Robot) chores() []chore {
	cfg, rounds := &r.cfg, &r.world.rounds
	queueDue := rounds.QueueDue
	if r.records.Watched.Active() {
		queueDue = min(queueDue, cfg.Watch.Every)
	}
	all := []chore{
		{r.session.NextAsk, r.session.Ask},
		{r.plan.NextLog, func(ctx context.Context) error { r.session.HandIn(ctx); return nil }},
	}
	every := func(d time.Duration, do func(context.Context) error) {
		if d > 0 {
			all = append(all, chore{func(now time.Time) time.Time { return now.Add(d) }, do})
		}
	}
	every(cfg.Heartbeat, r.session.Beat)
	every(cfg.Heartbeat, r.session.AskWatches)
	every(min(rounds.Express, cfg.Express), func(ctx context.Context) error { return r.sealExpress(ctx, cfg.Express) })
	every(queueDue, func(ctx context.Context) error {
		if r.crawler.MayBeDue() {
			return r.crawler.QueueDue(ctx)
		}
		return nil
	})
	every(rounds.QueueDue, r.session.TellMoves)
	every(rounds.Size, func(ctx context.Context) error {
		if r.records.Batches.Size() < cfg.Batch.Size {
			return nil
		}
		return r.seal(ctx)
	})
	every(rounds.Room, func(context.Context) error { return r.manners.Admission.Look() })
	every(rounds.Checkpoint, r.crawler.Checkpoint)
	every(time.Hour, func(context.Context) error { return r.servers.Save() })
	every(rounds.Status, func(context.Context) error { return r.saveStatus() })
	every(cfg.Statistics, func(context.Context) error { return r.logStatistics() })
	return all
}
