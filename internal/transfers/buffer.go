package transfers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sheaf/internal/loop"
)

// Buffer records downloads in batches, because a commit for each would cost more than a small
// download itself. No download waits for the buffer or fails because of it. Its methods may be
// called concurrently.
//
// A download is written within Delay, in one commit with other downloads. When the service stops,
// Flush writes the waiting downloads. If the process is killed, the downloads of the last Delay and
// of an unfinished commit are lost. While the database cannot be reached, at most Most downloads
// wait; further ones are counted and dropped. A commit of unknown result is repeated, so a download
// may be recorded twice. Quotas do not depend on these records: see account.Meter.
type Buffer struct {
	to  Writer
	log *slog.Logger

	full    chan struct{} // holds one element when a batch is full
	writing sync.Mutex    // held while a batch is written

	mu      sync.Mutex // guards the following
	waiting []Transfer // oldest first
	lost    int        // number of dropped downloads
}

// Writer records a list of transfers, all or none. *Log is a Writer.
type Writer interface {
	RecordAll(ctx context.Context, list []Transfer) error
}

const (
	Delay = time.Second // until a download is written
	Most  = 20_000      // number of downloads that may wait: some 10 MB

	batch      = 200              // number of downloads in one commit
	writeWait  = 3 * time.Second  // limit for one commit
	writeAgain = 10 * time.Second // until the next try after a failed commit
)

// NewBuffer returns a buffer that writes to w while Run runs.
func NewBuffer(w Writer, log *slog.Logger) *Buffer {
	return &Buffer{to: w, log: log, full: make(chan struct{}, 1)}
}

// Record adds a download, or drops it if Most wait already. It does not wait and does not fail.
func (b *Buffer) Record(_ context.Context, t Transfer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= Most {
		b.lost++
		return nil
	}
	b.waiting = append(b.waiting, t)
	if len(b.waiting) == batch {
		loop.Offer(b.full, struct{}{})
	}
	return nil
}

// Run writes downloads until ctx ends. Call Flush after the last Record.
func (b *Buffer) Run(ctx context.Context) error {
	for pause := Delay; ; {
		t := time.NewTimer(pause)
		full := b.full
		if pause > Delay {
			full = nil // the database cannot be reached: wait, even if a batch is full
		}
		least := 1
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		case <-full:
			t.Stop()
			least = batch
		}
		pause = Delay
		if err := b.write(ctx, least); err != nil {
			pause = writeAgain
		}
	}
}

// Flush writes all waiting downloads in batches, until the write of a batch fails.
func (b *Buffer) Flush(ctx context.Context) error { return b.write(ctx, 1) }

// write writes waiting downloads in batches, until a write fails or fewer downloads than least
// wait.
func (b *Buffer) write(ctx context.Context, least int) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	for {
		b.mu.Lock()
		next, lost := b.waiting[:min(batch, len(b.waiting))], b.lost
		b.mu.Unlock()
		if len(next) < least {
			return nil
		}
		err := b.commit(ctx, next)
		b.mu.Lock()
		if err == nil {
			b.waiting = b.waiting[len(next):]
			b.lost -= lost
		}
		if len(b.waiting) == 0 {
			b.waiting = nil // release the array, which also has the written downloads
		}
		waiting := len(b.waiting)
		b.mu.Unlock()
		switch {
		case err != nil:
			b.log.WarnContext(ctx, "downloads cannot be noted and wait", "waiting", waiting, "lost", lost, "err", err)
			return err
		case lost > 0:
			b.log.WarnContext(ctx, "downloads were not noted: the database was away for too long", "lost", lost)
		}
	}
}

func (b *Buffer) commit(ctx context.Context, list []Transfer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWait)
	defer cancel()
	return b.to.RecordAll(ctx, list)
}
