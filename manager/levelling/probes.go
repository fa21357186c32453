package levelling

import (
	"context"
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
	"sheaf/manager/costs"
)

const (
	probeDoubt = 3                   // an estimate may be wrong by this factor if nothing tells how well estimates fit
	probeMore  = 15                  // times as many probes are made while they would change much
	probeLeast = 0.001               // part of the night by which a probe must be able to shorten it to be worth one of these
	probeFiles = 10                  // asked for; the paper's 50 take a quarter of an hour at 20 s each
	probesOnce = 2                   // asked for with one heartbeat
	probeAgain = 3 * time.Hour       // after which an unanswered probe is asked for again
	probeOld   = 30 * 24 * time.Hour // after which a measured distance is measured anew
)

// setDoubt sets by how much estimates may be wrong. own is how much single pairs differ from
// estimates, as balance.Distance tells.
func (s *snapshot) setDoubt(own float64) {
	s.estimates.factor, s.estimates.raise = probeDoubt, 1
	if own >= 0 {
		s.estimates.factor = math.Exp(min(max(1.5*own, 0.1), 2.3))
		s.estimates.raise = math.Exp(min(own*own/2, 1)) // the mean of a lognormal distribution with median 1
	}
}

// worthProbing returns pairs of robot and host that are worth measuring: at most usual of them or,
// while they could change the plan much, many more. For a group it names the heaviest host.
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

// askProbe has a robot measure its distance to a host, unless it is to do so or has done so
// already. now is in Unix ms.
func askProbe(ctx context.Context, t *assign.Tx, robot, host string, now int64) error {
	if _, err := t.Exec(ctx, `DELETE FROM probes WHERE robot = ? AND host = ? AND done > 0 AND done < ?`, robot, host, now-probeOld.Milliseconds()); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `INSERT INTO probes (robot, host, asked) VALUES (?, ?, 0) ON CONFLICT (robot, host) DO NOTHING`, robot, host)
	return err
}

// ProbesFor returns the probes that the robot is to be asked for now, and notes that it is asked. A
// probe is asked for when the robot has the address for itself: see assign.HoldForProbe.
func (l *Leveller) ProbesFor(ctx context.Context, robot string) ([]wire.ProbeAsk, error) {
	now := time.Now()
	unprobed, other := assign.Unprobed(robot)
	held, own := assign.HeldForProbe(robot)
	hosts, err := db.Column[string](ctx, l.db, `
		SELECT p.host FROM probes p CROSS JOIN hosts h
		WHERE h.name = p.host AND p.robot = ? AND p.done = 0 AND p.asked < ? AND h.state = 'accepted'
			AND NOT EXISTS (SELECT 1 FROM refused_prefixes r WHERE r.host = h.name) -- a probe follows links
			AND `+unprobed+`
		ORDER BY CASE WHEN `+held+` THEN 0 ELSE 1 END, p.asked, p.host LIMIT ?`,
		slices.Concat([]any{robot, db.Millis(now.Add(-probeAgain))}, other, own, []any{probesOnce})...)
	if err != nil {
		return nil, err
	}
	var asks []wire.ProbeAsk
	for _, host := range hosts {
		may, tooLong, address, err := l.assignments.HoldForProbe(ctx, robot, host)
		if err != nil {
			return nil, err
		}
		if !may && !tooLong {
			continue // not yet
		}
		var url string
		err = l.db.QueryRowContext(ctx, `SELECT COALESCE((SELECT MIN(url) FROM seeds WHERE host = ?), '')`, host).Scan(&url)
		if err != nil {
			return nil, err
		}
		if url == "" {
			url = "http://" + host + "/"
		}
		if _, err := l.db.ExecContext(ctx, `UPDATE probes SET asked = ? WHERE robot = ? AND host = ?`, db.Millis(now), robot, host); err != nil {
			return nil, err
		}
		if tooLong {
			continue // others first
		}
		ask := wire.ProbeAsk{URL: url, Files: probeFiles, ForMS: assign.ProbeTime.Milliseconds()}
		if _, err := netip.ParseAddr(address); err == nil { // else no address of the host is known
			ask.Address = address
		}
		asks = append(asks, ask)
	}
	return asks, nil
}

// NoteProbes notes what the robot has measured, by host. It ignores what the robot was not asked
// for.
func (l *Leveller) NoteProbes(ctx context.Context, robot string, results map[string]wire.ProbeResult) error {
	for host, r := range results {
		if !costs.Plausible(r.Bytes, r.MS) {
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
