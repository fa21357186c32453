// Package ingest takes batches from the moment they are whole to the moment readers see them. A
// batch goes through four states, after the four buffers of the distributor of 1999 (paper 001):
//
//		            accept         split          split           publish
//		(receive) ─────────▶ received ─▶ pre-split ─▶ post-split ─────────▶ published
//		                                     └──▶ quarantined
//
//	  - accept: the signed manifest arrives last. The batch file gets its final name, and one
//	    SQL statement makes the batch received.
//	  - split reads the batch once, verifies it and stores each host's part.
//	  - publish appends one version to the catalog for all batches that wait, when the publish window
//	    is open.
//	  - The quarantine has the batches with anything wrong, each with its reason, until an operator
//	    decides. The store's collection deletes what a quarantined batch has stored.
//
// Accept, split and publish are packages. They share the ledger (the state of every batch, in the
// database), the buffers (the files) and the quarantine, all in package inbox. Every step can be
// repeated, and several processes may work on the same batches. A state changes by a conditional
// update with a fencing token: of two workers on one batch, one loses and changes nothing. Objects
// in the store are named by attempt, so no two attempts share one. Collection deletes the input of
// a step; the step itself never does. After kill -9 at any point, New and Run carry on with the
// code that always runs.
package ingest

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/ingest/accept"
	"sheaf/ingest/foreign"
	"sheaf/ingest/inbox"
	"sheaf/ingest/publish"
	"sheaf/ingest/split"
	"sheaf/internal/lease"
	"sheaf/internal/loop"
	"sheaf/internal/servicekey"
	"sheaf/internal/window"
)

// Robots answers ingest's questions about robots.
type Robots interface {
	accept.Robots
	split.Robots
}

// Options are an Ingest's settings and the parts that it uses.
type Options struct {
	DB      *sql.DB
	Dir     string // the buffers, on one file system
	Store   store.Store
	Catalog *catalog.Catalog
	Robots  Robots
	Key     servicekey.Signer // signs receipts
	Window  *window.Schedule  // when to publish; nil is always
	Zone    *time.Location    // of the days in objects' names; nil is UTC
	Log     *slog.Logger      // nil discards
	Limits  Limits
	Packs   split.Packs

	ForeignHosts  foreign.HostMap // the host of each folder in foreign trees that robots upload
	ForeignLimits foreign.Limits

	// InStore puts accepted batches into the store instead of Dir, so that any process that ingests
	// can go on with them. Dir is then this process's own.
	InStore bool

	// Stopping is closed when the service begins to stop, and imports under way end then. nil:
	// imports go on.
	Stopping <-chan struct{}

	Leases lease.Locker     // for the publisher; nil: by DB
	Now    func() time.Time // clock for dates of states and for the window; nil is time.Now

	// Boundary, if set, is called before and after each durable write, with the write's name from
	// package inbox and "before" or "after". Fault tests end the process there.
	Boundary func(write, when string)
}

// Limits are settings with defaults. Zero values take the default.
type Limits struct {
	inbox.Limits
	Splitters  int           // batches that are split at the same time; 2
	Poll       time.Duration // longest wait for work if nothing wakes the loops; 5 s
	Lease      time.Duration // how long a batch stays with a process that stops renewing its lease; 1 min
	BackoffMin time.Duration // wait after a first temporary failure; 1 s
	BackoffMax time.Duration // longest such wait; 5 min
}

// fill sets the defaults of zero fields.
func (o *Options) fill() {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Zone = cmp.Or(o.Zone, time.UTC)
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &o.Limits
	l.Splitters = cmp.Or(l.Splitters, 2)
	l.Poll = cmp.Or(l.Poll, 5*time.Second)
	l.Lease = cmp.Or(l.Lease, time.Minute)
	l.BackoffMin = cmp.Or(l.BackoffMin, time.Second)
	l.BackoffMax = cmp.Or(l.BackoffMax, 5*time.Minute)
}

// Ingest runs the stages. Its parts may be used concurrently.
type Ingest struct {
	Acceptor   *accept.Acceptor
	Quarantine *inbox.Quarantine
	Publisher  *publish.Publisher

	opt      Options
	env      *inbox.Env
	splitter *split.Splitter
	received inbox.Bell // wakes the splitters
	presence *lease.Presence
	locks    []*os.File // of deciding, then of accepting
}

// New prepares the buffers in opt.Dir, finishes what a crash has interrupted there, and returns an
// Ingest. The Ingest works while Run runs.
func New(ctx context.Context, opt Options) (*Ingest, error) {
	opt.fill()
	i := &Ingest{opt: opt, received: inbox.NewBell(), env: &inbox.Env{
		Ledger: inbox.NewLedger(opt.DB), Buffers: inbox.Dir(opt.Dir), Objects: opt.Store, InStore: opt.InStore, Log: opt.Log, Now: opt.Now, Boundary: opt.Boundary,
	}}
	err := i.open()
	if err == nil {
		i.build()
		_, err = i.env.Ledger.FreeDead(ctx, i.presence)
	}
	if err == nil {
		err = i.Quarantine.Recover(ctx)
	}
	if err == nil {
		err = i.Acceptor.Recover(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("ingest: buffers in %s: %w", opt.Dir, err)
	}
	return i, nil
}

// open prepares the buffers and opens the locks that processes share there.
func (i *Ingest) open() (err error) {
	dir := i.env.Buffers
	if err := dir.Prepare(i.opt.Now()); err != nil {
		return err
	}
	names := []string{"deciding"}
	for n := range 16 { // accepting a batch waits for the disk several times, so several are accepted at once
		names = append(names, fmt.Sprint("accepting-", n))
	}
	for _, name := range names {
		f, err := dir.Lock(name)
		if err != nil {
			return err
		}
		i.locks = append(i.locks, f)
	}
	i.presence, err = lease.Appear(dir.Processes())
	return err
}

// build makes the stages from the options.
func (i *Ingest) build() {
	opt := &i.opt
	leases := opt.Leases
	if leases == nil {
		leases = lease.NewDB(opt.DB, i.presence, lease.Options{Log: opt.Log})
	}
	i.Publisher = publish.New(publish.Options{
		Env: i.env, Store: opt.Store, Catalog: opt.Catalog, Leases: leases, Window: opt.Window, Poll: opt.Limits.Poll,
	})
	i.Quarantine = inbox.NewQuarantine(i.env, i.locks[0], i.received)
	i.splitter = split.New(split.Options{
		Env: i.env, Quarantine: i.Quarantine, Store: opt.Store, Robots: opt.Robots, Presence: i.presence, Zone: opt.Zone, Packs: opt.Packs,
		Limits: opt.Limits.Limits, Lease: opt.Limits.Lease, Backoff: i.backoff(), Received: i.received, Ready: i.Publisher.Ready,
	})
	key := func(ctx context.Context) (ed25519.PrivateKey, error) {
		k, err := opt.Key.Signing(ctx)
		return k.Private, err
	}
	i.Acceptor = accept.New(accept.Options{
		Env: i.env, Quarantine: i.Quarantine, Accepting: i.locks[1:], Received: i.received, Robots: opt.Robots,
		Key: key, Limits: opt.Limits.Limits, Store: opt.Store, ForeignHosts: opt.ForeignHosts, ForeignLimits: opt.ForeignLimits,
	})
}

func (i *Ingest) backoff() loop.Backoff {
	return loop.Backoff{Min: i.opt.Limits.BackoffMin, Max: i.opt.Limits.BackoffMax}
}

// Run splits, publishes and collects until ctx ends. It returns nil once the steps under way have
// stopped; the next Run continues them.
func (i *Ingest) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range i.opt.Limits.Splitters {
		g.Go(func() error { return i.loop(ctx, i.received, i.splitter.Next) })
	}
	g.Go(func() error { return i.loop(ctx, i.Publisher.Wake, i.Publisher.Due) })
	g.Go(func() error { return i.loop(ctx, i.Publisher.WakeCollector, i.Publisher.Collect) })
	g.Go(func() error { return i.loop(ctx, nil, i.Quarantine.EraseDue) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("ingest: %w", err)
	}
	return nil
}

// longestPause is the longest time between two attempts at a step that fails. It is short, so that
// batches go on soon after a fault that stopped all of them, such as a database that was away.
const longestPause = 10 * time.Second

// loop calls step again and again: at once if step did something, otherwise when woken or after the
// poll interval. A step handles errors that concern one batch; loop logs other errors and waits.
func (i *Ingest) loop(ctx context.Context, wake inbox.Bell, step func(context.Context) (bool, error)) error {
	for failures := 0; ; {
		did, err := step(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait, wake := i.opt.Limits.Poll, wake
		if err != nil {
			failures++
			i.opt.Log.ErrorContext(ctx, "ingest: a step failed and will be repeated", "attempts", failures, "err", err)
			wait, wake = min(i.backoff().After(failures), longestPause), nil
		} else {
			failures = 0
			if did {
				continue
			}
		}
		if !loop.Wait(ctx, wait, wake) {
			return ctx.Err()
		}
	}
}
