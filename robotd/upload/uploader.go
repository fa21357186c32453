package upload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/batch"
)

// Target takes batches. Send returns nil when the service has the whole batch
// and its manifest. It may be called again for the same batch and then goes on
// where it was broken off. Its errors are *DownError, *LaterError and
// *RefusedError where it knows so much.
type Target interface {
	Name() string // for the log
	Send(ctx context.Context, b batch.Spooled) error
}

// ReceiptSource gives out receipts, checked for the service's signature: of the bytes of
// the batch that have the digest. ErrUnknown says that the service does not have them.
type ReceiptSource interface {
	Receipt(ctx context.Context, id wire.BatchID, sha256 string) (*wire.Receipt, error)
}

// ReceiptSources asks one desk after another until one answers, the one that answered last first: a dead
// one costs its time-out once, not at every look.
type ReceiptSources struct {
	all   []ReceiptSource
	first atomic.Int32
}

// NewReceiptSources takes desks in the order of preference.
func NewReceiptSources(all ...ReceiptSource) *ReceiptSources { return &ReceiptSources{all: all} }

// Receipt gives the first answer there is, be it ErrUnknown.
func (d *ReceiptSources) Receipt(ctx context.Context, id wire.BatchID, sha256 string) (*wire.Receipt, error) {
	var errs []error
	first := int(d.first.Load())
	for k := range d.all {
		i := (first + k) % len(d.all)
		receipt, err := d.all[i].Receipt(ctx, id, sha256)
		if err == nil || errors.Is(err, ErrUnknown) {
			d.first.Store(int32(i))
			return receipt, err
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// Spool is where batches wait.
type Spool interface {
	Spool() ([]batch.Spooled, error)
	Remove(id wire.BatchID) error
	Quarantine(id wire.BatchID, reason string) error
}

// Options say how to upload. The zero value of each duration means its default.
type Options struct {
	Spool    Spool
	Targets  []Target // ways to one service, in the order of preference
	Receipts ReceiptSource
	Log      *slog.Logger

	Poll       time.Duration // between two looks for a receipt; default a minute
	BackOff    time.Duration // after the first failure, doubled with each further one; default 10 s
	BackOffMax time.Duration // default an hour

	Published   func(batch.Spooled, *wire.Receipt) error // told before the batch leaves the spool; may be nil
	Quarantined func(batch.Spooled, *wire.Receipt) error // as above
}

// Uploader carries batches. Run and Drain must not run at once.
type Uploader struct {
	opt     Options
	wake    chan struct{}
	targets []retry // of each target, whatever the batch
	state   map[wire.BatchID]*progress
	seen    watched
}

// progress is what the uploader knows of a batch. Nothing of it need survive:
// a new uploader asks for the receipt first.
type progress struct {
	due    time.Time
	desk   retry   // of asking for the receipt
	at     []retry // of the batch at each target
	resent int     // times it was sent again because it had arrived damaged
}

// retry counts failures in a row, and says when to try again.
type retry struct {
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
	u := &Uploader{
		opt: opt, wake: make(chan struct{}, 1),
		targets: make([]retry, len(opt.Targets)), state: make(map[wire.BatchID]*progress),
	}
	u.seen.s.Batches = make(map[wire.BatchID]BatchState)
	for _, t := range opt.Targets {
		u.seen.s.Targets = append(u.seen.s.Targets, TargetState{Name: t.Name()})
	}
	return u
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
			p = &progress{at: make([]retry, len(u.opt.Targets))}
			u.state[b.ID] = p
		}
		if !p.due.After(time.Now()) {
			gone, err := u.step(ctx, b, p)
			if err != nil {
				return 0, time.Time{}, fmt.Errorf("upload of %s: %w", b.ID, err)
			}
			if gone {
				delete(u.state, b.ID)
				u.seen.change(func(s *State) { delete(s.Batches, b.ID) })
				continue
			}
			u.stands(b.ID, func(s *BatchState) { s.Next = p.due })
		}
		left++
		if p.due.Before(next) {
			next = p.due
		}
	}
	return left, next, nil
}

// jitter lengthens d by up to a quarter, so that robots that were turned away
// together do not come back together.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/4+1))
}
