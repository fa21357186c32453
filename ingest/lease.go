package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/lease"

	"golang.org/x/sys/unix"
)

// Several processes may work on one ledger and one directory of buffers. What a
// process claims it holds by a lease: a time in the batch's row, which the holder
// puts off while it is at work. Once that has passed another may claim the batch,
// and the token that every claim raises fences off a holder that was only slow.
//
// A lease says nothing about a process that has died a moment ago. On one machine
// the kernel does: each process keeps a file in the buffers locked for as long as
// it lives, and the others, when they start or have nothing else to do, free the leases
// of all who hold no such lock.

// gate lets one goroutine of one process through at a time.
type gate struct {
	mu sync.Mutex
	f  *os.File // locked with flock, which excludes other processes and not other goroutines
}

func (g *gate) Lock() {
	g.mu.Lock()
	// It fails only for a file that is no file or closed: then this process is
	// at its end, and the ledger's conditions decide between it and others.
	_ = lease.Flock(g.f, unix.LOCK_EX)
}

func (g *gate) Unlock() {
	_ = lease.Flock(g.f, unix.LOCK_UN)
	g.mu.Unlock()
}

// hold puts the end of b's lease off until stop is called. Where the batch has
// become another's, the context ends with errLost as its cause.
func (i *Ingest) hold(ctx context.Context, b *Batch) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	var extending sync.WaitGroup
	extending.Go(func() {
		every := time.NewTicker(i.opt.Limits.Lease / 3)
		defer every.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-every.C:
			}
			err := i.write(writeClaim, func() error { return i.ledger.extend(held, b, i.opt.Now().Add(i.opt.Limits.Lease)) })
			switch {
			case errors.Is(err, errLost):
				cancel(errLost)
				return
			case err != nil && held.Err() == nil:
				i.log.Error("cannot extend the lease on a batch; once it has passed, another process may take the batch over", "batch", b.Batch, "err", err)
			}
		}
	})
	return held, func() {
		cancel(nil)
		extending.Wait()
	}
}

// free gives a batch up that is to be split by whoever comes next.
func (i *Ingest) free(ctx context.Context, b *Batch) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second) // the service is stopping
	defer cancel()
	err := i.write(writeClaim, func() error { return i.ledger.extend(ctx, b, time.Time{}) })
	if err != nil && !errors.Is(err, errLost) {
		i.log.Warn("a batch stays leased until its lease ends", "batch", b.Batch, "err", err)
	}
}

// extend sets the end of the lease on a batch that b's holder is splitting.
func (l *ledger) extend(ctx context.Context, b *Batch, until time.Time) error {
	return changed(l.db.ExecContext(ctx, `UPDATE ingest_batches SET lease_until = ?
		WHERE id = ? AND token = ? AND state = 'pre-split'`, db.Millis(until), b.ID, b.token))
}

// freeDead ends the leases of holders that have died, as far as p can tell, and gives
// how many there were.
func (l *ledger) freeDead(ctx context.Context, p *lease.Presence) (freed int64, err error) {
	holders, err := l.holders(ctx)
	if err != nil {
		return 0, fmt.Errorf("leases of the dead: %w", err)
	}
	for _, holder := range holders {
		gone, err := p.Gone(holder)
		if err != nil {
			return freed, fmt.Errorf("leases of the dead: %w", err)
		}
		if !gone {
			continue
		}
		res, err := l.db.ExecContext(ctx, `UPDATE ingest_batches SET lease_until = 0 WHERE state = 'pre-split' AND holder = ?`, holder)
		if err != nil {
			return freed, fmt.Errorf("leases of the dead: %w", err)
		}
		n, err := res.RowsAffected()
		if err != nil {
			return freed, err
		}
		freed += n
	}
	return freed, nil
}

// holders gives who has leases.
func (l *ledger) holders(ctx context.Context) (names []string, err error) {
	rows, err := l.db.QueryContext(ctx, `SELECT DISTINCT holder FROM ingest_batches WHERE state = 'pre-split' AND lease_until > 0`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
