// Package manager admits robots, knows the hosts, and decides which robot collects which host. It
// is the PRSM of paper 001. Robots call it; it never calls a robot.
//
// This package speaks HTTP with robots, as PROTOCOL.md says, and with operators. It wires the parts
// that do the work:
//
//	roster     the robots and their credentials; releases of the robots' program
//	hosts      the hosts, their addresses, and what is wanted of them
//	assign     which robot has which host, now and at any earlier time; how the copies differ that
//	           several robots made of one host
//	levelling  costs of hosts, from the logs that robots submit; plans from these costs; moves of
//	           hosts while robots work
//	balance    the arithmetic of levelling, without a database
package manager

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"database/sql"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/store"
	"sheaf/internal/audit"
	"sheaf/internal/lease"
	"sheaf/internal/loop"
	"sheaf/internal/operators"
	"sheaf/internal/passwords"
	"sheaf/internal/servicekey"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
	"sheaf/manager/roster"
)

// Options are a manager's settings. Key and Dir must be set.
type Options struct {
	Key       servicekey.Signer  // the service's key; robots get its public half when they join
	Dir       string             // submitted logs are kept in Dir/logs
	Store     store.Store        // for robots' programs, under roster.ReleasePrefix; nil: no program can be released
	Public    string             // the URL at which robots reach the service; empty: not known
	Name      string             // of the archive, for the sites that robots visit
	Contact   string             // of those who run the archive: URL or mail address; may be empty
	FTP       string             // host:port of the FTP drop, which robots are told; empty: there is none
	Gate      operators.Gate     // for operators; nil: their API is not mounted
	Audit     *audit.Log         // records robots that join and leave; nil: nothing is recorded
	Policy    hosts.Policy       // decides on hosts that robots find
	TokenLife time.Duration      // life of a one-time token; 0: a week
	Resolver  hosts.Resolver     // nil: the system's DNS
	Balance   levelling.Settings // when hosts are shared out anew
	Leases    lease.Locker       // lets one process plan at a time; nil: by the database
	Now       func() time.Time   // the clock by which robots' leases end, the same in all processes; nil: the machine's
	Guesses   *passwords.Limiter // limits how often secrets and tokens are guessed; nil: one of its own
	Log       *slog.Logger       // nil: discards
}

// Settings are the room's settings. deploy/sheaf.yaml explains each of them.
type Settings struct {
	Hosts    hosts.Policy       `mapstructure:"hosts"`
	Balance  levelling.Settings `mapstructure:"balance"`
	Partners struct {
		Notices bool `mapstructure:"notices"` // tell robots' sites by mail when their robot is silent or stuck
	} `mapstructure:"partners"`
}

// StorePrefix begins the keys of the objects that the room stores.
const StorePrefix = roster.ReleasePrefix

// Manager serves robots and operators. Its parts keep their data in the control database. It may
// be used by many goroutines at once.
type Manager struct {
	opt Options

	Roster      *roster.Roster
	Hosts       *hosts.Registry
	Assignments *assign.Assignments
	Costs       *levelling.Book
	Levelling   *levelling.Leveller
	Copies      *assign.Verdicts
	Releases    *roster.Releases
}

// New returns the manager over d, which internal/db has opened.
func New(d *sql.DB, opt Options) *Manager {
	opt.Balance.Zone = cmp.Or(opt.Balance.Zone, time.UTC)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.Guesses == nil {
		opt.Guesses = passwords.NewLimiter(opt.Log)
	}
	assignments, releases := assign.New(d, opt.Balance.Lease, opt.Now), roster.NewReleases(d, opt.Store, opt.Log)
	return &Manager{
		opt:         opt,
		Assignments: assignments,
		Releases:    releases,
		Hosts:       hosts.New(d, assignments, opt.Policy, opt.Resolver, opt.Log),
		Costs:       levelling.NewCosts(d, opt.Dir, opt.Balance.Zone),
		Copies:      assign.NewVerdicts(d, opt.Log),
		Roster: roster.New(d, assignments, roster.Options{
			Key: opt.Key, FTP: opt.FTP, TokenLife: opt.TokenLife, Releases: releases, Log: opt.Log,
		}),
		Levelling: levelling.New(d, assignments, levelling.Options{Settings: opt.Balance, Leases: opt.Leases, Log: opt.Log}),
	}
}

// Authenticate returns nil if the secret is the robot's, and roster.ErrUnauthorized if it is not.
func (m *Manager) Authenticate(ctx context.Context, robot, secret string) error {
	return m.Roster.Authenticate(ctx, robot, secret)
}

// RobotKey returns the key that the robot signs its manifests with, or roster.ErrUnknownRobot.
func (m *Manager) RobotKey(ctx context.Context, robot string) (ed25519.PublicKey, error) {
	return m.Roster.RobotKey(ctx, robot)
}

// HeldUntil returns the time until which the robot may have visited each host: see
// assign.Assignments.HeldUntil.
func (m *Manager) HeldUntil(ctx context.Context, robot string, hosts []string) (map[string]time.Time, error) {
	return m.Assignments.HeldUntil(ctx, robot, hosts)
}

// Refused records that a robot was turned away, and why.
func (m *Manager) Refused(ctx context.Context, robot, why string) {
	if err := m.Roster.NoteRefusal(context.WithoutCancel(ctx), robot, why); err != nil {
		m.opt.Log.WarnContext(ctx, "not noted", "err", err)
	}
}

// StolenSince returns the time since which a robot's key may be in others' hands: see
// roster.Roster.StolenSince.
func (m *Manager) StolenSince(ctx context.Context, robot string) (time.Time, error) {
	return m.Roster.StolenSince(ctx, robot)
}

// Watched reports whether consumers watch a page of every one of the hosts.
func (m *Manager) Watched(ctx context.Context, hosts []string) (bool, error) {
	return m.Hosts.Watched(ctx, hosts)
}

// CurrentGeneration returns the number of the latest generation of assignments.
func (m *Manager) CurrentGeneration(ctx context.Context) (int64, error) {
	return m.Assignments.CurrentGeneration(ctx)
}

const (
	sweepEvery   = time.Minute      // for silent robots, new watched hosts, uneven backlogs and a plan that is due
	compareEvery = 10 * time.Minute // for comparing the robots' copies
)

// Run does the regular work until ctx ends: it refreshes addresses, enters watched hosts, hands
// hosts on as Options.Balance says, compares copies, and makes the day's plan. It logs failures and
// tries again the next time.
func (m *Manager) Run(ctx context.Context) error {
	failed := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			m.opt.Log.ErrorContext(ctx, what+" failed", "err", err)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return loop.Every(ctx, sweepEvery, func(ctx context.Context) error {
			_, err := m.Hosts.RefreshAddresses(ctx, time.Now().Add(-hosts.RefreshAfter))
			failed("looking up addresses", err)
			_, err = m.Hosts.EnterWatched(ctx)
			failed("entering hosts that consumers watch", err)
			return nil
		}, nil)
	})
	g.Go(func() error {
		silence := sweepEvery
		if lease := m.opt.Balance.Lease; lease > 0 {
			silence = min(silence, max(wire.LeaseMargin(lease), time.Millisecond))
		}
		return loop.Every(ctx, silence, func(ctx context.Context) error {
			failed("looking for silent robots", m.Roster.Lapse(ctx, m.Assignments.Now()))
			failed("taking from silent robots what they were never sent", m.Roster.LeaveSilent(ctx, m.Assignments.Now()))
			failed("forgetting old hand-overs", m.Assignments.DropHandovers(ctx, ""))
			if m.opt.Balance.During {
				failed("levelling", m.Levelling.Level(ctx, time.Now()))
			}
			return nil
		}, nil)
	})
	g.Go(func() error {
		return loop.Every(ctx, compareEvery, m.Copies.Update, func(err error) { failed("comparing the robots' copies", err) })
	})
	g.Go(func() error { // in a goroutine of its own, because it may have to wait for its turn
		return loop.Every(ctx, sweepEvery, func(ctx context.Context) error {
			plan, err := m.Levelling.PlanToday(ctx)
			if err == nil && !plan.Made.IsZero() {
				m.opt.Log.InfoContext(ctx, "the day's plan is made", "generation", plan.Generation, "moved", plan.Moved,
					"makespan_ms", plan.Makespan, "lower_bound_ms", plan.Bound, "probes", plan.Probes)
			}
			return err
		}, func(err error) { failed("the day's plan", err) })
	})
	return g.Wait()
}
