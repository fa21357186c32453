package levelling

import (
	"cmp"
	"database/sql"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/lease"
	"sheaf/internal/settings"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
)

// Settings say when and how hosts are shared out among robots. The zero value does none of it.
type Settings struct {
	At     string        `mapstructure:"at" want:"a time of day, such as 01:00, or nothing"` // when the day's plan is made; empty: none is
	During bool          `mapstructure:"during"`                                             // while the robots work, hand on hosts that have not been begun
	Lease  time.Duration `mapstructure:"lease"`                                              // how long a robot may go on without hearing from the manager before its hosts are handed on; 0: without end
	Window time.Duration `mapstructure:"window" want:"at least 0s"`                          // length of a night of collecting, which tells the hosts that are too large for one robot; 0: not known

	Brief  bool           `mapstructure:"-"` // allows a Lease that is too short for operators; for tests
	Zone   *time.Location `mapstructure:"-"` // of At, and of nights and hours of the week; manager.New makes it UTC if it is nil
	Probes int            `mapstructure:"-"` // number of distances that each robot measures after a plan
	Split  bool           `mapstructure:"-"` // split hosts that do not fit into Window among several robots
}

// Check checks what the tags of the settings do not say.
func (s *Settings) Check(is *settings.Checks) {
	const minLease = 10 * time.Minute // two heartbeats
	is.Require(s.Lease == 0 || (s.Lease >= minLease || s.Brief) && s.Lease <= wire.MaxLease, "balance.lease", s.Lease, fmt.Sprintf("want 0, or from %v to %v", minLease, wire.MaxLease))
}

// Options are a leveller's settings, and what it needs of others.
type Options struct {
	Settings
	Leases lease.Locker // lets one process plan at a time; nil: by the database
	Log    *slog.Logger // nil: discards
}

// shipment is work that a robot is to pass to a neighbour in the tree.
type shipment struct {
	to   string
	urls float64
}

// robotTree is a tree of robots, with the time when it was made.
type robotTree struct {
	robots []string
	tree   balance.Tree
	made   time.Time
}

// Leveller assigns hosts to robots. Many goroutines may use it at once, but only one calls Level.
type Leveller struct {
	db          *sql.DB
	assignments *assign.Assignments
	opt         Options
	trigger     balance.Trigger

	planning  sync.Mutex            // held while a plan or a hand-over is made; guards shipments
	shipments map[string][]shipment // by robot: what it is to pass to its neighbours
	making    atomic.Bool           // a plan is being made

	tree atomic.Pointer[robotTree] // nil: none was made yet
}

// New returns a leveller of the assignments in d, which internal/db has opened.
func New(d *sql.DB, assignments *assign.Assignments, opt Options) *Leveller {
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.Leases == nil {
		opt.Leases = lease.NewDB(d, nil, lease.Options{Log: opt.Log})
	}
	return &Leveller{db: d, assignments: assignments, opt: opt}
}
