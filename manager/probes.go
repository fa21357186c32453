package manager

import (
	"context"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
	"sheaf/manager/balance"
)

const (
	probeDoubt  = 3                // how far an estimate may be wrong for a pair to be worth measuring
	probeFiles  = 10               // asked for; the paper's 50 take a quarter of an hour at 20 s
	probesAtOne = 2                // asked for with one heartbeat
	probeAgain  = 3 * time.Hour    // after which a probe without an answer is asked for again
	probeOld    = 30 * 24 * 3600e3 // ms after which a measured distance is forgotten
)

// probes gives the pairs of robot and host that are worth measuring; of a group its heaviest host.
func (p *picture) probes(c *balance.Costs, r balance.Result, groups [][]int, most int) []balance.Pair {
	if most <= 0 {
		return nil
	}
	pairs := balance.Probes(c, r, func(i, n int) bool {
		for _, j := range groups[n] {
			if _, ok := p.known(i, j); ok {
				return true
			}
		}
		return false
	}, probeDoubt, most)
	for k, pair := range pairs {
		heaviest := groups[pair.Host][0]
		for _, j := range groups[pair.Host] {
			if p.weight[j] > p.weight[heaviest] {
				heaviest = j
			}
		}
		pairs[k].Host = heaviest
	}
	return pairs
}

// askProbe lets a robot be asked, unless it has been.
func (e *edit) askProbe(robot, host string, now int64) error {
	if _, err := e.exec(`DELETE FROM probes WHERE robot = ? AND host = ? AND done > 0 AND done < ?`, robot, host, now-probeOld); err != nil {
		return err
	}
	_, err := e.exec(`INSERT INTO probes (robot, host, asked) VALUES (?, ?, 0) ON CONFLICT (robot, host) DO NOTHING`, robot, host)
	return err
}

// probesFor gives what the robot is to measure now.
func (m *Manager) probesFor(ctx context.Context, robot string) ([]wire.ProbeAsk, error) {
	now := time.Now()
	hosts, err := column[string](ctx, m.db, `
		SELECT p.host FROM probes p JOIN hosts h ON h.name = p.host
		WHERE p.robot = ? AND p.done = 0 AND p.asked < ? AND h.state = 'accepted' ORDER BY p.asked, p.host LIMIT ?`,
		robot, db.Millis(now.Add(-probeAgain)), probesAtOne)
	if err != nil {
		return nil, err
	}
	var asks []wire.ProbeAsk
	for _, host := range hosts {
		var url string
		err := m.db.QueryRowContext(ctx, `SELECT COALESCE((SELECT MIN(url) FROM seeds WHERE host = ?), '')`, host).Scan(&url)
		if err != nil {
			return nil, err
		}
		if url == "" {
			url = "http://" + host + "/"
		}
		if _, err := m.db.ExecContext(ctx, `UPDATE probes SET asked = ? WHERE robot = ? AND host = ?`, db.Millis(now), robot, host); err != nil {
			return nil, err
		}
		asks = append(asks, wire.ProbeAsk{URL: url, Files: probeFiles})
	}
	return asks, nil
}

// noteProbes takes what the robot measured. What was not asked for is passed over.
func (m *Manager) noteProbes(ctx context.Context, robot string, results map[string]wire.ProbeResult) error {
	for host, r := range results {
		_, err := m.db.ExecContext(ctx, `UPDATE probes SET done = ?, bytes = ?, ms = ?, fault = ? WHERE robot = ? AND host = ? AND done = 0`,
			db.Millis(time.Now()), max(r.Bytes, 0), max(r.MS, 0), r.Failed, robot, host)
		if err != nil {
			return err
		}
	}
	return nil
}
