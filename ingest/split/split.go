// Package split divides received batches into their hosts. Each host's range goes through the
// verifier and, at the same time, into the object store with a new end member. It handles as many
// hosts at once as there are cores. Nothing is compressed again, and memory does not grow with the
// batch. Several processes may split, each batch under a lease.
package split

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/ingest/accept"
	"sheaf/ingest/inbox"
	"sheaf/internal/lease"
	"sheaf/internal/loop"
	"sheaf/internal/wire"
)

// Robots answers a Splitter's questions about the robots that sent batches. It may be used
// concurrently. After an error the Splitter asks again later.
type Robots interface {
	// HeldUntil returns the time until which the robot may have visited each of the hosts, by the
	// robot's clock. It leaves out hosts that the robot never had. The zero time means that the
	// robot may still visit the host.
	HeldUntil(ctx context.Context, robot string, hosts []string) (map[string]time.Time, error)
	// CurrentGeneration returns the number of the present assignment.
	CurrentGeneration(ctx context.Context) (int64, error)
	// StolenSince returns the time since which others may have had the robot's key, or the zero
	// time.
	StolenSince(ctx context.Context, robot string) (time.Time, error)
}

// Options are a Splitter's settings and the parts that it uses.
type Options struct {
	*inbox.Env
	Quarantine *inbox.Quarantine
	Store      store.Store
	Robots     Robots
	Presence   *lease.Presence
	Zone       *time.Location // of the days in objects' names
	Packs      Packs
	Limits     inbox.Limits
	Lease      time.Duration // how long a batch stays with a process that stops renewing its lease
	Backoff    loop.Backoff
	Received   inbox.Bell         // wakes the loops that call Next
	Ready      func(express bool) // called for each batch that has become post-split
}

// Splitter moves batches from received to post-split. Its methods may be called concurrently.
type Splitter struct{ opt Options }

// New returns a Splitter. It works only while Next runs.
func New(opt Options) *Splitter { return &Splitter{opt} }

// Next moves one batch from received to post-split or into the quarantine, or postpones it. If no
// batch is due, it ends leases of dead processes. It reports whether it did anything.
func (s *Splitter) Next(ctx context.Context) (did bool, err error) {
	var b *inbox.Batch
	err = s.opt.Write(inbox.BoundaryClaim, func() error {
		b, err = s.opt.Ledger.Claim(ctx, inbox.Claim{Holder: s.opt.Presence.Name(), Now: s.opt.Now(), Lease: s.opt.Lease, Backoff: s.opt.Backoff.Max})
		return err
	})
	if err == nil && b == nil {
		freed, err := s.opt.Ledger.FreeDead(ctx, s.opt.Presence)
		return freed > 0, err
	}
	if err != nil {
		return false, err
	}
	s.opt.Log.InfoContext(ctx, "splitting batch", "batch", b.Batch, "attempts", b.Attempt)
	start := time.Now()
	held, stop := s.hold(ctx, b)
	err = s.split(held, b)
	stop()
	var refusal *inbox.Refusal
	switch {
	case err == nil:
		s.opt.Log.InfoContext(ctx, "batch split", "batch", b.Batch, "bytes", b.Size, "hosts", b.Hosts, "took", time.Since(start))
		s.opt.Ready(b.Express)
		return true, nil
	case errors.Is(err, inbox.ErrLost) || errors.Is(context.Cause(held), inbox.ErrLost):
		s.opt.Log.WarnContext(ctx, "batch was taken over by another process", "batch", b.Batch, "attempts", b.Attempt)
		return true, nil
	case errors.As(err, &refusal):
		err = s.opt.Quarantine.Put(ctx, b, refusal)
	default:
		err = s.postpone(ctx, b, err)
	}
	if err != nil {
		s.free(ctx, b)
	}
	return true, err
}

// postpone gives a batch back, to be tried again later. Other batches go on meanwhile.
func (s *Splitter) postpone(ctx context.Context, b *inbox.Batch, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err() // not a failure of the batch: the next Run claims it again
	}
	wait := s.opt.Backoff.After(b.Failures + 1)
	s.opt.Log.ErrorContext(ctx, "splitting a batch failed and will be repeated", "batch", b.Batch, "again", wait, "err", cause)
	until := s.opt.Now().Add(wait)
	err := s.opt.Write(inbox.BoundaryFailure, func() error { return s.opt.Ledger.Postpone(ctx, b, until, cause) })
	if errors.Is(err, inbox.ErrLost) {
		return nil
	}
	time.AfterFunc(wait, s.opt.Received.Ring)
	return err
}

// attempt is the state of one attempt to split a batch.
type attempt struct {
	opt    *Options
	batch  *inbox.Batch
	m      *wire.Manifest
	file   *inbox.BatchFile
	atOnce int // hosts verified and stored at once
	plan   *packing
	left   leftOut
	until  map[string]time.Time // by host that the robot has lost: the time up to which its records count
}

// split verifies the batch and stores its hosts. It reads the file twice at the same time: for the
// file's digest, and for the hosts, several at once. A *inbox.Refusal says what is wrong with the
// batch; any other error may be temporary.
func (s *Splitter) split(ctx context.Context, b *inbox.Batch) error {
	m, _, err := s.opt.Manifest(ctx, b)
	if err != nil {
		return err
	}
	until, left, err := s.judge(ctx, b, m)
	if err != nil {
		return err
	}
	f, err := s.opt.Open(ctx, b)
	if err != nil {
		return err
	}
	defer f.Close()
	views, err := accept.Views(ctx, s.opt.Store, b.Batch)
	if err != nil {
		return err
	}
	day := m.Created.In(s.opt.Zone).Format("20060102")
	cores := runtime.GOMAXPROCS(0)
	a := &attempt{
		opt: &s.opt, batch: b, m: m, file: inbox.NewBatchFile(f, m, s.opt.Limits), atOnce: cores, until: until, left: left,
		plan: s.opt.Packs.plan(m, left, func(n int) string { return fmt.Sprintf("packs/%s/%s-%d-%d.tar.gz", day, b.Batch, b.Attempt, n) }),
	}
	if err := a.verify(ctx, views); err != nil {
		return err
	}
	for _, p := range a.plan.packs {
		if err := s.opt.Write(inbox.BoundaryStore, func() error { return s.opt.Store.Put(ctx, p.object, &packReader{batch: f, pack: p}, p.size) }); err != nil {
			return fmt.Errorf("store %s: %w", p.object, err)
		}
	}
	if err := a.addCopies(ctx, f); err != nil {
		return err
	}
	if len(a.left.hosts) > 0 {
		s.opt.Log.WarnContext(ctx, "hosts left out of a batch", "batch", b.Batch, "robot", b.Robot, "hosts", len(a.left.hosts), "detail", a.left.String())
	}
	return s.opt.Write(inbox.BoundarySplit, func() error { return s.opt.Ledger.Split(ctx, b, remarks(a.left, m.Clock), s.opt.Now()) })
}

// remarks returns the detail of a split batch: which hosts are left out, and by how much its
// records' times are wrong. The times cannot be corrected, because the robot has signed them.
func remarks(left leftOut, clock *wire.Clock) string {
	var all []string
	if text := left.String(); text != "" {
		all = append(all, text)
	}
	switch off := clock.Wrong(); {
	case off > 0:
		all = append(all, fmt.Sprintf("the robot's clock was %v ahead: the times of the records are too late by as much", off))
	case off < 0:
		all = append(all, fmt.Sprintf("the robot's clock was %v behind: the times of the records are too early by as much", -off))
	}
	return strings.Join(all, "; ")
}

// verify verifies the batch, and stores the hosts that do not go into packs. others are the views
// of the hosts' records that are no pages. If the file's digest is wrong, verify reports that, and
// not the faults that follow from it.
func (a *attempt) verify(ctx context.Context, others map[string]catalog.View) error {
	reading, ctx := errgroup.WithContext(ctx)
	var digest string
	var size int64
	reading.Go(func() (err error) {
		digest, size, err = a.file.Digest(ctx)
		return err
	})
	var refusal *inbox.Refusal
	reading.Go(func() error {
		if err := a.hosts(ctx, others); !errors.As(err, &refusal) {
			return err
		}
		return nil
	})
	if err := reading.Wait(); err != nil {
		return err
	}
	return a.file.Compare(digest, size, refusal)
}

// Several processes may work on one ledger and one set of batch files. A process holds the batch
// that it splits by a lease: an end time in the batch's row, which the process extends while it is
// at work. After the end time another process may claim the batch. Every claim raises the batch's
// token, which fences off a holder that was only slow.
//
// If a process dies, other processes on the same machine end its leases at once: each process keeps
// a file in the buffers locked as long as it lives (lease.Presence). When a process starts or has
// nothing else to do, it ends the leases of dead ones.

// hold extends b's lease again and again until stop is called. If another process takes the batch,
// held ends with inbox.ErrLost as its cause.
func (s *Splitter) hold(ctx context.Context, b *inbox.Batch) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	var extending sync.WaitGroup
	extending.Go(func() {
		_ = loop.After(held, s.opt.Lease/3, func(ctx context.Context) error {
			err := s.extend(ctx, b, s.opt.Now().Add(s.opt.Lease))
			if errors.Is(err, inbox.ErrLost) {
				cancel(inbox.ErrLost)
			}
			return err
		}, func(err error) {
			s.opt.Log.ErrorContext(ctx, "cannot extend the lease on a batch; once it has passed, another process may take the batch over", "batch", b.Batch, "err", err)
		})
	})
	return held, func() {
		cancel(nil)
		extending.Wait()
	}
}

// free ends the lease on a batch, even if ctx has ended because the service stops.
func (s *Splitter) free(ctx context.Context, b *inbox.Batch) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.extend(ctx, b, time.Time{}); err != nil && !errors.Is(err, inbox.ErrLost) {
		s.opt.Log.WarnContext(ctx, "a batch stays leased until its lease ends", "batch", b.Batch, "err", err)
	}
}

func (s *Splitter) extend(ctx context.Context, b *inbox.Batch, until time.Time) error {
	return s.opt.Write(inbox.BoundaryClaim, func() error { return s.opt.Ledger.Extend(ctx, b, until) })
}
