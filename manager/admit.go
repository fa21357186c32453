package manager

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// maxFoundSeeds is how many start URLs of one host robots may add, so that a report of
// every page of a large site does not swell the lists. Operators are not bound by it.
const maxFoundSeeds = 100

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
	at, err := m.lookUpNew(ctx, names, how)
	if err != nil {
		return Report{}, err
	}
	var report Report
	err = m.edit(ctx, func(e *edit) error {
		a := &admission{edit: e, found: how, full: map[string]int{}, now: db.Millis(time.Now())}
		if err := a.take(names, seeds, at); err != nil {
			return err
		}
		report = a.report
		if how.several == (Several{}) {
			return nil
		}
		for _, host := range names {
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
	exists, err := knownHosts(ctx, m.db, names)
	if err != nil {
		return nil, err
	}
	known := map[string]addresses{}
	var ask []string
	for _, host := range names {
		if a, ok := how.addresses[host]; ok {
			known[host] = a
			continue
		}
		if !exists[host] && how.judge(host) == Accepted {
			ask = append(ask, host)
		}
	}
	for host, a := range m.resolve(ctx, ask) {
		known[host] = a
	}
	return known, nil
}

// knownHosts gives those of the hosts that the manager knows.
func knownHosts(ctx context.Context, q queryer, names []string) (map[string]bool, error) {
	known := map[string]bool{}
	for some := range slices.Chunk(names, rowsAtOnce) {
		found, err := column[string](ctx, q, `SELECT name FROM hosts WHERE name IN `+tuple(len(some)), anys(some)...)
		if err != nil {
			return nil, fmt.Errorf("known hosts: %w", err)
		}
		for _, host := range found {
			known[host] = true
		}
	}
	return known, nil
}

// admission takes a list of hosts within one edit. New hosts and their start URLs are entered together at
// the end: no robot has them yet, and an edit is the only one that writes, so that nothing can come between.
type admission struct {
	*edit
	found
	full   map[string]int // by registered domain: the accepted hosts
	now    int64
	report Report

	hosts, seeds [][]any // rows to enter
}

func (a *admission) take(names []string, seeds map[string][]wire.HostLine, at map[string]addresses) error {
	known, err := knownHosts(a.ctx, a.tx, names)
	if err != nil {
		return err
	}
	for _, host := range names {
		if known[host] {
			err = a.again(host, seeds[host], at[host])
		} else {
			err = a.enter(host, seeds[host], at[host])
		}
		if err != nil {
			return fmt.Errorf("host %s: %w", host, err)
		}
	}
	if err := a.insert(`INSERT INTO hosts (name, state, source, created, addresses, grp, resolved, waiting, domain)`, a.hosts); err != nil {
		return fmt.Errorf("new hosts: %w", err)
	}
	if err := a.insert(`INSERT INTO seeds (host, url, referer, depth)`, a.seeds); err != nil {
		return fmt.Errorf("new hosts' seeds: %w", err)
	}
	return nil
}

// enter takes a host that is new.
func (a *admission) enter(host string, lines []wire.HostLine, at addresses) error {
	state, domain := a.judge(host), ""
	if a.source != "" {
		domain = registered(host)
	}
	if state == Accepted {
		full, err := a.isFull(domain)
		if err != nil {
			return err
		}
		if full {
			state = Pending
		} else {
			a.full[domain]++
		}
	}
	a.report.count(state)
	a.hosts = append(a.hosts, []any{host, state, a.source, a.now, at.String(), at.group(host), at.when(a.now), state == Accepted, domain})
	had := map[string]bool{}
	for _, l := range lines {
		if int64(len(had)) < a.maxSeeds && !had[l.URL] {
			had[l.URL] = true
			a.seeds = append(a.seeds, []any{host, l.URL, l.Referer, l.Depth})
		}
	}
	return nil
}

// again takes a host that is known.
func (a *admission) again(host string, lines []wire.HostLine, at addresses) error {
	state, n := a.judge(host), int64(0)
	if a.promote {
		var err error
		if n, err = a.exec(`UPDATE hosts SET state = ?, waiting = 1 WHERE name = ? AND state <> ?`, state, host, state); err != nil {
			return err
		}
		if len(at) > 0 {
			if err := a.setAddresses(host, at, a.now); err != nil {
				return err
			}
		}
	}
	if n > 0 {
		a.report.count(state)
	} else {
		a.report.Known++
	}
	return a.addSeeds(host, lines, a.found)
}

func (r *Report) count(state State) {
	switch state {
	case Accepted:
		r.Accepted++
	case Pending:
		r.Pending++
	default:
		r.Refused++
	}
}

// isFull reports whether the domain has as many hosts as robots may add.
func (a *admission) isFull(domain string) (bool, error) {
	if domain == "" || a.perDomain <= 0 {
		return false, nil
	}
	n, ok := a.full[domain]
	if !ok {
		err := a.tx.QueryRowContext(a.ctx, `SELECT COUNT(*) FROM hosts WHERE domain = ? AND domain <> '' AND state = 'accepted'`, domain).Scan(&n)
		if err != nil {
			return false, err
		}
		a.full[domain] = n
	}
	return n >= a.perDomain, nil
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
