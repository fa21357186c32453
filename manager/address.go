package manager

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/db"
)

const (
	lookUps      = 32              // at once
	lookUpTime   = 3 * time.Second // for all hosts of one list; Run goes on with the rest
	refreshEvery = time.Minute
	refreshAfter = 24 * time.Hour
	refreshBatch = 1000
)

// addresses are one host's, sorted and each once.
type addresses []netip.Addr

func newAddresses(list []netip.Addr) addresses {
	a := make(addresses, 0, len(list))
	for _, ip := range list {
		a = append(a, ip.Unmap().WithZone(""))
	}
	slices.SortFunc(a, netip.Addr.Compare)
	return slices.Compact(a)
}

func (a addresses) String() string {
	s := make([]string, len(a))
	for i, ip := range a {
		s[i] = ip.String()
	}
	return strings.Join(s, " ")
}

// group names the hosts that the host belongs with: those of its least address, or
// while none is known those that differ in their port only.
func (a addresses) group(host string) string {
	if len(a) == 0 {
		return withoutPort(host)
	}
	return a[0].String()
}

// when is the time of the look-up: never, where it found nothing.
func (a addresses) when(now int64) int64 {
	if len(a) == 0 {
		return 0
	}
	return now
}

func parseAddresses(given map[string][]string) (map[string]addresses, error) {
	parsed := make(map[string]addresses, len(given))
	for host, list := range given {
		var ips []netip.Addr
		for _, s := range list {
			ip, err := netip.ParseAddr(s)
			if err != nil {
				return nil, fmt.Errorf("addresses of %s: %q is not an IP address", host, s)
			}
			ips = append(ips, ip)
		}
		if len(ips) == 0 {
			return nil, fmt.Errorf("addresses of %s: the list is empty", host)
		}
		parsed[host] = newAddresses(ips)
	}
	return parsed, nil
}

// resolve asks for the addresses of hosts, as many as it can in lookUpTime. A host
// without an answer is left out: a failure of the DNS must not stop a list.
func (m *Manager) resolve(ctx context.Context, hosts []string) map[string]addresses {
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	answers := make([]addresses, len(hosts))
	var g errgroup.Group
	g.SetLimit(lookUps)
	for i, host := range hosts {
		name := strings.Trim(withoutPort(host), "[]")
		if ip, err := netip.ParseAddr(name); err == nil {
			answers[i] = newAddresses([]netip.Addr{ip})
			continue
		}
		if ctx.Err() != nil {
			continue
		}
		g.Go(func() error {
			list, err := m.opt.Resolver.LookupNetIP(ctx, "ip", name)
			if err != nil {
				m.log.DebugContext(ctx, "no address", "host", host, "err", err)
				return nil
			}
			answers[i] = newAddresses(list)
			return nil
		})
	}
	g.Wait() // no error: failures are tolerated
	found := make(map[string]addresses, len(hosts))
	for i, host := range hosts {
		if len(answers[i]) > 0 {
			found[host] = answers[i]
		}
	}
	return found
}

// setAddresses notes where the host is. Where another robot has the hosts of that
// address, the host goes to it.
func (e *edit) setAddresses(host string, a addresses, now int64) error {
	group := a.group(host)
	var state State
	err := e.tx.QueryRowContext(e.ctx, `SELECT state FROM hosts WHERE name = ?`, host).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", host, ErrUnknownHost)
	}
	if err != nil {
		return err
	}
	if _, err := e.exec(`UPDATE hosts SET grp = '' WHERE name = ?`, host); err != nil { // so that it does not own its new group itself
		return err
	}
	owner, err := e.owner(group)
	if err != nil {
		return err
	}
	if _, err := e.exec(`UPDATE hosts SET addresses = ?, grp = ?, resolved = ? WHERE name = ?`, a.String(), group, now, host); err != nil {
		return err
	}
	held, err := e.holders(host)
	if err != nil || state != Accepted || owner == "" || len(held) == 0 || first(held) == owner {
		return err
	}
	if err := e.take(host); err != nil {
		return err
	}
	_, err = e.exec(`UPDATE hosts SET waiting = 1 WHERE name = ?`, host)
	return err
}

// ReportAddresses notes the addresses at which a robot reached hosts that it has.
func (m *Manager) ReportAddresses(ctx context.Context, robot string, given map[string][]string) error {
	parsed, err := parseAddresses(given)
	if err != nil {
		return err
	}
	return m.edit(ctx, func(e *edit) error {
		for host, a := range parsed {
			robots, err := e.robotsOf(host)
			if err != nil {
				return err
			}
			if !slices.Contains(robots, robot) {
				return fmt.Errorf("%s: %w", host, errNotYours)
			}
			if err := e.setAddresses(host, a, db.Millis(time.Now())); err != nil {
				return err
			}
		}
		return nil
	})
}

var errNotYours = errors.New("the host is not in this robot's list")

// Run does what is due by itself until ctx ends: it looks addresses up anew, watches over
// the robots and shares hosts out as Options.Balance says.
func (m *Manager) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.keepAddresses(ctx) })
	g.Go(func() error { return m.keep(ctx) })
	g.Go(func() error { return m.keepPlanning(ctx) })
	return g.Wait()
}

// keepAddresses looks up hosts whose address is not known, and daily all.
func (m *Manager) keepAddresses(ctx context.Context) error {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		if _, err := m.refreshAddresses(ctx, time.Now().Add(-refreshAfter)); err != nil && ctx.Err() == nil {
			m.log.ErrorContext(ctx, "looking up addresses failed", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// refreshAddresses looks up a batch of hosts whose addresses are from before the
// given time, the oldest first, and tells how many were found.
func (m *Manager) refreshAddresses(ctx context.Context, before time.Time) (int, error) {
	hosts, err := column[string](ctx, m.db, `
		SELECT name FROM hosts WHERE state = 'accepted' AND resolved < ? ORDER BY resolved LIMIT ?`, db.Millis(before), refreshBatch)
	if err != nil || len(hosts) == 0 {
		return 0, err
	}
	found := m.resolve(ctx, hosts)
	err = m.edit(ctx, func(e *edit) error {
		now := db.Millis(time.Now())
		for _, host := range hosts {
			a, ok := found[host]
			if !ok { // to the end of the queue, with what is known of it; an hour on, it is asked for again
				if _, err := e.exec(`UPDATE hosts SET resolved = ? WHERE name = ?`, now-refreshAfter.Milliseconds()+time.Hour.Milliseconds(), host); err != nil {
					return err
				}
				continue
			}
			if err := e.setAddresses(host, a, now); err != nil && !errors.Is(err, ErrUnknownHost) {
				return err
			}
		}
		return nil
	})
	return len(found), err
}
