package levelling

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
)

const (
	probeDoubt = 3                              // an estimate may be wrong by this factor if its quality is not known
	probeMore  = 15                             // so many times the usual number of probes, if they could change much
	probeLeast = 0.001                          // such a probe must be able to shorten the night by this part
	probeFiles = 10                             // files of one probe; the paper's 50 would take a quarter of an hour at 20 s each
	probesOnce = 2                              // probes that one robot is asked for at a time
	probeAgain = assign.ProbeTime + time.Minute // after this time an unanswered probe is asked for again
	probeLater = 3 * time.Hour                  // the same after a failed probe, or if other robots did not leave the address
	probeOld   = 30 * 24 * time.Hour            // a measured distance is measured anew after this time
)

// setDoubt sets by how much estimates may be wrong. own is the second result of balance.Distance:
// how much single pairs differ from their estimates.
func (s *snapshot) setDoubt(own float64) {
	s.estimates.factor, s.estimates.raise = probeDoubt, 1
	if own >= 0 {
		s.estimates.factor = math.Exp(min(max(1.5*own, 0.1), 2.3))
		s.estimates.raise = math.Exp(min(own*own/2, 1)) // the mean of a lognormal distribution with median 1
	}
}

// worthProbing returns pairs of robot and host that are worth measuring: at most usual of them or,
// while they could change the plan much, many more. A group is measured at its heaviest host.
func (s *snapshot) worthProbing(it *items, r balance.Result, usual int) []balance.Pair {
	if usual <= 0 {
		return nil
	}
	known := func(i, n int) bool {
		for _, j := range it.hosts[n] {
			if _, ok := s.distance(i, j); ok {
				return true
			}
		}
		return false
	}
	pairs := balance.Probes(it.costs, r, known, s.estimates.factor, probeLeast, usual, probeMore*usual)
	for k, pair := range pairs {
		heaviest := it.hosts[pair.Host][0]
		for _, j := range it.hosts[pair.Host] {
			if s.weight[j] > s.weight[heaviest] {
				heaviest = j
			}
		}
		pairs[k].Host = heaviest
	}
	return pairs
}

// askProbe enters an order that a robot measures its distance to a host, unless there is such an
// order or a measurement. now is in Unix ms.
func askProbe(ctx context.Context, t *assign.Tx, robot, host string, now int64) error {
	if _, err := t.Exec(ctx, `DELETE FROM probes WHERE robot = ? AND host = ? AND done > 0 AND done < ?`, robot, host, now-probeOld.Milliseconds()); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `INSERT INTO probes (robot, host, asked) VALUES (?, ?, 0) ON CONFLICT (robot, host) DO NOTHING`, robot, host)
	return err
}

// ProbesFor returns the probes that the robot is to be asked for now, and records that it is asked.
// It asks for a probe once the robot has the address for itself: see assign.HoldForProbe. A robot
// that does not answer in its time has lost the order, or could not visit the host. It is soon
// asked again, and after that only rarely, because the host's own robot has to wait each time.
func (l *Leveller) ProbesFor(ctx context.Context, robot string) ([]wire.ProbeAsk, error) {
	now := time.Now()
	due, err := dueProbes(ctx, l.db, robot, now)
	if err != nil {
		return nil, err
	}
	var asks []wire.ProbeAsk
	note := func(host, fault string, asked int64) error {
		_, err := l.db.ExecContext(ctx, `UPDATE probes SET asked = ?, fault = ? WHERE robot = ? AND host = ?`, asked, fault, robot, host)
		return err
	}
	for _, d := range due {
		host := d.host
		if d.asked > 0 { // its time has passed, and it needs another
			d.fault = "not answered in time"
			if err := errors.Join(l.assignments.EndProbes(ctx, robot, []string{host}), note(host, d.fault, 0)); err != nil {
				return nil, err
			}
		}
		may, tooLong, address, err := l.assignments.HoldForProbe(ctx, robot, host)
		if err != nil {
			return nil, err
		}
		if tooLong { // other probes come first
			if err := note(host, "its address could not be had alone", db.Millis(now)); err != nil {
				return nil, err
			}
		}
		if !may {
			continue
		}
		var url string
		err = l.db.QueryRowContext(ctx, `SELECT COALESCE((SELECT MIN(url) FROM seeds WHERE host = ?), '')`, host).Scan(&url)
		if err != nil {
			return nil, err
		}
		url = cmp.Or(url, "http://"+host+"/")
		if err := note(host, d.fault, db.Millis(now)); err != nil {
			return nil, err
		}
		ask := wire.ProbeAsk{URL: url, Files: probeFiles, ForMS: assign.ProbeTime.Milliseconds()}
		if _, err := netip.ParseAddr(address); err == nil { // otherwise no address of the host is known
			ask.Address = address
		}
		asks = append(asks, ask)
	}
	return asks, nil
}

// dueProbe is a probe that a robot may be asked for.
type dueProbe struct {
	host, fault string // fault: why it failed before
	asked       int64  // when it was asked for; 0: not yet, or to be asked for again
}

// dueProbes returns the probes for which a robot may be asked once it has their addresses for
// itself.
func dueProbes(ctx context.Context, q db.Queryer, robot string, now time.Time) ([]dueProbe, error) {
	unprobed, other := assign.Unprobed(robot)
	held, own := assign.HeldForProbe(robot)
	lost := db.Millis(now.Add(-probeAgain))
	var out int // asked for and not answered
	err := q.QueryRowContext(ctx, `
		SELECT COUNT(*) FROM probes p CROSS JOIN hosts h
		WHERE h.name = p.host AND p.robot = ? AND p.done = 0 AND p.asked >= ? AND `+held, slices.Concat([]any{robot, lost}, own)...).Scan(&out)
	if err != nil || out >= probesOnce {
		return nil, err
	}
	return db.List(ctx, q, func(rows *sql.Rows, d *dueProbe) error { return rows.Scan(&d.host, &d.asked, &d.fault) }, `
		SELECT p.host, p.asked, p.fault FROM probes p CROSS JOIN hosts h
		WHERE h.name = p.host AND p.robot = ? AND p.done = 0 AND p.asked < CASE WHEN p.fault = '' THEN CAST(? AS BIGINT) ELSE ? END AND h.state = 'accepted'
			AND NOT EXISTS (SELECT 1 FROM refused_prefixes r WHERE r.host = h.name) -- a probe follows links
			AND `+unprobed+`
		ORDER BY CASE WHEN `+held+` THEN 0 ELSE 1 END, p.asked, p.host LIMIT ?`,
		slices.Concat([]any{robot, lost, db.Millis(now.Add(-probeLater))}, other, own, []any{probesOnce - out})...)
}

// NoteProbes stores the robot's measurements, by host. It ignores hosts that the robot was not
// asked to measure.
func (l *Leveller) NoteProbes(ctx context.Context, robot string, results map[string]wire.ProbeResult) error {
	for host, r := range results {
		if !Plausible(r.Bytes, r.MS) {
			r = wire.ProbeResult{Failed: fmt.Sprintf("%d bytes in %d ms are more than any line brings", r.Bytes, r.MS)}
		}
		_, err := l.db.ExecContext(ctx, `UPDATE probes SET done = ?, bytes = ?, ms = ?, fault = ? WHERE robot = ? AND host = ? AND done = 0`,
			db.Millis(time.Now()), max(r.Bytes, 0), max(r.MS, 0), r.Failed, robot, host)
		if err != nil {
			return err
		}
	}
	if len(results) == 0 {
		return nil
	}
	return l.assignments.EndProbes(ctx, robot, slices.Sorted(maps.Keys(results)))
}
