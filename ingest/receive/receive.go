// Package receive takes batches from robots: over HTTP by tus 1.0, and over FTP by STOR and APPE.
// Both keep the bytes in one store of uploads, with the same promises:
//
//   - An offset that a robot has been told is durable: the bytes below it survive a loss of power.
//     The robot may continue from there after any break, however long.
//   - The good end of a connection does not make an upload complete. Its signed manifest, which
//     comes last, does. accept.Acceptor decides this for both protocols.
//   - The declared size is reserved on the disk before the first byte is accepted.
//
// An upload is named after its batch's ID and, over FTP, the protocol. A robot that has forgotten
// everything asks with HEAD how much of a batch is kept. A POST starts it afresh.
package receive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/ingest/accept"
	"sheaf/ingest/inbox"
	"sheaf/internal/files"
	"sheaf/internal/loop"
	"sheaf/internal/passwords"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
)

// Robots checks credentials. It returns wire.ErrUnauthorized if they are wrong. Any other error
// means that they cannot be checked now.
type Robots interface {
	Authenticate(ctx context.Context, robot, secret string) error
}

// Transfers records uploads, as *transfers.Log does.
type Transfers interface {
	Record(ctx context.Context, t transfers.Transfer) error
}

// Options of a Receiver. Dir, Batches and Robots are required.
type Options struct {
	Dir       string // the buffers, the same as ingest's: files are moved, not copied
	Shared    bool   // other processes receive into Dir too; each has a directory of its own for uploads
	Batches   *accept.Acceptor
	Robots    Robots
	Transfers Transfers          // may be nil
	Running   *transfers.Running // lists uploads under way; may be nil
	Guesses   *passwords.Limiter // limits guesses of secrets; nil: one of its own
	Log       *slog.Logger       // nil: discarded

	// Refused is called when a robot is turned away because there is no room for what it sends, or
	// because it has had its share. nil: nobody is told.
	Refused func(ctx context.Context, robot, why string)

	Disks        []inbox.Disk  // disks that must not fill up; nil: the one that holds Dir, as if the store were elsewhere
	Marks        inbox.Marks   // fill levels of the disks; zero: inbox's defaults
	RetryAfter   time.Duration // a robot without room tries again after one to three times this; 0 is a minute
	AbandonAfter time.Duration // an upload without progress is deleted after this time; 0 is 14 days
	YieldAfter   time.Duration // AbandonAfter while room is short; 0 is 6 hours
	Stall        time.Duration // an HTTP upload without progress is disconnected after this time; 0 is a minute

	// If Quiet is set, files may come by FTP without a manifest and under any name. A file that has
	// not grown for Quiet is accepted if it is a whole batch. An incomplete file is put into the
	// quarantine after CutOff (0 is a day). But with the name of a batch it is kept for its robot,
	// as any upload is.
	Quiet, CutOff time.Duration

	// A sender that is slower than Least bytes a second, on an average of Window, is disconnected.
	Least  int64         // 0: any rate is allowed
	Window time.Duration // 0 is 5 minutes

	// Stopping is closed when the service begins to stop: uploads over HTTP end then, keep the
	// bytes that have come, and go on later. nil: uploads do not end.
	Stopping <-chan struct{}

	// Boundary is as in ingest.Options, with the names that Boundaries returns.
	Boundary files.Boundary
}

// Receiver receives uploads. Its handlers may be used concurrently.
type Receiver struct {
	opt     Options
	log     *slog.Logger
	uploads *uploads
	large   *largeOnes
}

// New opens the uploads in opt.Dir and deletes uploads that no robot will continue.
func New(ctx context.Context, opt Options) (*Receiver, error) {
	if opt.Disks == nil {
		var err error
		if opt.Disks, err = inbox.Disks(opt.Dir, ""); err != nil {
			return nil, fmt.Errorf("receive: %w", err)
		}
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.Guesses == nil {
		opt.Guesses = passwords.NewLimiter(opt.Log)
	}
	opt.RetryAfter = cmp.Or(opt.RetryAfter, time.Minute)
	opt.AbandonAfter = cmp.Or(opt.AbandonAfter, 14*24*time.Hour)
	opt.YieldAfter = cmp.Or(opt.YieldAfter, 6*time.Hour)
	opt.Stall = cmp.Or(opt.Stall, time.Minute)
	opt.CutOff = cmp.Or(opt.CutOff, 24*time.Hour)
	opt.Window = cmp.Or(opt.Window, 5*time.Minute)
	if opt.Refused == nil {
		opt.Refused = func(context.Context, string, string) {}
	}
	dir, lock := filepath.Join(opt.Dir, "receive"), (*os.File)(nil)
	if opt.Shared {
		var err error
		if dir, lock, err = ownDir(opt.Dir); err != nil {
			return nil, fmt.Errorf("receive: uploads in %s: %w", opt.Dir, err)
		}
	}
	unsplit := func() (int64, error) { return opt.Batches.Unsplit(context.WithoutCancel(ctx)) }
	up := &uploads{
		dir: dir, lock: lock, log: opt.Log, boundary: opt.Boundary, yieldAfter: opt.YieldAfter, pace: pace{opt.Least, opt.Window},
		guard: inbox.NewGuard(opt.Disks, opt.Marks, opt.RetryAfter, unsplit), byName: make(map[string]*upload),
	}
	stale := func(u status) (bool, error) {
		receipt, err := opt.Batches.Receipt(ctx, u.Batch)
		// A damaged batch may come again. Its upload then is newer than the receipt that found the
		// damage.
		taken := receipt != nil && (receipt.Reason != wire.ReasonSHAMismatch || u.Touched.Before(receipt.At))
		return taken || time.Since(u.Touched) > opt.AbandonAfter, err
	}
	if err := up.prepare(stale); err != nil {
		return nil, fmt.Errorf("receive: uploads in %s: %w", up.dir, err)
	}
	return &Receiver{opt: opt, log: opt.Log, uploads: up, large: newLargeOnes()}, nil
}

// Stopped returns why new uploads must wait for room on a disk, or "" if they need not wait.
func (r *Receiver) Stopped() (string, error) { return r.uploads.guard.Stopped() }

// Run accepts batches without manifest, and deletes uploads that no robot continues, until ctx
// ends.
func (r *Receiver) Run(ctx context.Context) error {
	look := time.Hour
	if r.opt.Quiet > 0 {
		look = min(max(r.opt.Quiet/20, 50*time.Millisecond), 30*time.Second)
	}
	for expired := (time.Time{}); ; {
		if now := time.Now(); now.Sub(expired) >= time.Hour {
			r.uploads.expire(now.Add(-r.opt.AbandonAfter))
			expired = now
		}
		if !loop.Pause(ctx, look) {
			return nil
		}
		if r.opt.Quiet > 0 {
			r.acceptQuiet(ctx)
		}
	}
}

// login reports whether a robot's secret is right. It fails with *passwords.TooMany after too many
// guesses. Any other error means that the secret cannot be checked now.
func (r *Receiver) login(ctx context.Context, robot, secret, remote string) (bool, error) {
	try := passwords.Try{Realm: passwords.Robot, Name: robot, Secret: secret, Remote: remote}
	return r.opt.Guesses.Check(ctx, try, func(ctx context.Context) (bool, error) {
		err := r.opt.Robots.Authenticate(ctx, robot, secret)
		if errors.Is(err, wire.ErrUnauthorized) {
			return false, nil
		}
		return err == nil, err
	})
}

// accept passes the upload with its manifest to the acceptor and returns the signed receipt. Then
// it deletes the upload, unless the robot can still continue it.
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
	if _, ok := errors.AsType[*inbox.Refusal](err); u != nil && (err == nil || ok) {
		if err := r.uploads.remove(u); err != nil {
			r.log.ErrorContext(ctx, "an upload that was accepted or refused cannot be deleted; the next start does", "upload", name, "err", err)
		}
	}
	if err != nil {
		return nil, false, err
	}
	receipt, err = r.opt.Batches.Sign(ctx, rec)
	return receipt, fresh, err
}

// receipt returns the signed receipt for the bytes with the given digest. Without a digest it
// returns the batch's receipt. It returns nil if there is no such receipt.
func (r *Receiver) receipt(ctx context.Context, id wire.BatchID, sha256 string) ([]byte, error) {
	rec, err := r.opt.Batches.ReceiptFor(ctx, id, sha256)
	if rec == nil || err != nil {
		return nil, err
	}
	return r.opt.Batches.Sign(ctx, rec)
}

// record writes an upload to the log of transfers. An error is only logged.
func (r *Receiver) record(ctx context.Context, t transfers.Transfer) {
	if r.opt.Transfers == nil {
		return
	}
	t.Direction, t.At = transfers.Upload, time.Now().Add(-t.Took)
	if err := r.opt.Transfers.Record(context.WithoutCancel(ctx), t); err != nil {
		r.log.ErrorContext(ctx, "transfer is not recorded", "robot", t.Who, "upload", t.Name, "bytes", t.Bytes, "err", err)
	}
}

// begun lists an upload as under way until ended is called.
func (r *Receiver) begun(t transfers.Transfer, moved func() int64) (ended func()) {
	t.Direction, t.At = transfers.Upload, time.Now()
	return r.opt.Running.Begin(t, moved)
}

// A manifest of more than largeManifest bytes is read and checked only while its robot sends no
// other large manifest, and at most largeAtOnce are read at once. So manifests take bounded memory,
// and one robot cannot block the others.
const (
	largeManifest = 1 << 20
	largeAtOnce   = 2
)

// errBusy says that the robot is sending another large manifest at the same time.
var errBusy = errors.New("another large manifest of this robot is being read; send one after the other")

// turnedAway returns err, but *inbox.Full for the error of a full disk. If there is no room or no
// turn for the robot now, it calls Options.Refused.
func (r *Receiver) turnedAway(ctx context.Context, robot string, err error) error {
	err = r.uploads.guard.NoSpace(err)
	if _, ok := errors.AsType[*inbox.Full](err); ok || errors.Is(err, errBusy) {
		r.opt.Refused(ctx, robot, err.Error())
	}
	return err
}

// largeOnes are the large manifests under way.
type largeOnes struct {
	places chan struct{} // has an element for each

	mu     sync.Mutex      // guards robots
	robots map[string]bool // robots that send one, or wait for a place
}

func newLargeOnes() *largeOnes {
	return &largeOnes{places: make(chan struct{}, largeAtOnce), robots: make(map[string]bool)}
}

// enter waits for a place. The caller must call leave after reading its manifest. enter returns
// errBusy if the robot has another manifest under way.
func (l *largeOnes) enter(ctx context.Context, robot string) (leave func(), err error) {
	l.mu.Lock()
	busy := l.robots[robot]
	l.robots[robot] = true
	l.mu.Unlock()
	if busy {
		return nil, errBusy
	}
	gone := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.robots, robot)
	}
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
	return func() { <-l.places; gone() }, nil
}

// ownDir locks and returns the first of the directories receive, receive-1, … that no other process
// uses. The lock lasts until the process ends. So a process that starts later finds and continues
// the uploads of a process that has died.
func ownDir(buffers string) (dir string, lock *os.File, err error) {
	for n := 0; ; n++ {
		dir = filepath.Join(buffers, "receive")
		if n > 0 {
			dir += fmt.Sprint("-", n)
		}
		if err := files.MkdirAll(dir, 0o750); err != nil {
			return "", nil, err
		}
		lock, err := os.Open(dir)
		if err != nil {
			return "", nil, err
		}
		err = files.TryLock(lock)
		if err == nil {
			return dir, lock, nil
		}
		if closing := lock.Close(); closing != nil || !errors.Is(err, unix.EWOULDBLOCK) {
			return "", nil, errors.Join(err, closing)
		}
	}
}
