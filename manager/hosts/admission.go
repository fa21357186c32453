package hosts

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"sheaf/internal/db"
	"sheaf/internal/peer"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// maxFoundSeeds is the number of a host's start URLs at which robots cannot add more. So a report
// with all pages of a large site does not fill the lists. Operators may add more.
const maxFoundSeeds = 100

// rules say how to enter a list of hosts.
type rules struct {
	source      string                  // robot, or SourceWatch; "": an operator
	judge       func(host string) State // the state of a new host
	promote     bool                    // known hosts also get the state that judge returns
	maxSeeds    int64                   // start URLs of one host
	perRobot    int                     // new hosts of the source within a day; 0: any number
	perDay      int                     // new hosts of all robots within a day; 0: any number
	perDomain   int                     // accepted hosts of one registered domain; 0: any number
	addresses   map[string]addresses    // known beforehand
	replication assign.Replication
}

// admit enters a list of hosts by the rules, in one transaction.
func (r *Registry) admit(ctx context.Context, lines []wire.HostLine, how rules) (Report, error) {
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
	at, err := r.lookUpNew(ctx, names, how)
	if err != nil {
		return Report{}, err
	}
	var report Report
	err = r.assignments.Change(ctx, func(t *assign.Tx) error {
		a := &admission{tx: t, rules: how, full: map[string]int{}, now: db.Millis(time.Now())}
		if how.source != "" {
			if a.refused, err = refusedNames(ctx, t); err != nil {
				return err
			}
		}
		if err := a.enterAll(ctx, names, seeds, at); err != nil {
			return err
		}
		report = a.report
		if how.replication == (assign.Replication{}) {
			return nil
		}
		for _, host := range names {
			if err := t.SetReplication(ctx, host, how.replication); err != nil {
				return err
			}
		}
		return nil
	})
	return report, err
}

// lookUpNew returns addresses of hosts. It takes the addresses that the rules give. It looks up the
// other hosts that are new and will be collected, unless they are more than lookUpNow. It runs
// before any transaction is open.
func (r *Registry) lookUpNew(ctx context.Context, names []string, how rules) (map[string]addresses, error) {
	exists, err := knownHosts(ctx, r.db, names, "")
	if err != nil {
		return nil, err
	}
	found := map[string]addresses{}
	var ask []string
	for _, host := range names {
		if a, ok := how.addresses[host]; ok {
			found[host] = a
		} else if !exists[host] && how.judge(host) == Accepted {
			ask = append(ask, host)
		}
	}
	if len(ask) <= lookUpNow {
		maps.Copy(found, r.resolve(ctx, ask))
	}
	return found, nil
}

// knownHosts returns which of the named hosts the database has. If state is not empty, only hosts
// in that state count.
func knownHosts(ctx context.Context, q db.Queryer, names []string, state State) (map[string]bool, error) {
	known := map[string]bool{}
	for some := range slices.Chunk(names, db.RowsAtOnce) {
		found, err := db.Set[string](ctx, q, `SELECT name FROM hosts WHERE name IN `+db.Tuple(len(some))+` AND (? = '' OR state = ?)`, append(db.Args(some), state, state)...)
		if err != nil {
			return nil, fmt.Errorf("known hosts: %w", err)
		}
		maps.Copy(known, found)
	}
	return known, nil
}

// refusedAtAllPorts cuts the ports off the names of hosts, and returns the resulting names that are
// refused.
func refusedAtAllPorts(ctx context.Context, q db.Queryer, hosts []string) (map[string]bool, error) {
	var bare []string
	for _, host := range hosts {
		if name := withoutPort(host); name != host {
			bare = append(bare, name)
		}
	}
	return knownHosts(ctx, q, bare, Refused)
}

// admission enters a list of hosts within one transaction. It inserts new hosts and their start
// URLs together at the end. Nothing can come between: no robot has the hosts yet, and only one
// transaction writes at a time.
type admission struct {
	tx      *assign.Tx
	rules   rules
	refused []string        // domains that robots are to leave out; for lists from robots only
	closed  map[string]bool // hosts that are refused at all ports; for lists from robots only
	full    map[string]int  // by registered domain: the number of its accepted hosts
	room    int             // how many hosts may still be entered
	now     int64           // Unix ms
	report  Report

	hosts, seeds [][]any // rows to insert
}

func (a *admission) enterAll(ctx context.Context, names []string, seeds map[string][]wire.HostLine, at map[string]addresses) error {
	known, err := knownHosts(ctx, a.tx, names, "")
	if err == nil && a.rules.source != "" {
		a.closed, err = refusedAtAllPorts(ctx, a.tx, names)
	}
	if err == nil {
		a.room, err = a.roomToday(ctx)
	}
	if err != nil {
		return err
	}
	for _, host := range names {
		enter := a.enterNew
		if known[host] {
			enter = a.enterKnown
		}
		if err := enter(ctx, host, seeds[host], at[host]); err != nil {
			return fmt.Errorf("host %s: %w", host, err)
		}
	}
	if err := db.Insert(ctx, a.tx, `INSERT INTO hosts (name, state, source, created, addresses, grp, resolved, waiting, domain)`, a.hosts, `ON CONFLICT DO NOTHING`); err != nil {
		return fmt.Errorf("new hosts: %w", err)
	}
	if err := db.Insert(ctx, a.tx, `INSERT INTO seeds (host, url, referer, depth)`, a.seeds, `ON CONFLICT DO NOTHING`); err != nil {
		return fmt.Errorf("new hosts' start URLs: %w", err)
	}
	return nil
}

// judge returns the state of a new host: Refused if its name or domain was refused, otherwise by
// the rules.
func (a *admission) judge(host string) State {
	if name := withoutPort(host); a.closed[name] || within(name, a.refused) {
		return Refused
	}
	return a.rules.judge(host)
}

func (a *admission) enterNew(ctx context.Context, host string, lines []wire.HostLine, at addresses) error {
	if len(a.hosts) >= a.room {
		a.report.Over++
		return nil
	}
	state, domain := a.judge(host), Registered(host)
	if state == Accepted && a.rules.source != "" {
		full, err := a.isFull(ctx, domain)
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
	a.hosts = append(a.hosts, []any{host, state, a.rules.source, a.now, at.String(), at.group(host), at.resolved(a.now), state == Accepted, domain})
	had := map[string]bool{}
	for _, l := range lines {
		if int64(len(had)) < a.rules.maxSeeds && !had[l.URL] {
			had[l.URL] = true
			a.seeds = append(a.seeds, []any{host, l.URL, l.Referer, l.Depth})
		}
	}
	return nil
}

func (a *admission) enterKnown(ctx context.Context, host string, lines []wire.HostLine, at addresses) error {
	state, n := a.rules.judge(host), int64(0)
	if a.rules.promote {
		var err error
		if n, err = a.tx.Exec(ctx, `UPDATE hosts SET state = ?, waiting = 1 WHERE name = ? AND state <> ?`, state, host, state); err != nil {
			return err
		}
		if len(at) > 0 {
			if err := setAddresses(ctx, a.tx, host, at, a.now); err != nil {
				return err
			}
		}
	}
	if n > 0 {
		a.report.count(state)
	} else {
		a.report.Known++
	}
	return a.addSeeds(ctx, host, lines)
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

// roomToday returns how many more hosts the source may enter, after the hosts of the last 24 hours.
func (a *admission) roomToday(ctx context.Context) (room int, err error) {
	room = math.MaxInt
	if a.rules.perRobot <= 0 && a.rules.perDay <= 0 {
		return room, nil
	}
	var mine, all int
	err = a.tx.QueryRowContext(ctx, `
		SELECT COALESCE(SUM(CASE WHEN source = ? THEN 1 ELSE 0 END), 0), COUNT(*) FROM hosts WHERE source <> '' AND source <> ? AND created > ?`,
		a.rules.source, SourceWatch, a.now-(24*time.Hour).Milliseconds()).Scan(&mine, &all)
	if a.rules.perRobot > 0 {
		room = min(room, max(a.rules.perRobot-mine, 0))
	}
	if a.rules.perDay > 0 {
		room = min(room, max(a.rules.perDay-all, 0))
	}
	return room, err
}

// isFull reports whether the domain has all the hosts that robots may add to it.
func (a *admission) isFull(ctx context.Context, domain string) (bool, error) {
	if domain == "" || a.rules.perDomain <= 0 {
		return false, nil
	}
	n, ok := a.full[domain]
	if !ok {
		err := a.tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM hosts WHERE domain = ? AND state = 'accepted' AND source <> ''`, domain).Scan(&n)
		if err != nil {
			return false, err
		}
		a.full[domain] = n
	}
	return n >= a.rules.perDomain, nil
}

// addSeeds adds start URLs to a known host, up to the limit.
func (a *admission) addSeeds(ctx context.Context, host string, lines []wire.HostLine) error {
	var have, added int64
	most := a.rules.maxSeeds
	if most < math.MaxInt64 {
		if err := a.tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM seeds WHERE host = ?`, host).Scan(&have); err != nil {
			return err
		}
	}
	if have+int64(len(lines)) > most {
		var err error
		if most, err = a.seedsOfShared(ctx, host); err != nil {
			return err
		}
	}
	for _, l := range lines {
		if have+added >= most {
			break
		}
		n, err := a.tx.Exec(ctx, `INSERT INTO seeds (host, url, referer, depth) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, host, l.URL, l.Referer, l.Depth)
		if err != nil {
			return err
		}
		added += n
	}
	if added == 0 {
		return nil
	}
	robots, err := assign.RobotsOf(ctx, a.tx, host)
	a.tx.Touch(robots...)
	return err
}

// seedsOfShared returns how many start URLs a host may have. The number is large if the reporting
// robot shares the host with others by URL, because it reports all URLs of other robots' shares.
func (a *admission) seedsOfShared(ctx context.Context, host string) (int64, error) {
	const maxSplitSeeds = 1_000_000
	var shared bool
	err := a.tx.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM hosts h JOIN assignments a ON a.host = h.name AND a.to_generation IS NULL
		WHERE h.name = ? AND h.parts > 1 AND a.robot = ?)`, host, a.rules.source).Scan(&shared)
	if shared {
		return maxSplitSeeds, err
	}
	return a.rules.maxSeeds, err
}

// State says whether a host is collected.
type State string

// States of a host.
const (
	Accepted State = "accepted" // it is collected
	Pending  State = "pending"  // a robot found it; an operator has to decide
	Refused  State = "refused"  // a robot found it outside the policy, or an operator removed or refused it
)

// Policy says what becomes of a host that a robot finds. A domain in a list stands for itself and
// for all names below it: "jp", "ac.jp", "example.com". "*" stands for every host. Hosts that are
// not of the public Internet (peer.IsPublicHost) are refused, unless Accept names them or a domain
// of theirs. So are public suffixes, such as jp and co.jp: nobody has registered them.
type Policy struct {
	Accept    []string `mapstructure:"suffixes"`
	Refuse    []string `mapstructure:"refuse"`                       // takes precedence over Accept; a host in neither list is Pending
	PerDomain int      `mapstructure:"per_domain" want:"at least 0"` // limits the accepted hosts of one registered domain; further ones are Pending. 0: no limit
	PerRobot  int      `mapstructure:"per_robot" want:"at least 0"`  // limits the hosts, in any state, that one robot may enter in 24 hours; further ones are not entered. 0: no limit
	PerDay    int      `mapstructure:"per_day" want:"at least 0"`    // the same of all robots together
	Ports     []int    `mapstructure:"ports"`                        // at which robots may enter hosts; a host at another is Pending, unless it is refused. Empty: any
}

// Registered returns the registered domain of a host by the public suffix list: waseda.ac.jp for
// www.waseda.ac.jp. For an IP address or a public suffix it returns the name itself.
func Registered(host string) string {
	name := withoutPort(host)
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return name
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return domain
	}
	return name
}

// Judge returns the state of a new host, whose name has the form of wire.HostName.
func (p Policy) Judge(host string) State {
	name := withoutPort(host)
	switch {
	case within(name, p.Refuse), isSuffix(name):
		return Refused
	case !peer.IsPublicHost(name) && !within(name, slices.DeleteFunc(slices.Clone(p.Accept), func(d string) bool { return d == "*" })):
		return Refused
	case !p.allowsPort(strings.TrimPrefix(host[len(name):], ":")):
		return Pending
	case within(name, p.Accept):
		return Accepted
	default:
		return Pending
	}
}

// isSuffix reports whether a name is a suffix below which a registry gives names away.
func isSuffix(name string) bool {
	suffix, registry := publicsuffix.PublicSuffix(name)
	return registry && suffix == name
}

// allowsPort reports whether robots may enter hosts at a port; "" is the port of the host's scheme.
func (p Policy) allowsPort(port string) bool {
	n, err := strconv.Atoi(port)
	return port == "" || len(p.Ports) == 0 || err == nil && slices.Contains(p.Ports, n)
}

// within reports whether the name is one of the domains or below one.
func within(name string, domains []string) bool {
	for _, d := range domains {
		d = strings.ToLower(strings.Trim(d, "."))
		if d == "*" || d != "" && (name == d || strings.HasSuffix(name, "."+d)) {
			return true
		}
	}
	return false
}

// withoutPort returns a host's name without its port. IPv6 addresses keep their brackets.
func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		return host[:i]
	}
	return host
}
