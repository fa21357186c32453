package levelling

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/balance"
)

// snapshot is what was known of robots, hosts and costs at one moment. Robots and hosts have
// numbers: their indexes in robots and hosts, which are sorted.
type snapshot struct {
	robots  []string
	slow    []float64 // by robot: ms that it takes where the median robot takes 1 ms
	paces   []balance.Pace
	weekday []float64 // by robot: transfer time on the weekday of its night, as a multiple of its mean
	able    int       // how many robots can collect a share of a host's URLs

	hosts  []string
	group  []string  // by host
	at     []int     // by host: its robot in slot 0; -1: none, or one that does not take part
	weight []float64 // by host: ms at the median robot
	kb     []float64 // by host: KB of a night; 0: not known
	pages  []float64 // by host: requests of a night; 0: not known
	gap    []gap     // by host
	parts  []int     // by host: number of robots that are to share its URLs

	others   map[int][]int // by host: its robots in slots from 1 on, in this order
	measured [][]distance  // by host

	generation int64 // number of the assignment
	outliers   int   // samples that were left out
	unmeasured night // assumed for a host that nobody has measured

	rates     []rate // by robot; set by estimateRates
	estimates doubt  // of estimated distances
}

// night is a host's transfer time, bytes and requests in one night.
type night struct {
	weight float64 // ms at the median robot
	kb     float64
	pages  float64 // requests
}

// doubt says how far estimates may be wrong.
type doubt struct {
	factor float64 // by which one estimate may be wrong
	raise  float64 // by which all estimates are raised, because the lowest are more often too low than too high; 0: 1
}

// distance is a robot's measured distance to a host.
type distance struct {
	robot   int
	msPerKB float64
}

// distance returns the measured distance of a robot to a host; ok is false if it was not measured.
func (s *snapshot) distance(robot, host int) (msPerKB float64, ok bool) {
	for _, d := range s.measured[host] {
		if d.robot == robot {
			return d.msPerKB, true
		}
	}
	return 0, false
}

// cost returns the ms that the robot takes for the host, or for its share of it.
func (s *snapshot) cost(robot, host int) float64 {
	return s.wholeCost(robot, host) / float64(s.parts[host])
}

// wholeCost returns the ms that the robot takes for all of the host, measured or estimated.
func (s *snapshot) wholeCost(robot, host int) float64 {
	if d, ok := s.distance(robot, host); ok && s.kb[host] > 0 {
		return d * s.kb[host]
	}
	return s.slow[robot] * s.weight[host] * max(s.estimates.raise, 1)
}

// hostFilter selects the hosts of a snapshot, and the robots whose measurements it reads.
type hostFilter struct {
	where  string // SQL condition on hosts h
	args   []any
	robots []string // nil: all
	silent []string // silent robots, left out with their hosts
}

// without selects all hosts except those of silent robots. So silent robots keep their hosts and
// get no others.
func without(silent []string) hostFilter {
	if len(silent) == 0 {
		return hostFilter{where: "1 = 1"}
	}
	return hostFilter{where: `NOT EXISTS (SELECT 1 FROM assignments q
		WHERE q.host = h.name AND q.to_generation IS NULL AND q.slot = 0 AND q.robot IN ` + db.Tuple(len(silent)) + `)`, args: db.Args(silent), silent: silent}
}

// costFilter returns the SQL condition on hosts h and costs t. It restricts t to the filter's
// robots, because all robots may have measured millions of pairs.
func (f hostFilter) costFilter() (string, []any) {
	if f.robots == nil {
		return f.where, f.args
	}
	return f.where + ` AND t.robot IN ` + db.Tuple(len(f.robots)), slices.Concat(f.args, db.Args(f.robots))
}

// snapshot reads the accepted hosts that the filter selects, the robots that take part and have not
// lapsed, and the measurements.
func (l *Leveller) snapshot(ctx context.Context, filter hostFilter) (s *snapshot, err error) {
	err = db.ReadOnly(ctx, l.db, func(tx *sql.Tx) error {
		s = &snapshot{}
		if err := s.readRobots(ctx, tx, filter.silent); err != nil {
			return err
		}
		number, err := s.readHosts(ctx, tx, filter)
		if err != nil {
			return err
		}
		if err := s.readSamples(ctx, tx, number, l.opt.Zone, filter); err != nil {
			return err
		}
		if err := s.readProbes(ctx, tx, number); err != nil {
			return err
		}
		if err := s.readWeekday(ctx, tx, time.Now().In(l.opt.Zone)); err != nil {
			return err
		}
		return s.readPaces(ctx, tx)
	})
	if err != nil {
		return nil, fmt.Errorf("balance: %w", err)
	}
	return s, nil
}

// robot returns the number of the robot with a name; ok is false if the snapshot lacks it.
func (s *snapshot) robot(name string) (i int, ok bool) { return slices.BinarySearch(s.robots, name) }

func (s *snapshot) readRobots(ctx context.Context, tx *sql.Tx, silent []string) error {
	if err := tx.QueryRowContext(ctx, `SELECT typical, (SELECT number FROM generation) FROM plans`).Scan(&s.unmeasured.weight, &s.generation); err != nil {
		return err
	}
	return db.Each(ctx, tx, func(rows *sql.Rows) error {
		var name string
		var slow float64
		var shares int
		err := rows.Scan(&name, &slow, &shares)
		if slices.Contains(silent, name) {
			return err
		}
		s.able += shares
		s.robots, s.slow = append(s.robots, name), append(s.slow, slow)
		return err
	}, `SELECT name, slow, shares FROM robots WHERE subscribed = 1 AND lapsed = 0 ORDER BY name`)
}

// gap is the time in ms between two requests to a host.
type gap struct {
	seen float64 // measured, where it was longer than usual; 0: as usual
	set  float64 // set by an operator; 0: not set
}

// readHosts reads the hosts by name and returns their numbers. Its query does not compare the bare
// column state, because SQLite would use the index of states then, and read every accepted host.
func (s *snapshot) readHosts(ctx context.Context, tx *sql.Tx, filter hostFilter) (number map[string]int, err error) {
	number = map[string]int{}
	err = db.Each(ctx, tx, func(rows *sql.Rows) error {
		var name, group string
		var weight sql.NullFloat64
		var gap gap
		var robot sql.NullString
		var parts int
		if err := rows.Scan(&name, &group, &weight, &gap.seen, &gap.set, &parts, &robot); err != nil {
			return err
		}
		if !weight.Valid {
			weight.Float64 = s.unmeasured.weight
		}
		at, found := s.robot(robot.String)
		if !found {
			at = -1
		}
		number[name] = len(s.hosts)
		s.hosts, s.group, s.at = append(s.hosts, name), append(s.group, group), append(s.at, at)
		s.weight, s.gap, s.parts = append(s.weight, weight.Float64), append(s.gap, gap), append(s.parts, parts)
		return nil
	}, `
		SELECT h.name, h.grp, h.weight, COALESCE(h.gap, 0), h.interval_ms, h.parts, a.robot
		FROM hosts h LEFT JOIN assignments a ON a.host = h.name AND a.to_generation IS NULL AND a.slot = 0
		WHERE h.state || '' = 'accepted' AND `+filter.where+` ORDER BY h.name`, filter.args...)
	if err != nil {
		return nil, err
	}
	s.kb, s.pages, s.measured = make([]float64, len(s.hosts)), make([]float64, len(s.hosts)), make([][]distance, len(s.hosts))
	s.others = map[int][]int{}
	return number, db.Each(ctx, tx, func(rows *sql.Rows) error {
		var host, robot string
		err := rows.Scan(&host, &robot)
		j, ok := number[host]
		if i, found := s.robot(robot); ok && found {
			s.others[j] = append(s.others[j], i)
		}
		return err
	}, `
		SELECT a.host, a.robot FROM hosts h CROSS JOIN assignments a
		WHERE (h.copies > 1 OR h.parts > 1) AND a.host = h.name AND a.to_generation IS NULL AND a.slot > 0 ORDER BY a.host, a.slot`)
}

// readSamples reads the measurements from collecting.
func (s *snapshot) readSamples(ctx context.Context, tx *sql.Tx, number map[string]int, zone *time.Location, filter hostFilter) error {
	latest := make([]int64, len(s.hosts)) // by host: the hour of the sample that its kb comes from
	shared := map[int]Samples{}           // by host whose URLs are shared: the samples of all robots together
	where, args := filter.costFilter()
	err := ReadLog(ctx, tx, where, args, func(robot, host string, list Samples) {
		j, ok := number[host]
		if !ok || len(list) == 0 {
			return
		}
		if s.parts[j] > 1 {
			for _, sample := range list {
				shared[j] = shared[j].Add(sample)
			}
		} else if last := list[len(list)-1].Hour; last > latest[j] {
			latest[j] = last
			s.kb[j], s.pages[j] = list.Nightly(zone)
		}
		if i, ok := s.robot(robot); ok {
			if d, outliers := list.Distance(); d > 0 {
				s.measured[j] = append(s.measured[j], distance{i, d})
				s.outliers += len(outliers)
			}
		}
	})
	for j, list := range shared {
		s.kb[j], s.pages[j] = list.Nightly(zone)
	}
	return err
}

// readProbes reads the measurements from probes, for pairs that have none from collecting.
func (s *snapshot) readProbes(ctx context.Context, tx *sql.Tx, number map[string]int) error {
	return db.Each(ctx, tx, func(rows *sql.Rows) error {
		var robot, host string
		var bytes, ms int64
		if err := rows.Scan(&robot, &host, &bytes, &ms); err != nil {
			return err
		}
		j, ok := number[host]
		if !ok {
			return nil
		}
		if i, ok := s.robot(robot); ok {
			if _, have := s.distance(i, j); !have {
				s.measured[j] = append(s.measured[j], distance{i, max(float64(ms), 1) / (float64(bytes) / 1024)})
			}
		}
		return nil
	}, `SELECT robot, host, bytes, ms FROM probes WHERE done > 0 AND bytes >= 1024`)
}

// fit estimates the factors of robots and hosts from all measurements. The factors replace missing
// measurements. It returns false if there are no measurements at all.
func (s *snapshot) fit() bool {
	var seen []balance.Measured
	var known []float64
	for j, list := range s.measured {
		for _, d := range list {
			seen = append(seen, balance.Measured{Robot: d.robot, Host: j, MsPerKB: d.msPerKB})
		}
		if s.kb[j] > 0 {
			known = append(known, s.kb[j])
		}
	}
	if len(seen) == 0 || len(known) == 0 {
		return false
	}
	s.unmeasured.kb = balance.Median(known)
	if requests := slices.DeleteFunc(slices.Clone(s.pages), func(n float64) bool { return n == 0 }); len(requests) > 0 {
		s.unmeasured.pages = balance.Median(requests)
	}
	// One more robot and one more host, without measurements, stand for the median ones.
	robot, host := len(s.robots), len(s.hosts)
	estimate, own := balance.Distance(robot+1, host+1, seen)
	s.setDoubt(own)
	median := estimate(robot, host)
	for i := range s.slow {
		s.slow[i] = estimate(i, host) / median
	}
	for j := range s.weight {
		s.weight[j] = cmp.Or(s.kb[j], s.unmeasured.kb) * estimate(robot, j)
	}
	s.unmeasured.weight = s.unmeasured.kb * median
	return true
}

func (s *snapshot) names(hosts []int) []string {
	names := make([]string, len(hosts))
	for k, j := range hosts {
		names[k] = s.hosts[j]
	}
	return names
}
