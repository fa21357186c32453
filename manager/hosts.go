package manager

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// maxFoundSeeds is how many start URLs of one host robots may add, so that a report of
// every page of a large site does not swell the lists. Operators are not bound by it.
const maxFoundSeeds = 100

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
		normal, _, err := wire.NormalizeURL(u)
		if err != nil {
			return Report{}, badHosts{fmt.Errorf("hosts[%d]: %w", i, err)}
		}
		lines[i].URL = normal
	}
	return m.admitHosts(ctx, lines, found{
		judge: func(string) State { return Accepted }, maxSeeds: math.MaxInt64, addresses: given, promote: true, several: how,
	})
}

// Discover takes what a robot has found: new hosts become what the policy says, and
// new URLs of known hosts are added to their start URLs.
func (m *Manager) Discover(ctx context.Context, robot string, lines []wire.HostLine) (Report, error) {
	return m.admitHosts(ctx, lines, found{source: robot, judge: m.opt.Policy.Judge, maxSeeds: maxFoundSeeds, perDomain: m.opt.Policy.PerDomain})
}

// found is how a list of hosts is to be taken.
type found struct {
	source    string // robot; "" for an operator
	judge     func(host string) State
	promote   bool // a known host takes judge's state too
	maxSeeds  int64
	perDomain int                  // accepted hosts of one registered domain; 0: any number
	addresses map[string]addresses // known beforehand
	several   Several
}

func (m *Manager) admitHosts(ctx context.Context, lines []wire.HostLine, how found) (Report, error) {
	var names []string
	seeds := map[string][]wire.HostLine{}
	for _, l := range lines {
		_, host, err := wire.NormalizeURL(l.URL)
		if err != nil {
			return Report{}, err
		}
		if seeds[host] == nil {
			names = append(names, host)
		}
		seeds[host] = append(seeds[host], l)
	}
	known, err := m.lookUpNew(ctx, names, how)
	if err != nil {
		return Report{}, err
	}
	var report Report
	err = m.edit(ctx, func(e *edit) error {
		report = Report{}
		for _, host := range names {
			if err := e.admitHost(host, how, known[host], &report); err != nil {
				return fmt.Errorf("host %s: %w", host, err)
			}
			if err := e.addSeeds(host, seeds[host], how); err != nil {
				return fmt.Errorf("host %s: seeds: %w", host, err)
			}
			if how.several == (Several{}) {
				continue
			}
			if err := e.spread(host, how.several); err != nil {
				return err
			}
		}
		return nil
	})
	return report, err
}

// lookUpNew finds the addresses of those hosts that are not known yet and are to be
// collected, before any transaction is open.
func (m *Manager) lookUpNew(ctx context.Context, names []string, how found) (map[string]addresses, error) {
	known := map[string]addresses{}
	var ask []string
	for _, host := range names {
		if a, ok := how.addresses[host]; ok {
			known[host] = a
			continue
		}
		var exists bool
		if err := m.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM hosts WHERE name = ?)`, host).Scan(&exists); err != nil {
			return nil, fmt.Errorf("host %s: %w", host, err)
		}
		if !exists && how.judge(host) == Accepted {
			ask = append(ask, host)
		}
	}
	for host, a := range m.resolve(ctx, ask) {
		known[host] = a
	}
	return known, nil
}

func (e *edit) admitHost(host string, how found, known addresses, report *Report) error {
	state := how.judge(host)
	domain := ""
	if how.source != "" {
		domain = registered(host)
		full, err := e.full(domain, how.perDomain)
		if err != nil {
			return err
		}
		if full && state == Accepted {
			state = Pending
		}
	}
	now := db.Millis(time.Now())
	n, err := e.exec(`
		INSERT INTO hosts (name, state, source, created, addresses, grp, resolved, waiting, domain) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		host, state, how.source, now, known.String(), known.group(host), known.when(now), state == Accepted, domain)
	if err != nil {
		return err
	}
	if n == 0 && how.promote {
		n, err = e.exec(`UPDATE hosts SET state = ?, waiting = 1 WHERE name = ? AND state <> ?`, state, host, state)
		if err != nil {
			return err
		}
		if len(known) > 0 {
			if err := e.setAddresses(host, known, now); err != nil {
				return err
			}
		}
	}
	switch {
	case n == 0:
		report.Known++
	case state == Accepted:
		report.Accepted++
	case state == Pending:
		report.Pending++
	default:
		report.Refused++
	}
	return nil
}

// full reports whether the domain has as many hosts as robots may add.
func (e *edit) full(domain string, most int) (bool, error) {
	if most <= 0 {
		return false, nil
	}
	var n int
	err := e.tx.QueryRowContext(e.ctx, `SELECT COUNT(*) FROM hosts WHERE domain = ? AND domain <> '' AND state = 'accepted'`, domain).Scan(&n)
	return n >= most, err
}

func (e *edit) addSeeds(host string, lines []wire.HostLine, how found) error {
	var have, added int64
	if how.maxSeeds < math.MaxInt64 {
		if err := e.tx.QueryRowContext(e.ctx, `SELECT COUNT(*) FROM seeds WHERE host = ?`, host).Scan(&have); err != nil {
			return err
		}
	}
	most := how.maxSeeds
	if have+int64(len(lines)) > most {
		var err error
		if most, err = e.seedsFrom(host, how); err != nil {
			return err
		}
	}
	for _, l := range lines {
		if have+added >= most {
			break
		}
		n, err := e.exec(`INSERT INTO seeds (host, url, referer, depth) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, host, l.URL, l.Referer, l.Depth)
		if err != nil {
			return err
		}
		added += n
	}
	if added == 0 {
		return nil
	}
	robots, err := e.robotsOf(host)
	for _, r := range robots {
		e.touched[r] = true
	}
	return err
}

// seedsFrom gives how many start URLs a host may have when a robot brings more than usual: of a host that
// it shares with others by URL, all that leads to the others' shares.
func (e *edit) seedsFrom(host string, how found) (int64, error) {
	const maxSplitSeeds = 1_000_000
	var shared bool
	err := e.tx.QueryRowContext(e.ctx, `
		SELECT EXISTS (SELECT 1 FROM hosts h JOIN assignments a ON a.host = h.name AND a.to_generation IS NULL
		WHERE h.name = ? AND h.parts > 1 AND a.robot = ?)`, host, how.source).Scan(&shared)
	if shared {
		return maxSplitSeeds, err
	}
	return how.maxSeeds, err
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
