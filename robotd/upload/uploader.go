package upload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/batch"
)

// Target takes batches. Send returns nil when the service has the whole batch
// and its manifest. It may be called again for the same batch and then goes on
// where it was broken off.
type Target interface {
	Send(ctx context.Context, b batch.Spooled) error
}

// Desk gives out receipts, checked for the service's signature. ErrUnknown says
// that the service does not have the batch.
type Desk interface {
	Receipt(ctx context.Context, id wire.BatchID) (*wire.Receipt, error)
}

// Spool is where batches wait.
type Spool interface {
	Spool() ([]batch.Spooled, error)
	Remove(id wire.BatchID) error
	Quarantine(id wire.BatchID, reason string) error
}

// ErrUnknown says that the service does not have a batch.
var ErrUnknown = errors.New("the service does not have the batch")

// LaterError says when the service wants to be asked again.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return fmt.Sprintf("%v; again in %v", e.Err, e.After) }
func (e *LaterError) Unwrap() error { return e.Err }

// Options say how to upload. The zero value of each duration means its default.
type Options struct {
	Spool  Spool
	Target Target
	Desk   Desk
	Log    *slog.Logger

	Poll       time.Duration // between two looks for a receipt; default a minute
	BackOff    time.Duration // after the first failure, doubled with each further one; default 10 s
	BackOffMax time.Duration // default an hour

	Published   func(batch.Spooled, *wire.Receipt) error // told before the batch leaves the spool; may be nil
	Quarantined func(batch.Spooled, *wire.Receipt) error // as above
}

// Uploader carries batches. Run and Drain must not run at once.
type Uploader struct {
	opt   Options
	wake  chan struct{}
	state map[wire.BatchID]*progress
}

// progress is what the uploader knows of a batch. Nothing of it need survive:
// a new uploader asks for the receipt first.
type progress struct {
	sent     bool
	failures int
	due      time.Time
}

// New returns an uploader.
func New(opt Options) *Uploader {
	setDefault(&opt.Poll, time.Minute)
	setDefault(&opt.BackOff, 10*time.Second)
	setDefault(&opt.BackOffMax, time.Hour)
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Uploader{opt: opt, wake: make(chan struct{}, 1), state: make(map[wire.BatchID]*progress)}
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// Wake makes Run look into the spool at once.
func (u *Uploader) Wake() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// Run carries batches until ctx ends. It returns only what cannot be mended by
// trying again: a spool that cannot be read.
func (u *Uploader) Run(ctx context.Context) error {
	for {
		_, next, err := u.round(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		u.sleep(ctx, next)
	}
}

// Drain carries batches until the spool is empty.
func (u *Uploader) Drain(ctx context.Context) error {
	for {
		left, next, err := u.round(ctx)
		if err != nil || left == 0 {
			return err
		}
		u.sleep(ctx, next)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("upload: %d batches are still in the spool: %w", left, err)
		}
	}
}

func (u *Uploader) sleep(ctx context.Context, until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-u.wake:
	case <-timer.C:
	}
}

// round takes every batch that is due one step on. It returns how many are left
// and when the next is due.
func (u *Uploader) round(ctx context.Context) (left int, next time.Time, err error) {
	batches, err := u.opt.Spool.Spool()
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("upload: %w", err)
	}
	next = time.Now().Add(u.opt.BackOffMax)
	for _, b := range batches {
		p := u.state[b.ID]
		if p == nil {
			p = new(progress)
			u.state[b.ID] = p
		}
		if !p.due.After(time.Now()) {
			gone, err := u.step(ctx, b, p)
			if err != nil {
				return 0, time.Time{}, fmt.Errorf("upload of %s: %w", b.ID, err)
			}
			if gone {
				delete(u.state, b.ID)
				continue
			}
		}
		left++
		if p.due.Before(next) {
			next = p.due
		}
	}
	return left, next, nil
}

// step asks for the batch's receipt and sends the batch where the service has
// it not. It reports whether the batch left the spool; an error is the spool's.
func (u *Uploader) step(ctx context.Context, b batch.Spooled, p *progress) (gone bool, err error) {
	receipt, err := u.opt.Desk.Receipt(ctx, b.ID)
	if errors.Is(err, ErrUnknown) {
		p.sent = false
		err = u.opt.Target.Send(ctx, b)
		if err == nil {
			p.sent = true
			u.opt.Log.Info("batch sent", "batch", b.ID, "bytes", b.Size)
			receipt, err = u.opt.Desk.Receipt(ctx, b.ID)
			if errors.Is(err, ErrUnknown) {
				// By FTP the service may need a moment to find the manifest.
				p.due = time.Now().Add(u.opt.Poll)
				return false, nil
			}
		}
	}
	if err != nil {
		u.backOff(ctx, b.ID, p, err)
		return false, nil
	}
	p.failures = 0
	switch {
	case receipt.SHA256 != b.SHA256:
		u.backOff(ctx, b.ID, p, fmt.Errorf("the receipt is for other bytes: sha256 %s, not %s", receipt.SHA256, b.SHA256))
		return false, nil
	case receipt.State == wire.StatePublished:
		u.opt.Log.Info("batch published", "batch", b.ID, "edition", receipt.Edition, "version", receipt.Version)
		if u.opt.Published != nil {
			if err := u.opt.Published(b, receipt); err != nil {
				return false, err
			}
		}
		return true, u.opt.Spool.Remove(b.ID)
	case receipt.State == wire.StateQuarantined:
		u.opt.Log.Error("batch quarantined by the service; kept in spool/quarantined", "batch", b.ID, "reason", receipt.Reason, "detail", receipt.Detail)
		if u.opt.Quarantined != nil {
			if err := u.opt.Quarantined(b, receipt); err != nil {
				return false, err
			}
		}
		return true, u.opt.Spool.Quarantine(b.ID, fmt.Sprintf("%s: %s", receipt.Reason, receipt.Detail))
	}
	p.due = time.Now().Add(jitter(u.opt.Poll))
	return false, nil
}

func (u *Uploader) backOff(ctx context.Context, id wire.BatchID, p *progress, err error) {
	wait := min(u.opt.BackOff<<min(p.failures, 20), u.opt.BackOffMax)
	if wait <= 0 {
		wait = u.opt.BackOffMax
	}
	p.failures++
	wait = jitter(wait)
	var later *LaterError
	if errors.As(err, &later) {
		wait = max(wait, jitter(later.After))
	}
	p.due = time.Now().Add(wait)
	if ctx.Err() == nil {
		u.opt.Log.Warn("batch not uploaded", "batch", id, "error", err, "tries", p.failures, "again", wait.Round(time.Second))
	}
}

// jitter lengthens d by up to a quarter, so that robots that were turned away
// together do not come back together.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/4+1))
}
