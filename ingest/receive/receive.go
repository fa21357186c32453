// Package receive takes batches from robots: over HTTP by tus 1.0, over FTP by
// STOR and APPE. Both keep the bytes in one store of uploads that promises the
// same to both:
//
//   - An offset that is told to a robot is durable: the bytes below it survive a
//     loss of power. An upload goes on from there, after any break, for as long
//     as the robot likes to take.
//   - Nothing is complete because a connection ended well. An upload is complete
//     when the signed manifest, which comes last, says so; accept.Acceptor is the
//     one judge of that, whichever way the manifest came.
//   - Declared bytes are reserved before the first one is taken.
//
// An upload's name is its batch's ID, with the protocol where that is FTP. A
// robot that has forgotten everything asks HEAD for the batch's upload and learns
// how much is kept; a POST starts it afresh.
package receive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"sheaf/ingest/accept"
	"sheaf/ingest/space"
	"sheaf/ingest/verify"
	"sheaf/internal/guesses"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
)

// Robots checks credentials. It returns wire.ErrUnauthorized if they are wrong; any other error means that
// this cannot be known now.
type Robots interface {
	Authenticate(ctx context.Context, robot, secret string) error
}

// Batches takes whole batches over. *accept.Acceptor is one.
type Batches interface {
	Accept(ctx context.Context, up accept.Upload, signed []byte) (receipt *wire.Receipt, fresh bool, err error)
	Receipt(ctx context.Context, id wire.BatchID) (*wire.Receipt, error)
	ReceiptFor(ctx context.Context, id wire.BatchID, sha256 string) (*wire.Receipt, error)
	Sign(r *wire.Receipt) ([]byte, error)
	Infer(ctx context.Context, up accept.Upload) (*accept.Found, error)
	AcceptInferred(ctx context.Context, up accept.Upload, m *wire.Manifest) (fresh bool, err error)
	QuarantineFile(ctx context.Context, up accept.Upload, r *verify.Refusal) error
	Unsplit(ctx context.Context) (bytes int64, err error)
}

// Transfers is told of every upload. *transfers.Log is one.
type Transfers interface {
	Record(ctx context.Context, t transfers.Transfer) error
}

// Options says what a Receiver works with.
type Options struct {
	Dir       string // of the buffers, the same as ingest's: files are moved, not copied
	Shared    bool   // other processes receive into Dir too: each keeps its uploads to itself until they are batches
	Batches   Batches
	Robots    Robots
	Transfers Transfers          // may be nil
	Running   *transfers.Running // is told of uploads under way; may be nil
	Guesses   *guesses.Limiter   // bounds how often secrets are guessed at; nil: one of its own
	Log       *slog.Logger

	Disks []space.Disk  // to be kept from filling up; nil: the one that holds Dir, as if the store were elsewhere
	Marks space.Marks   // of those; zero: the usual ones
	Again time.Duration // after how long one whose batch has no room shall come again, and up to three times that; 0 is a minute
	Keep  time.Duration // how long an upload that nobody goes on with is kept; 0 is 14 days
	Yield time.Duration // after how long without a byte it makes way for others where room is short; 0 is 6 hours
	Stall time.Duration // how long an HTTP upload may stand still before its connection is closed; 0 is a minute

	// A file that came by FTP and stands still for Quiet is taken without a
	// manifest where it is a whole batch; 0: never, and only batches' names are
	// allowed. One that is cut off is put into the quarantine after CutOff (0 is a
	// day), unless it has a batch's name: that is kept for its robot like any upload.
	Quiet, CutOff time.Duration

	Least  int64         // bytes a second that a sender has to bring on an average of Window, or is let go; 0: any
	Window time.Duration // 0 is 5 minutes

	// Boundary is as ingest.Options has it, with the names that Boundaries gives.
	Boundary func(write, when string)
}

// Receiver receives uploads; its handlers may run at once.
type Receiver struct {
	opt     Options
	log     *slog.Logger
	uploads *uploads
}

// New opens the uploads in opt.Dir and sweeps away what no robot will go on with.
func New(ctx context.Context, opt Options) (*Receiver, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Disks == nil {
		var err error
		if opt.Disks, err = space.Disks(opt.Dir, ""); err != nil {
			return nil, fmt.Errorf("receive: %w", err)
		}
	}
	if opt.Guesses == nil {
		opt.Guesses = guesses.New(opt.Log)
	}
	orElse(&opt.Again, time.Minute)
	orElse(&opt.Keep, 14*24*time.Hour)
	orElse(&opt.Yield, 6*time.Hour)
	orElse(&opt.Stall, time.Minute)
	orElse(&opt.CutOff, 24*time.Hour)
	orElse(&opt.Window, 5*time.Minute)
	if opt.Boundary == nil {
		opt.Boundary = func(string, string) {}
	}
	dir, lock := filepath.Join(opt.Dir, "receive"), (*os.File)(nil)
	if opt.Shared {
		var err error
		if dir, lock, err = ownDir(opt.Dir); err != nil {
			return nil, fmt.Errorf("receive: uploads in %s: %w", opt.Dir, err)
		}
	}
	up := &uploads{
		dir: dir, lock: lock, log: opt.Log, boundary: opt.Boundary, yield: opt.Yield, pace: pace{opt.Least, opt.Window},
		guard: space.NewGuard(opt.Disks, opt.Marks, opt.Again, func() (int64, error) { return opt.Batches.Unsplit(context.WithoutCancel(ctx)) }),
		open:  make(map[string]*upload),
	}
	r := &Receiver{opt: opt, log: opt.Log, uploads: up}
	stale := func(u status) (bool, error) {
		receipt, err := opt.Batches.Receipt(ctx, u.Batch)
		taken := receipt != nil && receipt.Reason != wire.ReasonSHAMismatch // such a one may come again
		return taken || time.Since(u.Touched) > opt.Keep, err
	}
	if err := up.prepare(stale); err != nil {
		return nil, fmt.Errorf("receive: uploads in %s: %w", up.dir, err)
	}
	return r, nil
}

// login reports whether a robot's secret is right, within the bounds for those who guess: it fails
// with *guesses.TooMany. An error means that it cannot be known now.
func (r *Receiver) login(ctx context.Context, robot, secret, remote string) (bool, error) {
	try := guesses.Try{Realm: guesses.Robot, Name: robot, Secret: secret, Remote: remote}
	return r.opt.Guesses.Check(ctx, try, func(ctx context.Context) (bool, error) {
		err := r.opt.Robots.Authenticate(ctx, robot, secret)
		if errors.Is(err, wire.ErrUnauthorized) {
			return false, nil
		}
		return err == nil, err
	})
}

func orElse(d *time.Duration, def time.Duration) {
	if *d <= 0 {
		*d = def
	}
}

// Run takes batches that get no manifest and clears away, now and then, what no
// robot goes on with, until ctx ends.
func (r *Receiver) Run(ctx context.Context) error {
	hour := time.NewTicker(time.Hour)
	defer hour.Stop()
	var look <-chan time.Time
	if r.opt.Quiet > 0 {
		often := time.NewTicker(min(max(r.opt.Quiet/20, 50*time.Millisecond), 30*time.Second))
		defer often.Stop()
		look = often.C
	}
	r.uploads.expire(time.Now().Add(-r.opt.Keep))
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hour.C:
			r.uploads.expire(time.Now().Add(-r.opt.Keep))
		case <-look:
			r.takeQuiet(ctx)
		}
	}
}

// accept hands the upload with its manifest to ingest, and gives the signed
// receipt. What ingest does not take and has no use for is dropped.
func (r *Receiver) accept(ctx context.Context, robot, protocol string, id wire.BatchID, signed []byte) (receipt []byte, fresh bool, err error) {
	name := uploadName(id, protocol)
	u, err := r.uploads.get(name)
	if err != nil && !errors.Is(err, errNoUpload) {
		return nil, false, err
	}
	up := accept.Upload{Batch: id, Robot: robot, Protocol: protocol}
	if u != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		if err := u.settle(); err != nil {
			return nil, false, err
		}
		up.Path = u.path()
	}
	rec, fresh, err := r.opt.Batches.Accept(ctx, up, signed)
	var refusal *verify.Refusal
	if u != nil && (err == nil || errors.As(err, &refusal)) {
		if err := r.uploads.forget(u); err != nil {
			r.log.Error("an upload that was accepted or refused cannot be cleared away; the next start does", "upload", name, "err", err)
		}
	}
	if err != nil {
		return nil, false, err
	}
	receipt, err = r.opt.Batches.Sign(rec)
	return receipt, fresh, err
}

// receipt gives the signed receipt of the batch with the given digest, or with any
// where it is empty; nil where none came whole.
func (r *Receiver) receipt(ctx context.Context, id wire.BatchID, sha256 string) ([]byte, error) {
	rec, err := r.opt.Batches.ReceiptFor(ctx, id, sha256)
	if rec == nil || err != nil {
		return nil, err
	}
	return r.opt.Batches.Sign(rec)
}

// record notes an upload. That the note fails is no reason to fail the upload.
func (r *Receiver) record(ctx context.Context, t transfers.Transfer) {
	if r.opt.Transfers == nil {
		return
	}
	t.Direction, t.At = transfers.Upload, time.Now().Add(-t.Took)
	if err := r.opt.Transfers.Record(context.WithoutCancel(ctx), t); err != nil {
		r.log.Error("transfer is not recorded", "who", t.Who, "name", t.Name, "bytes", t.Bytes, "err", err)
	}
}

// begun lists an upload as under way until ended is called.
func (r *Receiver) begun(t transfers.Transfer, moved func() int64) (ended func()) {
	t.Direction, t.At = transfers.Upload, time.Now()
	return r.opt.Running.Begin(t, moved)
}

// Protocols, as transfers and ledger name them.
const (
	overHTTP = "http"
	overFTP  = "ftp"
)

// uploadName is the name of a batch's upload by a protocol.
func uploadName(id wire.BatchID, protocol string) string {
	if protocol == overFTP {
		return string(id) + ".ftp"
	}
	return string(id)
}

// Stopped says why new uploads have to wait for room on a disk; it is empty where they do not.
func (r *Receiver) Stopped() (string, error) { return r.uploads.guard.Stopped() }
