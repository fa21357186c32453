package service

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sheaf/internal/transfers"
)

// recorder notes downloads. While the database is away it keeps them, some thousands at
// most, and writes them down later: nobody's download waits for it or fails for it.
type recorder struct {
	to  *transfers.Log
	log *slog.Logger

	mu      sync.Mutex           // guards what follows
	waiting []transfers.Transfer // the oldest first
	lost    int                  // that there was no room for
}

const (
	recordWait  = 3 * time.Second  // for the database, of one note
	recordAgain = 10 * time.Second // between two tries of those that wait
	recordMost  = 20_000           // that wait
)

// Record implements serve.Recorder. A note that waits is lost if the process ends.
func (r *recorder) Record(ctx context.Context, t transfers.Transfer) error {
	if len(r.queue()) == 0 && r.write(ctx, t) == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= recordMost {
		r.lost++
		return nil
	}
	r.waiting = append(r.waiting, t)
	return nil
}

func (r *recorder) queue() []transfers.Transfer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting
}

func (r *recorder) write(ctx context.Context, t transfers.Transfer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWait)
	defer cancel()
	return r.to.Record(ctx, t)
}

// Run writes down what waits, until ctx ends.
func (r *recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(recordAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.flush(ctx)
		}
	}
}

func (r *recorder) flush(ctx context.Context) {
	waiting := r.queue()
	done := 0
	var err error
	for _, t := range waiting {
		if err = r.write(ctx, t); err != nil {
			break
		}
		done++
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.Clone(r.waiting[done:]) // what came meanwhile is behind
	switch {
	case err != nil:
		r.log.Warn("downloads cannot be noted and wait", "waiting", len(r.waiting), "lost", r.lost, "err", err)
	case done > 0:
		r.log.Info("downloads that waited are noted", "noted", done, "lost", r.lost)
		r.lost = 0
	}
}
