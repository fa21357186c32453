package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
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

// ErrUnknown says that the service does not have a batch.
var ErrUnknown = errors.New("the service does not have the batch")

// LaterError says how long the service wants the robot to wait.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return fmt.Sprintf("%v; again in %v", e.Err, e.After) }
func (e *LaterError) Unwrap() error { return e.Err }

// DownError says that a target cannot be used now, for any batch: it cannot be reached, or refuses
// all robots or this one.
type DownError struct{ Err error }

func (e *DownError) Error() string { return e.Err.Error() }
func (e *DownError) Unwrap() error { return e.Err }

// RefusedError says that the service refuses a batch, in an answer without a signature. The receipt
// decides; only a batch that is too large gets no receipt.
type RefusedError struct {
	Reason wire.Reason
	Err    error
}

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// refusal returns an answer's reason if a service refuses a batch at once for it, and otherwise
// false: the other reasons only come with the receipt.
func refusal(reason string) (wire.Reason, bool) {
	switch r := wire.Reason(reason); r {
	case wire.ReasonIDReuse, wire.ReasonBadSignature, wire.ReasonTooLarge:
		return r, true
	}
	return "", false
}

// State is the uploader's progress, for display.
type State struct {
	Sending wire.BatchID // the batch that is being sent; empty: none
	To      string       // name of its target
	Since   time.Time    // start of this try
	From    int64        // bytes that the service had at the start, if known
	Moved   int64        // bytes that the service had or that were sent since
	Next    time.Time    // when the uploader looks into the spool again, unless a batch comes before
	Targets []config.TargetState
	Batches map[wire.BatchID]BatchState // batches in the spool that were tried
}

// BatchState says what a batch waits for.
type BatchState struct {
	Known wire.State // state at the service; empty: the service does not have the batch
	Error string     // last failure since the last success
	Next  time.Time  // time of the next step
}

// show makes State return what the uploader does now.
func (u *Uploader) show() {
	s := &State{Sending: u.sending, To: u.to, Since: u.since, Next: u.next, Targets: slices.Clone(u.targets), Batches: make(map[wire.BatchID]BatchState)}
	for id, p := range u.batches {
		s.Batches[id] = BatchState{Known: p.known, Error: p.failed, Next: p.due}
	}
	u.shown.Store(s)
}

// State returns the uploader's progress, which the caller must not change. It may be called
// concurrently with all other methods.
func (u *Uploader) State() State {
	s := *u.shown.Load()
	if s.Sending != "" {
		s.From, s.Moved = u.from.Load(), u.moved.Load()
	}
	return s
}

// Moved records the position in the batch that is being sent, in bytes. Targets call it while they
// send. first says that a try begins there.
func (u *Uploader) Moved(at int64, first bool) {
	u.moved.Store(at)
	if first {
		u.from.Store(at)
	}
}

// try sends a batch to a target, and notes how that went.
func (u *Uploader) try(ctx context.Context, b Spooled, i int) error {
	to, t := u.opt.Targets[i], &u.targets[i]
	u.from.Store(0)
	u.moved.Store(0)
	u.sending, u.to, u.since = b.ID, to.Name(), time.Now()
	u.show()
	err := to.Send(ctx, b)
	u.sending, u.to = "", ""
	if err == nil {
		t.Failures, t.Again, t.Answered = 0, time.Time{}, time.Now()
	} else {
		t.Error, t.Failed = err.Error(), time.Now()
	}
	u.show()
	return err
}

// movingReader reports how much of a batch has been read. Some of it may still lie in the system's
// buffers.
type movingReader struct {
	io.Reader
	at   int64
	tell func(at int64, first bool)
}

// moving returns a reader that begins at position at and reports its position to tell, which may be
// nil.
func moving(r io.Reader, at int64, tell func(at int64, first bool)) io.Reader {
	if tell == nil {
		return r
	}
	tell(at, true)
	return &movingReader{r, at, tell}
}

func (m *movingReader) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.at += int64(n)
	m.tell(m.at, false)
	return n, err
}
