// Package ingest takes batches from the moment they are whole to the moment
// readers see them. A batch goes through the four buffers of the 1999
// distributor, kept as states of one row:
//
//		received ─▶ pre-split ─▶ post-split ─▶ published
//		                └──▶ quarantined
//
//	  - Accept: the signed manifest arrives last. The batch file is moved under its
//	    final name and one SQL statement makes the batch received.
//	  - The split reads the batch once: every host's range goes through the
//	    verifier and, by the same bytes, into the object store with a new end
//	    member. Nothing is deflated; memory does not grow with the batch. Hosts
//	    below a size share objects, if a setting says so: see Packs.
//	  - Publishing appends one catalog version for all batches that wait, when the
//	    publish window is open.
//
// Every step can be done again, and several processes may do them: a batch is
// split under a lease. A state moves by compare-and-set with a fencing
// token, so of two workers on one batch one loses and changes nothing; what an
// attempt stores is named by its number, so no two attempts share an object.
// Inputs are deleted by collection, never by the step that used them. After
// kill -9 anywhere New and Run carry on by the code that always runs.
//
// A batch with anything wrong is quarantined whole, with a reason, and the next
// one goes on. What its split had stored is referred to by nothing and falls to
// the store's collection.
package ingest

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/ingest/foreign"
	"sheaf/internal/lease"
	"sheaf/internal/window"
	"sheaf/internal/wire"

	"golang.org/x/sync/errgroup"
)

// Robots answers what ingest asks about the robots. All may be asked at once
// from many goroutines; an error is taken as passing, and the question repeated.
type Robots interface {
	// RobotKey gives the key that the robot signs manifests with.
	RobotKey(ctx context.Context, robot string) (ed25519.PublicKey, error)
	// NotAssigned gives those of the hosts that were not the robot's in the
	// assignment's given generation.
	NotAssigned(ctx context.Context, robot string, generation int64, hosts []string) ([]string, error)
	// CurrentGeneration gives the number of the assignment that holds now.
	CurrentGeneration(ctx context.Context) (int64, error)
}

// Options says what an Ingest works with.
type Options struct {
	DB      *sql.DB // with the ingest tables
	Dir     string  // of the buffers; on one file system
	Store   store.Store
	Catalog *catalog.Catalog
	Robots  Robots
	Key     ed25519.PrivateKey // signs receipts
	Window  *window.Schedule   // when to publish; nil is always
	Zone    *time.Location     // of the crawl days in object names; nil is UTC
	Log     *slog.Logger
	Limits  Limits
	Packs   Packs

	ForeignHosts  foreign.HostMap // the hosts of the directories in foreign trees that robots upload
	ForeignLimits foreign.Limits  // of every foreign file

	Leases  lease.Locker     // of the publisher; by DB if nil
	Now     func() time.Time // the clock that states are dated and the window is asked by; time.Now if nil
	Observe func(Move)       // told of every move between states, for metrics; may be nil

	// Boundary, where it is set, is called before and after each durable write
	// with one of Boundaries and "before" or "after": a fault test dies in it.
	Boundary func(write, when string)
}

// Limits are the settings with defaults. A zero value takes the default.
type Limits struct {
	Splitters  int           // batches split at once; 2
	Poll       time.Duration // how long work may lie unnoticed where nothing wakes the loops; 5 s
	Lease      time.Duration // how long a batch stays with a process that no longer says that it is splitting it; 1 min
	BackoffMin time.Duration // after a first failure that may pass by itself; 1 s
	BackoffMax time.Duration // 5 min
	ClockSkew  time.Duration // how far ahead of ours a robot's clock may be; 1 h
	MaxRatio   int64         // of inflated to stored bytes in a host's part; the verifier's default
	Grace      int64         // of inflated bytes beyond MaxRatio; the verifier's default
	MaxBody    int64         // of one page, inflated; the verifier's default
	KeepInputs time.Duration // how long a published batch's file stays in the buffers; 0 is until the next collection
}

func (l *Limits) fill() {
	orElse := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	if l.Splitters <= 0 {
		l.Splitters = 2
	}
	orElse(&l.Poll, 5*time.Second)
	orElse(&l.Lease, time.Minute)
	orElse(&l.BackoffMin, time.Second)
	orElse(&l.BackoffMax, 5*time.Minute)
	orElse(&l.ClockSkew, time.Hour)
}

// Move is one batch's step from a state to the next.
type Move struct {
	Batch    wire.BatchID
	Robot    string
	From, To wire.State // From is empty for a batch that was accepted
	Reason   wire.Reason
	Bytes    int64
	Took     time.Duration // spent in From
}

// Ingest drives batches through their states. Its methods may be called at once.
type Ingest struct {
	opt     Options
	log     *slog.Logger
	ledger  *ledger
	buffers buffers

	splitWake, publishWake, collectWake chan struct{}

	presence  *lease.Presence
	accepting gate // held while a batch is placed and entered, so that of two uploads of one batch the second sees the first
	deciding  gate // held while a batch goes into the quarantine or out of it

	urgent     atomic.Bool // an express batch may wait to be published
	urgentSeen time.Time   // when the loop that publishes looked for one last
}

// New prepares the buffers in opt.Dir, finishes what a crash has left half done
// there, and gives an Ingest that is to be Run.
func New(ctx context.Context, opt Options) (*Ingest, error) {
	opt.Limits.fill()
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Zone == nil {
		opt.Zone = time.UTC
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Observe == nil {
		opt.Observe = func(Move) {}
	}
	if opt.Boundary == nil {
		opt.Boundary = func(string, string) {}
	}
	if opt.Packs.Size <= 0 {
		opt.Packs.Size = defaultPackSize
	}
	i := &Ingest{
		opt:         opt,
		log:         opt.Log,
		ledger:      &ledger{db: opt.DB},
		buffers:     buffers{dir: opt.Dir},
		splitWake:   make(chan struct{}, 1),
		publishWake: make(chan struct{}, 1),
		collectWake: make(chan struct{}, 1),
	}
	if err := i.enter(ctx); err != nil {
		return nil, fmt.Errorf("ingest: buffers in %s: %w", opt.Dir, err)
	}
	if err := i.recover(ctx); err != nil {
		return nil, fmt.Errorf("ingest: recover %s: %w", opt.Dir, err)
	}
	return i, nil
}

// enter prepares the buffers, takes a place among the processes that are at work
// on them, and frees what was leased to those that no longer are.
func (i *Ingest) enter(ctx context.Context) error {
	if err := errors.Join(i.buffers.prepare(), i.buffers.sweepConverting(i.opt.Now())); err != nil {
		return err
	}
	for name, g := range map[string]*gate{"accepting": &i.accepting, "deciding": &i.deciding} {
		f, err := os.OpenFile(filepath.Join(i.opt.Dir, name), os.O_RDWR|os.O_CREATE, 0o640)
		if err != nil {
			return err
		}
		g.f = f
	}
	p, err := lease.Appear(filepath.Join(i.opt.Dir, "processes"))
	if err != nil {
		return err
	}
	i.presence = p
	if i.opt.Leases == nil {
		i.opt.Leases = lease.NewDB(i.opt.DB, p, lease.Options{Log: i.log})
	}
	_, err = i.ledger.freeDead(ctx, p)
	return err
}

// Dir is the directory of the buffers.
func (i *Ingest) Dir() string { return i.opt.Dir }

// Run splits, publishes and collects until ctx ends; it then returns nil when
// the steps under way have stopped. What they leave is taken up by the next Run.
func (i *Ingest) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range i.opt.Limits.Splitters {
		g.Go(func() error { return i.loop(ctx, i.splitWake, i.splitNext) })
	}
	g.Go(func() error { return i.loop(ctx, i.publishWake, i.publishDue) })
	g.Go(func() error { return i.loop(ctx, i.collectWake, i.collect) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("ingest: %w", err)
	}
	return nil
}

// loop calls step again at once while it did something, else when woken or
// after the poll interval. A step's error has been dealt with where it matters
// to one batch; here it is logged and backed off from.
func (i *Ingest) loop(ctx context.Context, wake <-chan struct{}, step func(context.Context) (bool, error)) error {
	for failures := 0; ; {
		did, err := step(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			failures++
			i.log.Error("ingest: a step failed and will be repeated", "failures", failures, "err", err)
		default:
			failures = 0
		}
		if did && err == nil {
			continue
		}
		wait, hear := i.opt.Limits.Poll, wake
		if err != nil {
			wait, hear = min(i.opt.Limits.backoff(failures), longestPause), nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hear:
		case <-time.After(wait):
		}
	}
}

// longestPause is the longest time between two tries of a step: what stops all batches, as
// a database that is away does, is not to hold them up for long once it is back.
const longestPause = 10 * time.Second

// backoff is how long to wait after so many failures in a row: doubled each
// time, and spread so that those who failed together do not return together.
func (l *Limits) backoff(failures int) time.Duration {
	wait := l.BackoffMax
	if shift := failures - 1; shift < 30 && l.BackoffMin<<shift < wait {
		wait = l.BackoffMin << shift
	}
	return wait/2 + mathrand.N(wait/2+1)
}

// wake tells a loop that there is work; it never blocks.
func wake(loop chan<- struct{}) {
	select {
	case loop <- struct{}{}:
	default: // told already
	}
}

// write performs one durable write between its two boundaries.
func (i *Ingest) write(name string, f func() error) error {
	i.opt.Boundary(name, "before")
	err := f()
	i.opt.Boundary(name, "after")
	return err
}

// Boundaries names the durable writes of a batch's way in their order: what a
// fault test has to die before and after, each.
func Boundaries() []string {
	return []string{
		writePlace, writeEnter,
		writeClaim, writeStage, writeStaged, writeSplit,
		writeManifest, writePublish, writePublished,
		writeCollect, writeCollected,
		writeQuarantine, writeMoveAside, writeFailure, writeKeep,
	}
}

const (
	writePlace      = "place"      // the batch file and its manifest under their final names
	writeEnter      = "enter"      // the row: received
	writeClaim      = "claim"      // the row: pre-split, a new attempt, token and lease; then the lease's end, put off or given up
	writeStage      = "stage"      // one object in the store: a host's segment, or a pack of several
	writeStaged     = "staged"     // some hosts' catalog lines in the database
	writeSplit      = "split"      // the row: post-split
	writeManifest   = "manifest"   // the signed manifest in the store
	writePublish    = "publish"    // the catalog's new version
	writePublished  = "published"  // the rows: published
	writeCollect    = "collect"    // a published batch's file deleted
	writeCollected  = "collected"  // the row: collected, its lines dropped
	writeQuarantine = "quarantine" // the row: quarantined
	writeMoveAside  = "move-aside" // the batch's directory moved to the quarantine
	writeFailure    = "failure"    // the row: back-off
	writeKeep       = "keep"       // the row of a file without manifest: quarantined, though the file has yet to follow
)
