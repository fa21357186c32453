// Package manager is the PRSM of paper 001: it admits robots, knows the hosts, and
// decides which robot collects which host. Robots come to it; it never calls a robot.
//
// What robots and operators say over HTTP is in PROTOCOL.md. Behind it stand three ideas:
//
// A robot is a name with credentials. An operator admits the name and hands on a
// one-time token; the robot exchanges it for a random secret and registers the key
// that it signs its batches with. Token and secret are 256 random bits and are kept
// as SHA-256 only.
//
// A host is accepted, pending or refused. Hosts that operators add are accepted;
// those that robots find join by their domain (see Policy) or wait for an operator.
//
// An assignment is a fact with two ends. Each change of who has which host makes a
// new generation, numbered from 1; (host, robot, from, to) is kept for ever, so a
// batch is judged by the generation that it was collected under, however late it
// comes. Hosts of one group (one address, as far as it is known) are always with one
// robot, so no address is visited by two but of hosts that are given to several on purpose, who keep to its interval together (several.go). A group that comes goes to the robot that is thought to be
// done with it first. It moves when that robot leaves or is silent for too long, when
// one comes that has none, with the day's plan (Rebalance), and while the robots work
// where it has not been begun (feed, level). What may move is decided in package
// balance, from what hosts cost robots: by the logs they hand in, and by probes.
package manager

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/store"
	"sheaf/internal/guesses"
	"sheaf/internal/lease"
	"sheaf/internal/wire"
	"sheaf/manager/rollout"
)

// Resolver finds a host's addresses. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options are a manager's settings. Key and Dir must be set.
type Options struct {
	Key       ed25519.PrivateKey              // the service's: signs receipts; robots learn its public half when they join
	Dir       string                          // submitted logs are kept in Dir/logs
	Store     store.Store                     // robots' programs are kept in it, under rollout.Prefix; nil: none can be released
	Public    string                          // URL under which robots reach the service; empty: not known
	FTP       string                          // host:port of the FTP drop that robots are told of; empty: there is none
	Operator  func(http.Handler) http.Handler // lets operators through; nil: the operators' API is not mounted
	Policy    Policy                          // what becomes of hosts that robots find
	TokenLife time.Duration                   // of a one-time token; 0: a week
	Resolver  Resolver                        // nil: the system's DNS
	Balance   Balance                         // when hosts are shared out anew
	Leases    lease.Locker                    // of the planner; by the database if nil
	Guesses   *guesses.Limiter                // bounds how often secrets and tokens are guessed at; nil: one of its own
	Log       *slog.Logger                    // nil: slog.Default()
}

// Manager keeps robots, hosts and assignments in the control database. It may be
// used by many goroutines at once; a change that a method reports is durable.
type Manager struct {
	db  *sql.DB
	opt Options
	log *slog.Logger

	releases *rollout.Releases

	planning sync.Mutex        // held for one plan, or change by costs, at a time; guards ships
	ships    map[string][]ship // by robot, what levelling wants it to pass on

	tally atomic.Pointer[tally] // what robots have to do; nil: not known
	grown atomic.Pointer[grown] // the robots' tree; nil: none yet
}

// New gives the manager over db, which internal/db has opened.
func New(db *sql.DB, opt Options) *Manager {
	if opt.TokenLife == 0 {
		opt.TokenLife = 7 * 24 * time.Hour
	}
	if opt.Resolver == nil {
		opt.Resolver = net.DefaultResolver
	}
	if opt.Balance.Zone == nil {
		opt.Balance.Zone = time.UTC
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	if opt.Guesses == nil {
		opt.Guesses = guesses.New(opt.Log)
	}
	if opt.Leases == nil {
		opt.Leases = lease.NewDB(db, nil, lease.Options{Log: opt.Log})
	}
	return &Manager{db: db, opt: opt, log: opt.Log, releases: rollout.New(db, opt.Store, opt.Log)}
}

// Register mounts the robots' protocol, under the paper's paths and under
// /v1/robots, and the operators' API where there is an Operator middleware.
func (m *Manager) Register(r *mux.Router) {
	r.Handle(wire.PathJoin, m.plain(m.serveJoin)).Methods(http.MethodPost)
	for _, route := range []struct {
		old, path string
		handler   robotHandler
		methods   []string // on the new path; the old one takes GET for all but the two that carry a body
		oldMethod string
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
	m.registerReleases(r)
	if m.opt.Operator != nil {
		m.registerAdmin(r)
	}
}

// transact runs f in one transaction and commits where f returns nil.
func (m *Manager) transact(ctx context.Context, opt *sql.TxOptions, f func(*sql.Tx) error) error {
	tx, err := m.db.BeginTx(ctx, opt)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // does nothing after Commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
