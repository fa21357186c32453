package manager

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// ErrUnknownHost says that the manager knows no such host.
var ErrUnknownHost = errors.New("no such host is known")

// badHosts is the fault of what was given, not the service's.
type badHosts struct{ error }

func (b badHosts) Unwrap() error { return b.error }

// Host is what operators see of a host.
type Host struct {
	Name      string    `json:"name"`
	State     State     `json:"state"`
	Source    string    `json:"source,omitempty"` // the robot that found it; empty: an operator
	Created   time.Time `json:"created"`
	Addresses []string  `json:"addresses,omitempty"`
	Group     string    `json:"group"`            // hosts of one group go to one robot
	Robots    []string  `json:"robots,omitempty"` // who has it now
	Copies    int       `json:"copies,omitempty"` // robots that are to collect all of it, where several
	Parts     int       `json:"parts,omitempty"`  // robots that are to share its URLs, where several
	Seeds     []string  `json:"seeds"`            // the first hundred
}

// Report counts what became of the hosts of a list.
type Report struct {
	Accepted int `json:"accepted"`
	Pending  int `json:"pending"`
	Refused  int `json:"refused"`
	Known    int `json:"known"` // were known before; their new URLs are kept
}

// AddHosts accepts hosts on an operator's word, also such as were refused before or
// wait. The URLs, in the form that wire.NormalizeURL takes, are where collecting
// starts; a host may have several. Addresses of hosts, by name, spare a look-up.
func (m *Manager) AddHosts(ctx context.Context, urls []string, addresses map[string][]string) (Report, error) {
	return m.AddHostsTo(ctx, urls, addresses, Several{})
}

// AddHostsTo is AddHosts for hosts that are to be with several robots.
func (m *Manager) AddHostsTo(ctx context.Context, urls []string, addresses map[string][]string, how Several) (Report, error) {
	if !how.valid() {
		return Report{}, badHosts{ErrSeveral}
	}
	given, err := parseAddresses(addresses)
	if err != nil {
		return Report{}, badHosts{err}
	}
	lines := make([]wire.HostLine, len(urls))
	for i, u := range urls {
		normal, host, err := wire.NormalizeURL(u)
		if err == nil {
			err = checkName(host)
		}
		if err != nil {
			return Report{}, badHosts{fmt.Errorf("hosts[%d]: %w", i, err)}
		}
		lines[i].URL = normal
	}
	return m.admitHosts(ctx, lines, found{
		judge: func(string) State { return Accepted }, maxSeeds: math.MaxInt64, addresses: given, promote: true, several: how,
	})
}

// checkName refuses names that no robot at another site can reach. An IP address passes: whether a
// robot may visit it is the robot's setting.
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

// Discover takes what a robot has found: new hosts become what the policy says, and
// new URLs of known hosts are added to their start URLs.
func (m *Manager) Discover(ctx context.Context, robot string, lines []wire.HostLine) (Report, error) {
	return m.admitHosts(ctx, lines, found{source: robot, judge: m.opt.Policy.Judge, maxSeeds: maxFoundSeeds, perDomain: m.opt.Policy.PerDomain})
}

// RemoveHost refuses a host: no robot has it from now on, and no robot's report
// brings it back. An operator's AddHosts does.
func (m *Manager) RemoveHost(ctx context.Context, host string) error {
	return m.edit(ctx, func(e *edit) error {
		n, err := e.exec(`UPDATE hosts SET state = ?, waiting = 0 WHERE name = ?`, Refused, host)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%s: %w", host, ErrUnknownHost)
		}
		return e.take(host)
	})
}

// Hosts gives hosts by name, after the given one, at most limit; those of one state,
// or of all where state is "".
func (m *Manager) Hosts(ctx context.Context, state State, after string, limit int) ([]Host, error) {
	hosts := []Host{}
	err := m.transact(ctx, &sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) error {
		var err error
		if hosts, err = hostRows(ctx, tx, state, after, limit); err != nil {
			return err
		}
		for i := range hosts {
			h := &hosts[i]
			if h.Seeds, err = column[string](ctx, tx, `SELECT url FROM seeds WHERE host = ? ORDER BY url LIMIT 100`, h.Name); err != nil {
				return err
			}
			if h.Robots, err = column[string](ctx, tx, `SELECT robot FROM assignments WHERE host = ? AND to_generation IS NULL ORDER BY robot`, h.Name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	return hosts, nil
}

func hostRows(ctx context.Context, tx *sql.Tx, state State, after string, limit int) ([]Host, error) {
	query, args := `SELECT name, state, source, created, addresses, grp, copies, parts FROM hosts WHERE name > ?`, []any{after}
	if state != "" {
		query, args = query+` AND state = ?`, append(args, state)
	}
	rows, err := tx.QueryContext(ctx, query+` ORDER BY name LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	hosts := []Host{}
	for rows.Next() {
		var h Host
		var created int64
		var addrs string
		if err := rows.Scan(&h.Name, &h.State, &h.Source, &created, &addrs, &h.Group, &h.Copies, &h.Parts); err != nil {
			return nil, err
		}
		h.Created, h.Addresses = db.Time(created), strings.Fields(addrs)
		if h.Copies == 1 {
			h.Copies = 0
		}
		if h.Parts == 1 {
			h.Parts = 0
		}
		hosts = append(hosts, h)
	}
	return hosts, rows.Err()
}
