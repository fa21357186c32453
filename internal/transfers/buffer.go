package transfers

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Buffer gathers notes of downloads and writes them down together: a commit of its own
// would cost a small download more than its bytes do. Nobody's download waits for it or
// fails for it. Its methods may be called from many goroutines at once.
//
// A note is written within Delay, one commit for all that came meanwhile, and those that wait
// are written by Flush when the service stops. A process that is killed takes with it
// the notes of its last Delay, and those of a commit that was under way; while the
// database is away, those that wait, which are Most at the most: more are counted and
// dropped. A commit of which the outcome is not known is done again, so a note may stand
// twice. Quotas do not go by these notes: see package bandwidth.
type Buffer struct {
	to  Writer
	log *slog.Logger

	full    chan struct{} // holds one element when a batch is full
	writing sync.Mutex    // held while a batch is written

	mu      sync.Mutex // guards what follows
	waiting []Transfer // the oldest first
	lost    int        // that there was no room for
}

// Writer writes transfers down, all or none. *Log is one.
type Writer interface {
	RecordAll(ctx context.Context, list []Transfer) error
}

const (
	Delay = time.Second // after which a note is written
	Most  = 20_000      // notes that wait: some 10 MB

	batch      = 200              // notes that are written at once
	writeWait  = 3 * time.Second  // for the database, of one batch
	writeAgain = 10 * time.Second // after a batch that could not be written
)

// NewBuffer makes a buffer that writes to w. Run must run.
func NewBuffer(w Writer, log *slog.Logger) *Buffer {
	return &Buffer{to: w, log: log, full: make(chan struct{}, 1)}
}

// Record takes a note. It does not wait and does not fail.
func (b *Buffer) Record(_ context.Context, t Transfer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= Most {
		b.lost++
		return nil
	}
	b.waiting = append(b.waiting, t)
	if len(b.waiting) == batch {
		select {
		case b.full <- struct{}{}:
		default:
		}
	}
	return nil
}

// Run writes down what waits, until ctx ends. Flush must be called once nothing is
// recorded any more.
func (b *Buffer) Run(ctx context.Context) error {
	for pause := Delay; ; {
		t := time.NewTimer(pause)
		full := b.full
		if pause > Delay {
			full = nil // the database is away: more notes do not bring it back
		}
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		case <-full:
			t.Stop()
		}
		pause = Delay
		if err := b.Flush(ctx); err != nil {
			pause = writeAgain
		}
	}
}

// Flush writes down all that waits, in batches, until one fails.
func (b *Buffer) Flush(ctx context.Context) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	for {
		b.mu.Lock()
		next, lost := b.waiting[:min(batch, len(b.waiting))], b.lost
		b.mu.Unlock()
		if len(next) == 0 {
			return nil
		}
		err := b.write(ctx, next)
		b.mu.Lock()
		if err == nil {
			b.waiting = b.waiting[len(next):]
			b.lost -= lost
		}
		if len(b.waiting) == 0 {
			b.waiting = nil // the array has grown by what was written
		}
		waiting := len(b.waiting)
		b.mu.Unlock()
		switch {
		case err != nil:
			b.log.Warn("downloads cannot be noted and wait", "waiting", waiting, "lost", lost, "err", err)
			return err
		case lost > 0:
			b.log.Warn("downloads were not noted: the database was away for too long", "lost", lost)
		}
	}
}

func (b *Buffer) write(ctx context.Context, list []Transfer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWait)
	defer cancel()
	return b.to.RecordAll(ctx, list)
}
