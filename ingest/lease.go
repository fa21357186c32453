package ingest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sheaf/internal/db"

	"golang.org/x/sys/unix"
)

// Several processes may work on one ledger and one directory of buffers. What a
// process claims it holds by a lease: a time in the batch's row, which the holder
// puts off while it is at work. Once that has passed another may claim the batch,
// and the token that every claim raises fences off a holder that was only slow.
//
// A lease says nothing about a process that has died a moment ago. On one machine
// the kernel does: each process keeps a file in the buffers locked for as long as
// it lives, and one that starts frees the leases of all who hold no such lock.

// gate lets one goroutine of one process through at a time.
type gate struct {
	mu sync.Mutex
	f  *os.File // locked with flock, which excludes other processes and not other goroutines
}

func (g *gate) Lock() {
	g.mu.Lock()
	// It fails only for a file that is no file or closed: then this process is
	// at its end, and the ledger's conditions decide between it and others.
	_ = flock(g.f, unix.LOCK_EX)
}

func (g *gate) Unlock() {
	_ = flock(g.f, unix.LOCK_UN)
	g.mu.Unlock()
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			return err
		}
	}
}

// presence is a process's sign of life, and the name that its leases bear.
type presence struct {
	name string
	file *os.File
}

// appear gives this process a sign of life in dir, clears away those of the dead,
// and tells the names of all who live, its own included.
func appear(dir string) (p *presence, alive []string, err error) {
	all, err := os.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer all.Close() // and with it the lock
	if err := flock(all, unix.LOCK_EX); err != nil {
		return nil, nil, err
	}
	names, err := all.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		other := &presence{name: name}
		switch err := other.lock(dir, 0); {
		case errors.Is(err, unix.EWOULDBLOCK):
			alive = append(alive, name)
		case err != nil:
			return nil, nil, err
		default:
			if err := errors.Join(os.Remove(other.file.Name()), other.file.Close()); err != nil {
				return nil, nil, err
			}
		}
	}
	p = &presence{name: rand.Text()}
	return p, append(alive, p.name), p.lock(dir, os.O_CREATE|os.O_EXCL)
}

// lock takes the file's lock, which lasts until it is closed or the process ends.
func (p *presence) lock(dir string, flags int) (err error) {
	p.file, err = os.OpenFile(filepath.Join(dir, p.name), os.O_RDWR|flags, 0o640)
	if err != nil {
		return err
	}
	if err := flock(p.file, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(err, p.file.Close())
	}
	return nil
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

// freeDead ends the leases of all but the holders who live.
func (l *ledger) freeDead(ctx context.Context, alive []string) error {
	names, err := json.Marshal(alive)
	if err != nil {
		return err
	}
	_, err = l.db.ExecContext(ctx, `UPDATE ingest_batches SET lease_until = 0
		WHERE state = 'pre-split' AND lease_until > 0 AND holder NOT IN (SELECT value FROM json_each(?))`, string(names))
	if err != nil {
		return fmt.Errorf("leases of the dead: %w", err)
	}
	return nil
}
