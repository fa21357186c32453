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
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

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
		none := fmt.Errorf("%s: %w", host, assign.ErrUnknownHost)
		if err := db.Change(ctx, t, none, `UPDATE hosts SET state = ?, waiting = 0 WHERE name = ?`, Refused, host); err != nil {
			return err
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

// Filter selects hosts. Empty fields select all.
type Filter struct {
	State      State
	Robot      string // the robot that has the host now
	FoundBy    string // the robot that found it
	Domain     string // this host and all below it
	Part       string // a part of the host's name
	Unanswered bool   // the last visit got no answer

	name string // selects this host only
}

// within returns an SQL condition on hosts, to be appended to another condition, and its arguments.
// It ignores Robot.
func (f Filter) within() (condition string, args []any) {
	var all []string
	add := func(text string, values ...any) { all, args = append(all, text), append(args, values...) }
	if f.name != "" {
		add(`name = ?`, f.name)
	}
	if f.State != "" {
		add(`state = ?`, f.State)
	}
	if f.FoundBy != "" {
		add(`source = ?`, f.FoundBy)
	}
	if d := strings.ToLower(f.Domain); d != "" {
		if suffix, _ := publicsuffix.PublicSuffix(d); suffix != d { // nobody has registered jp or ac.jp
			add(`domain = ?`, Registered(d))
		}
		add(`(name = ? OR name LIKE ? ESCAPE '\' OR name LIKE ? ESCAPE '\' OR name LIKE ? ESCAPE '\')`,
			d, `%.`+db.Literally(d), db.Literally(d)+`:%`, `%.`+db.Literally(d)+`:%`)
	}
	if f.Part != "" {
		add(`name LIKE ? ESCAPE '\'`, `%`+db.Literally(strings.ToLower(f.Part))+`%`)
	}
	if f.Unanswered {
		add(`name IN (SELECT v.host FROM visits v WHERE v.why <> '' AND NOT EXISTS (SELECT 1 FROM visits l WHERE l.host = v.host AND l.at > v.at))`)
	}
	for _, one := range all {
		condition += ` AND ` + one
	}
	return condition, args
}

// withRobot is within, but includes Robot. It is for queries that count.
func (f Filter) withRobot() (condition string, args []any) {
	condition, args = f.within()
	if f.Robot != "" {
		condition += ` AND name IN (SELECT host FROM assignments WHERE robot = ? AND to_generation IS NULL)`
		args = append(args, f.Robot)
	}
	return condition, args
}

// Group counts the hosts of a registered domain in each state.
type Group struct {
	Domain   string `json:"domain"`
	Hosts    int64  `json:"hosts"`
	Accepted int64  `json:"accepted"`
	Pending  int64  `json:"pending"`
	Refused  int64  `json:"refused"`
}

// Groups counts the hosts that a filter selects, by registered domain. It returns up to limit
// domains whose names follow after, in the order of their names.
func (r *Registry) Groups(ctx context.Context, f Filter, after string, limit int) ([]Group, error) {
	condition, args := f.withRobot()
	list, err := db.List(ctx, r.db, func(rows *sql.Rows, g *Group) error {
		return rows.Scan(&g.Domain, &g.Hosts, &g.Accepted, &g.Pending, &g.Refused)
	}, `SELECT domain, COUNT(*), SUM(CASE WHEN state = 'accepted' THEN 1 ELSE 0 END), SUM(CASE WHEN state = 'pending' THEN 1 ELSE 0 END),
			SUM(CASE WHEN state = 'refused' THEN 1 ELSE 0 END)
		FROM hosts WHERE domain > ?`+condition+` GROUP BY domain ORDER BY domain LIMIT ?`, slices.Concat([]any{after}, args, []any{limit})...)
	if err != nil {
		return nil, fmt.Errorf("hosts by domain: %w", err)
	}
	return list, nil
}

// CountOf counts the hosts that a filter selects, up to most.
func (r *Registry) CountOf(ctx context.Context, f Filter, most int) (n int, err error) {
	condition, args := f.withRobot()
	err = r.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM hosts WHERE name > ''`+condition+` LIMIT ?) s`, append(args, most)...).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count hosts: %w", err)
	}
	return n, nil
}
