package hosts

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/db"
	"sheaf/manager/assign"
)

// RefreshAfter is the age at which a host's addresses are to be looked up again.
const RefreshAfter = 24 * time.Hour

const (
	lookUps      = 32              // at once
	lookUpTime   = 3 * time.Second // for all hosts of a list; RefreshAddresses looks up the hosts that took longer
	lookUpNow    = 1000            // hosts of a list; RefreshAddresses looks up all hosts of a larger list
	refreshBatch = 1000            // hosts
)

// ErrNotAssigned says that a robot reported addresses of a host that it does not have.
var ErrNotAssigned = errors.New("the host is not in this robot's list")

// addresses are the IP addresses of one host, sorted, each once.
type addresses []netip.Addr

func newAddresses(list []netip.Addr) addresses {
	a := make(addresses, 0, len(list))
	for _, ip := range list {
		a = append(a, ip.Unmap().WithZone(""))
	}
	slices.SortFunc(a, netip.Addr.Compare)
	return slices.Compact(a)
}

// String returns the addresses as the database keeps them, separated by blanks.
func (a addresses) String() string {
	s := make([]string, len(a))
	for i, ip := range a {
		s[i] = ip.String()
	}
	return strings.Join(s, " ")
}

// group returns the name of the host's group: its lowest address, or, if none is known, its name
// without the port.
func (a addresses) group(host string) string {
	if len(a) == 0 {
		return withoutPort(host)
	}
	return a[0].String()
}

// resolved returns the time of the look-up, which is now, or 0 if it found no address.
func (a addresses) resolved(now int64) int64 {
	if len(a) == 0 {
		return 0
	}
	return now
}

// parseAddresses parses addresses by host. Its errors are assign.Invalid.
func parseAddresses(given map[string][]string) (map[string]addresses, error) {
	parsed := make(map[string]addresses, len(given))
	for host, list := range given {
		var ips []netip.Addr
		for _, s := range list {
			ip, err := netip.ParseAddr(s)
			if err != nil {
				return nil, assign.Invalid{Err: fmt.Errorf("addresses of %s: %q is not an IP address", host, s)}
			}
			ips = append(ips, ip)
		}
		if len(ips) == 0 {
			return nil, assign.Invalid{Err: fmt.Errorf("addresses of %s: the list is empty", host)}
		}
		parsed[host] = newAddresses(ips)
	}
	return parsed, nil
}

// resolve looks up as many of the hosts as it can in lookUpTime. It leaves out hosts without an
// answer: a failure of the DNS must not stop a list.
func (r *Registry) resolve(ctx context.Context, hosts []string) map[string]addresses {
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
			list, err := r.resolver.LookupNetIP(ctx, "ip", name)
			if err != nil {
				r.log.DebugContext(ctx, "host has no address", "host", host, "err", err)
				return nil
			}
			answers[i] = newAddresses(list)
			return nil
		})
	}
	g.Wait() // never fails
	found := make(map[string]addresses, len(hosts))
	for i, host := range hosts {
		if len(answers[i]) > 0 {
			found[host] = answers[i]
		}
	}
	return found
}

// setAddresses stores a host's addresses. The host stays in its group as long as the group's
// address is among them: its robot may have found that it answers only there. If it changes to a
// group that another robot has, the host goes to that robot.
func setAddresses(ctx context.Context, t *assign.Tx, host string, a addresses, now int64) error {
	group := a.group(host)
	var state State
	var before string
	err := t.QueryRowContext(ctx, `SELECT state, grp FROM hosts WHERE name = ?`, host).Scan(&state, &before)
	if err != nil {
		return db.OrNone(err, fmt.Errorf("%s: %w", host, assign.ErrUnknownHost))
	}
	if slices.ContainsFunc(a, func(ip netip.Addr) bool { return ip.String() == before }) {
		group = before
	}
	if group != before && state == Accepted {
		if err := joinGroup(ctx, t, host, group); err != nil {
			return err
		}
	}
	_, err = t.Exec(ctx, `UPDATE hosts SET addresses = ?, grp = ?, resolved = ? WHERE name = ?`, a.String(), group, now, host)
	if err != nil || group == before {
		return err
	}
	return t.Joined(ctx, group, host)
}

// joinGroup prepares a host to join a group. If another robot has the group, the host waits for a
// new robot. The database must still name the host's old group: its robot may go on visiting that
// address for a while.
func joinGroup(ctx context.Context, t *assign.Tx, host, group string) error {
	owner, err := assign.OwnerOf(ctx, t, group)
	if err != nil || owner == "" {
		return err
	}
	first, assigned, err := assign.FirstRobot(ctx, t, host)
	if err != nil || !assigned || first == owner {
		return err
	}
	return t.Reassign(ctx, host)
}

// ReportAddresses stores the addresses at which a robot reached its hosts. For a host of another
// robot it returns ErrNotAssigned and changes nothing.
func (r *Registry) ReportAddresses(ctx context.Context, robot string, given map[string][]string) error {
	parsed, err := parseAddresses(given)
	if err != nil {
		return err
	}
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		for host, a := range parsed {
			robots, err := assign.RobotsOf(ctx, t, host)
			if err != nil {
				return err
			}
			if !slices.Contains(robots, robot) {
				return fmt.Errorf("%s: %w", host, ErrNotAssigned)
			}
			if err := setAddresses(ctx, t, host, a, db.Millis(time.Now())); err != nil {
				return err
			}
		}
		return nil
	})
}

// RefreshAddresses looks up the hosts whose addresses are older than the given time, the oldest
// first. It returns how many of them were found.
func (r *Registry) RefreshAddresses(ctx context.Context, before time.Time) (found int, err error) {
	for {
		asked, n, err := r.refreshBatch(ctx, before)
		found += n
		if err != nil || asked < refreshBatch {
			return found, err
		}
	}
}

// refreshBatch looks up one batch for RefreshAddresses. It returns how many hosts it looked up, and
// how many of them were found.
func (r *Registry) refreshBatch(ctx context.Context, before time.Time) (asked, answered int, err error) {
	hosts, err := db.Column[string](ctx, r.db, `
		SELECT name FROM hosts WHERE state = 'accepted' AND (resolved < ? OR resolved > ?) ORDER BY resolved LIMIT ?`,
		db.Millis(before), db.Millis(before.Add(2*RefreshAfter)), refreshBatch) // the latter by a clock that was ahead
	if err != nil || len(hosts) == 0 {
		return 0, 0, err
	}
	found := r.resolve(ctx, hosts)
	err = r.assignments.Change(ctx, func(t *assign.Tx) error {
		now := time.Now()
		for _, host := range hosts {
			a, ok := found[host]
			if !ok { // it keeps its addresses and is looked up again in an hour
				again := now.Add(time.Hour - RefreshAfter)
				if _, err := t.Exec(ctx, `UPDATE hosts SET resolved = ? WHERE name = ?`, db.Millis(again), host); err != nil {
					return err
				}
				continue
			}
			if err := setAddresses(ctx, t, host, a, db.Millis(now)); err != nil && !errors.Is(err, assign.ErrUnknownHost) {
				return err
			}
		}
		return nil
	})
	return len(hosts), len(found), err
}
