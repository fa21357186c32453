// Package hosts keeps the hosts: which hosts there are, which are collected, their IP addresses,
// and what operators and consumers want of them.
//
// A host is accepted, pending or refused. Hosts that operators add are accepted. For hosts that
// robots find, the Policy decides.
package hosts

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// Resolver looks up a host's IP addresses. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Registry keeps the hosts in the control database. It may be used by many goroutines at once. A
// change is durable when its method returns.
type Registry struct {
	db          *sql.DB
	assignments *assign.Assignments
	policy      Policy
	resolver    Resolver
	log         *slog.Logger
}

// New returns the hosts in d, which internal/db has opened. A nil resolver is the system's; a nil
// logger discards.
func New(d *sql.DB, assignments *assign.Assignments, policy Policy, resolver Resolver, log *slog.Logger) *Registry {
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Registry{d, assignments, policy, resolver, log}
}

// Host is a host as operators see it.
type Host struct {
	Name      string    `json:"name"`
	State     State     `json:"state"`
	Source    string    `json:"source,omitempty"` // the robot that found it, or SourceWatch; empty: an operator
	Created   time.Time `json:"created"`
	Addresses []string  `json:"addresses,omitempty"`
	Group     string    `json:"group"`                     // hosts of one group go to one robot
	Robots    []string  `json:"robots,omitempty"`          // the robots that have it now
	Copies    int       `json:"copies,omitempty"`          // number of robots that are to collect all of it, if several
	Parts     int       `json:"parts,omitempty"`           // number of robots that are to share its URLs, if several
	Interval  string    `json:"interval,omitempty"`        // between two visits to its address, such as 5s, if an operator has set it
	Shortest  string    `json:"shortest,omitempty"`        // shortest interval while the server stays quick, if an operator has set it
	Pages     int       `json:"pages_a_visit,omitempty"`   // over one connection, if an operator has set it
	Reason    string    `json:"interval_reason,omitempty"` // who allows or asks for this interval
	Pinned    string    `json:"pinned,omitempty"`          // the robot that an operator wants to collect it
	PinReason string    `json:"pin_reason,omitempty"`      // why
	Seeds     []string  `json:"seeds"`                     // the first hundred

	Visits []LastVisit `json:"visits,omitempty"` // the robots' reports on their last visits, the latest first; at most ten
}

// Report counts the hosts of a list by what became of them.
type Report struct {
	Accepted int `json:"accepted"`
	Pending  int `json:"pending"`
	Refused  int `json:"refused"`
	Known    int `json:"known"`          // already known; their new URLs are kept
	Over     int `json:"over,omitempty"` // new, but not entered: over the daily limit of the robot, or of all robots
}

// AddHosts accepts hosts for an operator, including hosts that were refused or are pending.
// Collecting starts at the URLs, which must have the form that wire.NormalizeURL takes; a host may
// have several. Hosts with addresses, by name, are not looked up. want says how many robots are to
// have each host; its zero value changes nothing.
func (r *Registry) AddHosts(ctx context.Context, urls []string, addresses map[string][]string, want assign.Replication) (Report, error) {
	if !want.Valid() {
		return Report{}, assign.Invalid{Err: assign.ErrReplication}
	}
	given, err := parseAddresses(addresses)
	if err != nil {
		return Report{}, err
	}
	lines := make([]wire.HostLine, len(urls))
	for i, u := range urls {
		normal, host, err := wire.NormalizeURL(u)
		if err == nil {
			err = checkName(host)
		}
		if err != nil {
			return Report{}, assign.Invalid{Err: fmt.Errorf("hosts[%d]: %w", i, err)}
		}
		lines[i].URL = normal
	}
	return r.admit(ctx, lines, rules{
		judge: func(string) State { return Accepted }, maxSeeds: math.MaxInt64, addresses: given, promote: true, replication: want,
	})
}

// checkName refuses names that no robot at another site can reach. An IP address passes, because
// each robot's settings say whether it may visit it.
func checkName(host string) error {
	name := withoutPort(host)
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return nil
	}
	switch {
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		return fmt.Errorf("%q is each machine's own name for itself; robots elsewhere cannot visit it", host)
	case !strings.Contains(strings.TrimSuffix(name, "."), "."):
		return fmt.Errorf("%q has no domain; write the whole name, such as www.example.jp", host)
	}
	return nil
}

// Discover enters hosts that a robot has found or that consumers watch. The policy decides on new
// hosts. New URLs of known hosts become start URLs.
func (r *Registry) Discover(ctx context.Context, robot string, lines []wire.HostLine) (Report, error) {
	how := rules{source: robot, judge: r.policy.Judge, maxSeeds: maxFoundSeeds, perDomain: r.policy.PerDomain}
	if robot != SourceWatch {
		how.perRobot, how.perDay = r.policy.PerRobot, r.policy.PerDay
	}
	report, err := r.admit(ctx, lines, how)
	if report.Over > 0 {
		r.log.WarnContext(ctx, "hosts that a robot found are not entered: it, or all robots together, have entered as many in a day as they may", "robot", robot, "hosts", report.Over)
	}
	return report, err
}

// RemoveHost refuses a host. No robot has it from now on. No robot's report brings it back; only
// AddHosts does.
func (r *Registry) RemoveHost(ctx context.Context, host string) error {
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		n, err := t.Exec(ctx, `UPDATE hosts SET state = ?, waiting = 0 WHERE name = ?`, Refused, host)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%s: %w", host, assign.ErrUnknownHost)
		}
		return t.Unassign(ctx, host)
	})
}

// Count returns how many hosts wait for an operator's decision (pending), and how many accepted
// hosts wait for a robot (waiting). It counts no further than most, so it is quick with any number
// of hosts.
func (r *Registry) Count(ctx context.Context, most int) (pending, waiting int64, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT
		(SELECT COUNT(*) FROM (SELECT 1 FROM hosts WHERE state = 'pending' LIMIT ?1) p),
		(SELECT COUNT(*) FROM (SELECT 1 FROM hosts WHERE waiting = 1 LIMIT ?1) w)`, most).Scan(&pending, &waiting)
	if err != nil {
		return 0, 0, fmt.Errorf("count hosts: %w", err)
	}
	return pending, waiting, nil
}

// Hosts returns up to limit hosts whose names follow after, in the order of their names.
func (r *Registry) Hosts(ctx context.Context, f Filter, after string, limit int) ([]Host, error) {
	list := []Host{}
	err := db.ReadOnly(ctx, r.db, func(tx *sql.Tx) error {
		found, err := hostRows(ctx, tx, f, after, limit)
		if err != nil {
			return err
		}
		for _, h := range found {
			if h.Seeds, err = db.Column[string](ctx, tx, `SELECT url FROM seeds WHERE host = ? ORDER BY url LIMIT 100`, h.Name); err != nil {
				return err
			}
			if h.Robots, err = assign.RobotsOf(ctx, tx, h.Name); err != nil {
				return err
			}
			if h.Visits, err = lastVisits(ctx, tx, h.Name); err != nil {
				return err
			}
			list = append(list, h)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	return list, nil
}

// intervalText formats an interval in ms. It returns "" for 0: no interval was set.
func intervalText(ms int64) string {
	if ms == 0 {
		return ""
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

func hostRows(ctx context.Context, tx *sql.Tx, f Filter, after string, limit int) ([]Host, error) {
	order := `name`
	query, args := `SELECT name, state, source, created, addresses, grp, copies, parts, interval_ms, shortest_ms, run_pages, interval_reason, pinned, pin_reason FROM `, []any{after}
	if f.Robot == "" {
		query += `hosts WHERE name > ?`
	} else { // through the index of assignments, because PostgreSQL would read all hosts in their order
		query, args = query+`assignments a CROSS JOIN hosts WHERE a.host > ? AND a.robot = ? AND a.to_generation IS NULL AND name = a.host`, append(args, f.Robot)
		order = `a.host`
	}
	condition, more := f.within()
	query, args = query+condition, append(args, more...)
	several := func(n int) int {
		if n == 1 {
			return 0
		}
		return n
	}
	return db.List(ctx, tx, func(rows *sql.Rows, h *Host) error {
		var addresses string
		var interval, shortest int64
		err := rows.Scan(&h.Name, &h.State, &h.Source, db.At(&h.Created), &addresses, &h.Group, &h.Copies, &h.Parts, &interval, &shortest, &h.Pages, &h.Reason, &h.Pinned, &h.PinReason)
		h.Interval, h.Shortest = intervalText(interval), intervalText(shortest)
		h.Addresses = strings.Fields(addresses)
		h.Copies, h.Parts = several(h.Copies), several(h.Parts)
		return err
	}, query+` ORDER BY `+order+` LIMIT ?`, append(args, limit)...)
}
