package robotd

import (
	"context"
	"fmt"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/datadir"
)

// cycle is one round over all assigned hosts. It is over when Ended is set.
type cycle struct {
	Number int64     `json:"number"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"`
}

func (r *Robot) beginCycle() error {
	if r.cycle.Number > 0 && r.cycle.Ended.IsZero() {
		r.log.Info("cycle taken up", "cycle", r.cycle.Number, "began", r.cycle.Began)
		return nil
	}
	next := cycle{Number: r.cycle.Number + 1, Began: time.Now()}
	if err := r.frontier.Advance(next.Number); err != nil {
		return err
	}
	r.ledger.BeginCycle()
	r.tally.reset()
	r.mu.Lock()
	r.cycle = next
	r.mu.Unlock()
	r.log.Info("cycle begins", "cycle", next.Number)
	return datadir.SaveJSON(r.path("cycle.json"), next)
}

// Cycle runs one crawl cycle: it takes up the one that was interrupted or begins
// the next, visits every assigned host until nothing is left, makes the batch and
// hands in the log. The batch is then in the spool; Drain uploads it.
func (r *Robot) Cycle(ctx context.Context) error {
	if err := r.beginCycle(); err != nil {
		return err
	}
	if err := r.refresh(ctx); err != nil {
		r.log.Warn("manager away; going on with the last list", "hosts", len(r.list.List().URLs), "error", err)
	} else if err := r.askWatches(ctx); err != nil {
		return err
	}
	r.collects()
	if !r.hasList() {
		return errNoList
	}
	for more := true; more; {
		if err := r.crawlHosts(ctx); err != nil {
			return err
		}
		var err error
		if more, err = r.moreWork(ctx); err != nil {
			return err
		}
	}
	if _, err := r.seal(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	r.cycle.Ended = time.Now()
	r.mu.Unlock()
	if err := datadir.SaveJSON(r.path("cycle.json"), r.cycle); err != nil {
		return err
	}
	r.log.Info("cycle ended", "cycle", r.cycle.Number, "took", r.cycle.Ended.Sub(r.cycle.Began).Round(time.Second))
	r.handIn(ctx)
	return r.saveStatus()
}

// moreWork tells the manager that every host is exhausted, and reports whether it gave others.
func (r *Robot) moreWork(ctx context.Context) (bool, error) {
	before := r.list.List()
	if err := r.beat(ctx); err != nil {
		return false, err
	}
	r.collects()
	return r.list.List().Gained(before), nil
}

// collects notes that the hosts of the list are all being collected, those that came last too.
func (r *Robot) collects() {
	select {
	case <-r.gained:
	default:
	}
}

// seal makes a batch of what is there. What somebody waits for goes before it.
func (r *Robot) seal(ctx context.Context) (wire.BatchID, error) {
	if r.cfg.Express > 0 {
		if err := r.handInExpress(ctx, 0); err != nil {
			return "", err
		}
	}
	r.mu.Lock()
	c := r.crawl
	r.mu.Unlock()
	if c != nil {
		if err := c.accountLeft(); err != nil {
			return "", err
		}
	}
	id, err := r.batches.Seal(ctx, r.list.Generation())
	if err != nil {
		return "", fmt.Errorf("sealing: %w", err)
	}
	if id != "" {
		r.uploader.Wake()
	}
	return id, nil
}
