package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"sheaf/internal/loop"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// Target accepts batches. Send returns nil when the service has the whole batch and its manifest.
// If it is called again for the same batch, it continues the upload. Its errors wrap *DownError,
// *LaterError or *RefusedError if the answer shows which.
type Target interface {
	Name() string // for the log
	Send(ctx context.Context, b Spooled) error
}

// ReceiptSource returns receipts. Receipt checks the service's signature. It returns ErrUnknown if
// the service does not have the batch with this ID and digest.
type ReceiptSource interface {
	Receipt(ctx context.Context, id wire.BatchID, sha256 string) (*wire.Receipt, error)
}

// ReceiptSources tries one source after another until one answers, beginning with the source that
// answered last. So only one request waits for the time-out of a dead source.
type ReceiptSources struct {
	all   []ReceiptSource
	first atomic.Int32
}

// NewReceiptSources takes the sources in the order of preference.
func NewReceiptSources(all ...ReceiptSource) *ReceiptSources { return &ReceiptSources{all: all} }

// Receipt returns the first answer, which may be ErrUnknown.
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

// Spool is the store of batches that wait.
type Spool interface {
	Spool() ([]Spooled, error)
	Remove(id wire.BatchID) error
	Quarantine(id wire.BatchID, reason string) error
}

// UploaderOptions are the settings of an Uploader. Durations that are zero have a default.
type UploaderOptions struct {
	Spool    Spool
	Targets  []Target // ways to one service, in the order of preference
	Receipts ReceiptSource
	Log      *slog.Logger

	Poll       time.Duration // interval of asking for a receipt; default a minute
	BackOff    time.Duration // wait after the first failure, doubled with each further one; default 10 s
	BackOffMax time.Duration // longest wait after a failure; default an hour

	Published   func(Spooled, *wire.Receipt) error // called before the batch leaves the spool; may be nil
	Quarantined func(Spooled, *wire.Receipt) error // as Published
}

// Uploader sends batches. Run and Drain must not be called concurrently.
type Uploader struct {
	opt  UploaderOptions
	wake chan struct{}

	// Only Run and Drain use these.
	targets     []config.TargetState
	batches     map[wire.BatchID]*progress // that were tried
	sending     wire.BatchID               // see State
	to          string
	since, next time.Time

	shown       atomic.Pointer[State] // the above
	from, moved atomic.Int64          // see State
}

// progress is the state of a batch. It is not stored: a new uploader asks for the receipt first.
type progress struct {
	known   wire.State // see BatchState
	failed  string     // the last failure since the last success
	due     time.Time
	receipt retry   // of asking for the receipt
	at      []retry // of the batch, by target
	resent  int     // number of times it was sent again because it arrived damaged
}

// retry counts successive failures and has the time of the next try.
type retry struct {
	failures int
	due      time.Time
}

// NewUploader returns an uploader, which sends nothing before Run or Drain.
func NewUploader(opt UploaderOptions) *Uploader {
	opt.Poll = cmp.Or(opt.Poll, time.Minute)
	opt.BackOff = cmp.Or(opt.BackOff, 10*time.Second)
	opt.BackOffMax = cmp.Or(opt.BackOffMax, time.Hour)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	u := &Uploader{opt: opt, wake: make(chan struct{}, 1), batches: make(map[wire.BatchID]*progress)}
	for _, t := range opt.Targets {
		u.targets = append(u.targets, config.TargetState{Name: t.Name()})
	}
	u.show()
	return u
}

// Wake makes Run look into the spool at once.
func (u *Uploader) Wake() {
	loop.Offer(u.wake, struct{}{})
}

// Run sends batches until ctx ends. It returns only errors of the spool, of Published and of
// Quarantined; after any other error it tries again.
func (u *Uploader) Run(ctx context.Context) error {
	for {
		_, next, err := u.round(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		u.sleep(ctx, next)
	}
}

// Drain sends batches until the spool is empty. If ctx ends before that, it returns an error.
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
	u.next = until
	u.show()
	loop.Wait(ctx, time.Until(until), u.wake)
}

// round performs one step of every batch that is due. It returns how many batches are left, and the
// time when the next one is due.
func (u *Uploader) round(ctx context.Context) (left int, next time.Time, err error) {
	batches, err := u.opt.Spool.Spool()
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("upload: %w", err)
	}
	next = time.Now().Add(u.opt.BackOffMax)
	for _, b := range batches {
		p := u.batches[b.ID]
		if p == nil {
			p = &progress{at: make([]retry, len(u.opt.Targets))}
			u.batches[b.ID] = p
		}
		if !p.due.After(time.Now()) {
			gone, err := u.step(ctx, b, p)
			if err != nil {
				return 0, time.Time{}, fmt.Errorf("upload of %s: %w", b.ID, err)
			}
			if gone {
				delete(u.batches, b.ID)
			}
			u.show()
			if gone {
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

// jitter extends d by up to a quarter, so that robots that were refused together do not come back
// together.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/4+1))
}
