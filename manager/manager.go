// Package manager admits robots, knows the hosts, and decides which robot collects which host. It
// is the PRSM of paper 001. Robots call it; it never calls a robot.
//
// This package speaks HTTP, with robots as PROTOCOL.md says and with operators, and wires the
// parts that do the work:
//
//	roster     the robots and their credentials
//	hosts      the hosts, their addresses, and what is wanted of them
//	assign     which robot has which host, now and at any earlier time
//	costs      what hosts cost robots, by the logs that robots hand in
//	levelling  plans from the costs, and what moves while robots work
//	balance    the arithmetic of levelling, without a database
//	copies     comparing what several robots brought of one host
//	rollout    releases of the robots' program
package manager

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"

	"sheaf/archive/store"
	"sheaf/internal/guesses"
	"sheaf/internal/lease"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/copies"
	"sheaf/manager/costs"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
	"sheaf/manager/rollout"
	"sheaf/manager/roster"
)

// Options are a manager's settings. Key and Dir must be set.
type Options struct {
	Key       ed25519.PrivateKey              // the service's: signs receipts; robots get its public half when they join
	Dir       string                          // submitted logs are kept in Dir/logs
	Store     store.Store                     // robots' programs are kept in it, under rollout.Prefix; nil: none can be released
	Public    string                          // URL under which robots reach the service; empty: not known
	FTP       string                          // host:port of the FTP drop that robots are told of; empty: there is none
	Operator  func(http.Handler) http.Handler // lets operators through; nil: the operators' API is not mounted
	Policy    hosts.Policy                    // what becomes of hosts that robots find
	TokenLife time.Duration                   // of a one-time token; 0: a week
	Resolver  hosts.Resolver                  // nil: the system's DNS
	Balance   Balance                         // when hosts are shared out anew
	Leases    lease.Locker                    // lets one process plan at a time; nil: by the database
	Guesses   *guesses.Limiter                // limits how often secrets and tokens are guessed; nil: one of its own
	Log       *slog.Logger                    // nil: discards
}

// Balance says when and how hosts are shared out anew. The zero value does none of it.
type Balance struct {
	Daily  bool           // plan once a day
	At     time.Duration  // after midnight, when that is
	Zone   *time.Location // of At, and of nights and hours in the costs; nil: UTC
	During bool           // hand hosts on while the robots work
	Lease  time.Duration  // of silence, after which a robot's hosts are handed on; 0: never
	Probes int            // distances that each robot is asked to measure after a plan
	Split  bool           // split hosts that do not fit into Window among several robots
	Window time.Duration  // how long a night is, to tell which hosts are too large for one robot; 0: not known
}

// Manager serves robots and operators. Its parts keep their data in the control database. It may
// be used by many goroutines at once.
type Manager struct {
	opt Options

	Roster      *roster.Roster
	Hosts       *hosts.Registry
	Assignments *assign.Assignments
	Costs       *costs.Book
	Levelling   *levelling.Leveller
	Copies      *copies.Verdicts
	Releases    *rollout.Releases
}

// New returns the manager over d, which internal/db has opened.
func New(d *sql.DB, opt Options) *Manager {
	if opt.Balance.Zone == nil {
		opt.Balance.Zone = time.UTC
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Guesses == nil {
		opt.Guesses = guesses.New(opt.Log)
	}
	assignments, releases := assign.New(d), rollout.New(d, opt.Store, opt.Log)
	b := opt.Balance
	return &Manager{
		opt:         opt,
		Assignments: assignments,
		Releases:    releases,
		Hosts:       hosts.New(d, assignments, opt.Policy, opt.Resolver, opt.Log),
		Costs:       costs.New(d, opt.Dir, b.Zone),
		Copies:      copies.NewVerdicts(d, opt.Log),
		Roster: roster.New(d, assignments, roster.Options{
			Key: opt.Key, FTP: opt.FTP, TokenLife: opt.TokenLife, Lease: b.Lease, Releases: releases, Log: opt.Log,
		}),
		Levelling: levelling.New(d, assignments, levelling.Options{
			Daily: b.Daily, At: b.At, Zone: b.Zone, During: b.During, Probes: b.Probes, Split: b.Split, Window: b.Window,
			Leases: opt.Leases, Log: opt.Log,
		}),
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

// NotAssigned returns those of the hosts that the robot did not have in a generation.
func (m *Manager) NotAssigned(ctx context.Context, robot string, generation int64, hosts []string) ([]string, error) {
	return m.Assignments.NotAssigned(ctx, robot, generation, hosts)
}

// CurrentGeneration returns the number of the present assignment.
func (m *Manager) CurrentGeneration(ctx context.Context) (int64, error) {
	return m.Assignments.CurrentGeneration(ctx)
}

// Register mounts the robots' protocol, under the paper's paths and under /v1/robots, and, if
// there is an Operator middleware, the operators' API.
func (m *Manager) Register(r *mux.Router) {
	r.Handle(wire.PathJoin, m.plain(m.serveJoin)).Methods(http.MethodPost)
	for _, route := range []struct {
		old, path string
		handler   robotHandler
		methods   []string // on the new path
		oldMethod string   // the old path takes this one, too
	}{
		{"/servlets/list", wire.PathList, m.notBelowFloor(m.serveList), []string{http.MethodGet, http.MethodHead}, http.MethodGet},
		{"/servlets/record", wire.PathRecord, m.serveRecord, []string{http.MethodPost}, http.MethodPost},
		{"/servlets/submitlog", wire.PathSubmitLog, m.serveSubmitLog, []string{http.MethodPost}, http.MethodPost},
		{"/servlets/isrestart", wire.PathIsRestart, m.serveIsRestart, []string{http.MethodGet}, http.MethodGet},
		{"/servlets/subscribe", wire.PathSubscribe, m.serveSubscribe, []string{http.MethodPost}, http.MethodGet},
		{"/servlets/unsubscribe", wire.PathUnsubscribe, m.serveUnsubscribe, []string{http.MethodPost}, http.MethodGet},
	} {
		h := m.authenticated(route.handler)
		r.Handle(route.path, h).Methods(route.methods...)
		r.Handle(route.old, h).Methods(append(route.methods, route.oldMethod)...)
	}
	r.Handle(wire.PathHeartbeat, m.authenticated(m.serveHeartbeat)).Methods(http.MethodPost)
	r.Handle(wire.PathWatches, m.authenticated(m.serveWatches)).Methods(http.MethodGet)
	r.Handle(PathAddresses, m.authenticated(m.serveAddresses)).Methods(http.MethodPost)
	r.Handle(wire.PathReport, m.authenticated(m.serveReport)).Methods(http.MethodPost)
	releases := releaseAPI{m.Releases}
	releases.register(r, m.plain)
	if m.opt.Operator != nil {
		operator := func(h handler) http.Handler { return m.opt.Operator(m.plain(h)) }
		releases.registerAdmin(r, operator)
		(&operatorAPI{
			roster: m.Roster, hosts: m.Hosts, costs: m.Costs, levelling: m.Levelling,
			copies: m.Copies, releases: releases, public: m.opt.Public,
		}).register(r, operator)
	}
}

const (
	sweepEvery   = time.Minute      // looks for silent robots, uneven backlogs and a plan that is due
	compareEvery = 10 * time.Minute // compares the robots' copies
)

// Run does what is due until ctx ends: it refreshes addresses, hands hosts on as Options.Balance
// says, compares copies, and makes the day's plan. What fails is logged and tried again the next
// time.
func (m *Manager) Run(ctx context.Context) error {
	failed := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			m.opt.Log.ErrorContext(ctx, what+" failed", "err", err)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return every(ctx, sweepEvery, func(now time.Time) {
			_, err := m.Hosts.RefreshAddresses(ctx, now.Add(-hosts.RefreshAfter))
			failed("looking up addresses", err)
		})
	})
	g.Go(func() error {
		return every(ctx, sweepEvery, func(now time.Time) {
			failed("looking for silent robots", m.Roster.Lapse(ctx, now))
			if m.opt.Balance.During {
				failed("levelling", m.Levelling.Level(ctx, now))
			}
		})
	})
	g.Go(func() error {
		return every(ctx, compareEvery, func(time.Time) { failed("comparing the robots' copies", m.Copies.Update(ctx)) })
	})
	g.Go(func() error { // apart from the others, because it may have to wait for its turn
		return every(ctx, sweepEvery, func(time.Time) {
			plan, err := m.Levelling.PlanToday(ctx)
			failed("the day's plan", err)
			if err == nil && !plan.Made.IsZero() {
				m.opt.Log.InfoContext(ctx, "the day's plan is made", "generation", plan.Generation, "moved", plan.Moved,
					"makespan_ms", plan.Makespan, "lower_bound_ms", plan.Bound, "probes", plan.Probes)
			}
		})
	})
	return g.Wait()
}

// every calls f now and then at each interval, until ctx ends. It returns ctx's error.
func every(ctx context.Context, interval time.Duration, f func(now time.Time)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		f(time.Now())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
