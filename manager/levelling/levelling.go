package levelling

import (
	"database/sql"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/lease"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
)

// Options say when and how hosts are shared out anew.
type Options struct {
	Daily  bool           // plan once a day
	At     time.Duration  // time of day for that, since midnight
	Zone   *time.Location // of At, and of nights and hours of the week
	During bool           // hand on hosts while the robots work
	Probes int            // number of distances that each robot measures after a plan
	Split  bool           // split hosts that do not fit into Window among several robots
	Window time.Duration  // length of a night; 0: not known
	Leases lease.Locker   // lets one process plan at a time; nil: by the database
	Log    *slog.Logger   // nil: discards
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

// Leveller assigns hosts to robots. It may be used by many goroutines at once, but Level by one.
type Leveller struct {
	db          *sql.DB
	assignments *assign.Assignments
	opt         Options
	trigger     *balance.Trigger

	planning  sync.Mutex            // held while a plan or a hand-over is made; guards shipments
	shipments map[string][]shipment // by robot: what it is to pass to its neighbours
	making    atomic.Bool           // a plan is being made

	tree atomic.Pointer[robotTree] // nil: none was made yet
}

// New returns a leveller of the assignments in d, which internal/db has opened.
func New(d *sql.DB, assignments *assign.Assignments, opt Options) *Leveller {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Zone == nil {
		opt.Zone = time.UTC
	}
	if opt.Leases == nil {
		opt.Leases = lease.NewDB(d, nil, lease.Options{Log: opt.Log})
	}
	return &Leveller{db: d, assignments: assignments, opt: opt, trigger: balance.NewTrigger()}
}
