package manager

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sheaf/manager/balance"
)

// picture is what is known, at one moment, of robots, hosts and costs: the planner's input.
type picture struct {
	robots []string
	slow   []float64 // by robot: ms for what takes 1 ms at the middle one
	able   int       // so many robots work by shares

	hosts  []string
	group  []string
	at     []int     // by host: its robot; -1: one that is not among robots, or none
	weight []float64 // by host: ms at the middle robot
	kb     []float64 // by host: KB of a night; 0: not known

	generation int64         // of the assignment
	parts      []int         // by host: robots among whom its URLs are to be shared; 1: it is whole
	further    map[int][]int // by host: the robots besides at that have it too, by slot

	measured [][]pair // by host
	oddities int      // samples that were kept apart
	typical  float64  // weight of a host that nobody has measured
}

// pair is a robot's measured distance to a host.
type pair struct {
	robot   int
	msPerKB float64
}

// known gives the measured distance.
func (p *picture) known(robot, host int) (msPerKB float64, ok bool) {
	for _, m := range p.measured[host] {
		if m.robot == robot {
			return m.msPerKB, true
		}
	}
	return 0, false
}

// cost is the time in ms that the host's pages take at the robot, or that its share of them does.
func (p *picture) cost(robot, host int) float64 { return p.whole(robot, host) / float64(p.parts[host]) }

// whole is the time in ms that all of the host's pages take at the robot: measured, else thought.
func (p *picture) whole(robot, host int) float64 {
	if d, ok := p.known(robot, host); ok && p.kb[host] > 0 {
		return d * p.kb[host]
	}
	return p.slow[robot] * p.weight[host]
}

// look takes a picture of the accepted hosts that fulfil a
// condition in SQL on hosts h, of the robots that take part and are heard of, and of what was measured.
func (m *Manager) look(ctx context.Context, where string, args ...any) (p *picture, err error) {
	return m.lookAt(ctx, nil, where, args...)
}

// lookAt is look with what some robots have measured, or where they are nil all of them: of a million pairs two
// robots' are read much sooner.
func (m *Manager) lookAt(ctx context.Context, robots []string, where string, args ...any) (p *picture, err error) {
	err = m.transact(ctx, &sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) error {
		p = &picture{}
		if err := p.readRobots(ctx, tx); err != nil {
			return err
		}
		number, err := p.readHosts(ctx, tx, where, args)
		if err != nil {
			return err
		}
		where, args := measuredBy(robots, where, args)
		return p.readCosts(ctx, tx, number, m.opt.Balance.Zone, where, args)
	})
	if err != nil {
		return nil, fmt.Errorf("balance: %w", err)
	}
	return p, nil
}

// measuredBy narrows a condition on hosts h to the costs t of some robots.
func measuredBy(robots []string, where string, args []any) (string, []any) {
	if robots == nil {
		return where, args
	}
	args = slices.Clone(args)
	for _, r := range robots {
		args = append(args, r)
	}
	return where + ` AND t.robot IN (?` + strings.Repeat(`, ?`, len(robots)-1) + `)`, args
}

func (p *picture) readRobots(ctx context.Context, tx *sql.Tx) error {
	if err := tx.QueryRowContext(ctx, `SELECT typical, (SELECT number FROM generation) FROM plans`).Scan(&p.typical, &p.generation); err != nil {
		return err
	}
	rows, err := tx.QueryContext(ctx, `SELECT name, slow, shares FROM robots WHERE subscribed = 1 AND lapsed = 0 ORDER BY name`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var slow float64
		var shares int
		if err := rows.Scan(&name, &slow, &shares); err != nil {
			return err
		}
		p.able += shares
		p.robots, p.slow = append(p.robots, name), append(p.slow, slow)
	}
	return rows.Err()
}

// readHosts reads the hosts in the order of their names, and gives their numbers.
func (p *picture) readHosts(ctx context.Context, tx *sql.Tx, where string, args []any) (map[string]int, error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT h.name, h.grp, h.weight, h.parts, a.robot
		FROM hosts h LEFT JOIN assignments a ON a.host = h.name AND a.to_generation IS NULL AND a.slot = 0
		WHERE h.state = 'accepted' AND `+where+` ORDER BY h.name`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	number := map[string]int{}
	for rows.Next() {
		var name, group string
		var weight sql.NullFloat64
		var robot sql.NullString
		var parts int
		if err := rows.Scan(&name, &group, &weight, &parts, &robot); err != nil {
			return nil, err
		}
		if !weight.Valid {
			weight.Float64 = p.typical
		}
		at, found := slices.BinarySearch(p.robots, robot.String)
		if !found {
			at = -1
		}
		number[name] = len(p.hosts)
		p.hosts, p.group, p.at = append(p.hosts, name), append(p.group, group), append(p.at, at)
		p.weight, p.parts = append(p.weight, weight.Float64), append(p.parts, parts)
	}
	p.kb, p.measured = make([]float64, len(p.hosts)), make([][]pair, len(p.hosts))
	return number, errors.Join(rows.Err(), p.readFurther(ctx, tx, number))
}

// readFurther reads who has hosts besides their first robots.
func (p *picture) readFurther(ctx context.Context, tx *sql.Tx, number map[string]int) error {
	rows, err := tx.QueryContext(ctx, `
		SELECT a.host, a.robot FROM hosts h JOIN assignments a ON a.host = h.name AND a.to_generation IS NULL AND a.slot > 0
		WHERE h.copies > 1 OR h.parts > 1 ORDER BY a.host, a.slot`)
	if err != nil {
		return err
	}
	defer rows.Close()
	p.further = map[int][]int{}
	for rows.Next() {
		var host, robot string
		if err := rows.Scan(&host, &robot); err != nil {
			return err
		}
		j, ok := number[host]
		i, found := slices.BinarySearch(p.robots, robot)
		if ok && found {
			p.further[j] = append(p.further[j], i)
		}
	}
	return rows.Err()
}

// readCosts reads what was measured: by collecting, and, where a robot has not collected a host, by probing.
func (p *picture) readCosts(ctx context.Context, tx *sql.Tx, number map[string]int, zone *time.Location, where string, args []any) error {
	latest := make([]int64, len(p.hosts)) // hour that a host's kb is from
	together := map[int]samples{}         // of hosts whose nights are shared
	err := readSamples(ctx, tx, where, args, func(robot, host string, list samples) {
		j, ok := number[host]
		if !ok || len(list) == 0 {
			return
		}
		if p.parts[j] > 1 {
			for _, s := range list {
				together[j] = together[j].add(s)
			}
		} else if last := list[len(list)-1].hour; last > latest[j] {
			latest[j], p.kb[j] = last, list.nightly(zone)
		}
		if i, ok := slices.BinarySearch(p.robots, robot); ok {
			if d, odd := list.distance(); d > 0 {
				p.measured[j] = append(p.measured[j], pair{i, d})
				p.oddities += len(odd)
			}
		}
	})
	if err != nil {
		return err
	}
	for j, list := range together {
		p.kb[j] = list.nightly(zone)
	}
	rows, err := tx.QueryContext(ctx, `SELECT robot, host, bytes, ms FROM probes WHERE done > 0 AND bytes >= 1024`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var robot, host string
		var bytes, ms int64
		if err := rows.Scan(&robot, &host, &bytes, &ms); err != nil {
			return err
		}
		j, ok := number[host]
		if !ok {
			continue
		}
		if i, ok := slices.BinarySearch(p.robots, robot); ok {
			if _, have := p.known(i, j); !have {
				p.measured[j] = append(p.measured[j], pair{i, max(float64(ms), 1) / (float64(bytes) / 1024)})
			}
		}
	}
	return rows.Err()
}

func readSamples(ctx context.Context, tx *sql.Tx, where string, args []any, each func(robot, host string, list samples)) error {
	rows, err := tx.QueryContext(ctx, `
		SELECT t.robot, t.host, t.samples FROM hosts h JOIN costs t ON t.host = h.name
		WHERE t.samples IS NOT NULL AND `+where, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var robot, host string
		var blob []byte
		if err := rows.Scan(&robot, &host, &blob); err != nil {
			return err
		}
		list, err := parseSamples(blob)
		if err != nil {
			return fmt.Errorf("host %s at robot %s: %w", host, robot, err)
		}
		each(robot, host, list)
	}
	return rows.Err()
}

// fit estimates robots' and hosts' factors from all that was measured, and with them
// what nobody has measured. It reports whether there was anything to go by.
func (p *picture) fit() bool {
	var seen []balance.Measured
	var known []float64
	for j, list := range p.measured {
		for _, m := range list {
			seen = append(seen, balance.Measured{Robot: m.robot, Host: j, MsPerKB: m.msPerKB})
		}
		if p.kb[j] > 0 {
			known = append(known, p.kb[j])
		}
	}
	if len(seen) == 0 || len(known) == 0 {
		return false
	}
	slices.Sort(known)
	usual := known[len(known)/2]
	// A robot and a host that nobody has measured stand for the middle ones.
	robot, host := len(p.robots), len(p.hosts)
	distance := balance.Distance(robot+1, host+1, seen)
	middle := distance(robot, host)
	for i := range p.slow {
		p.slow[i] = distance(i, host) / middle
	}
	for j := range p.weight {
		kb := p.kb[j]
		if kb == 0 {
			kb = usual
		}
		p.weight[j] = kb * distance(robot, j)
	}
	p.typical = usual * middle
	return true
}

// plan groups the hosts of one address and prices the groups. of gives each host's group
// by number, from the robot that each has now. Further robots of a host are left out.
func (p *picture) plan(cost balance.Func) (c *balance.Costs, of []int, from balance.Plan, err error) {
	c, of, err = balance.Grouped(len(p.robots), len(p.hosts), cost, func(j int) string { return p.group[j] })
	if err != nil {
		return nil, nil, nil, err
	}
	from = make(balance.Plan, c.Hosts)
	for n := range from {
		from[n] = -1
	}
	for j, n := range of {
		if p.at[j] >= 0 {
			from[n] = p.at[j]
		}
	}
	return c, of, from, nil
}
