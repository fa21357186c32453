package manager

import (
	"context"
	"fmt"
	"time"

	"sheaf/internal/db"
)

// Backlog is one robot's part of the work as it is now.
type Backlog struct {
	Robot string    `json:"robot"`
	At    time.Time `json:"at"` // of its last heartbeat
	Phase string    `json:"phase"`
	Cycle int64     `json:"cycle"`
	Left  int64     `json:"left"`           // URLs known and not collected
	Rate  float64   `json:"pages_a_second"` // 0: not known yet
	Pages int64     `json:"pages"`
	Bytes int64     `json:"bytes"`
	Spool int64     `json:"spool"`
	Begun int64     `json:"hosts_begun"`
	Done  int64     `json:"hosts_done"`
}

// Backlogs gives what each robot that takes part last said, by name.
func (m *Manager) Backlogs(ctx context.Context) ([]Backlog, error) {
	rows, err := m.db.QueryContext(ctx, `
		SELECT b.robot, b.at, b.phase, b.cycle, b.left_urls, b.rate, b.pages, b.bytes, b.spool,
			(SELECT COUNT(*) FROM progress d WHERE d.robot = b.robot AND d.state = 'begun'),
			(SELECT COUNT(*) FROM progress d WHERE d.robot = b.robot AND d.state = 'done')
		FROM heartbeats b JOIN robots r ON r.name = b.robot WHERE r.subscribed = 1 AND r.lapsed = 0 ORDER BY b.robot`)
	if err != nil {
		return nil, fmt.Errorf("backlogs: %w", err)
	}
	defer rows.Close()
	list := []Backlog{}
	for rows.Next() {
		var b Backlog
		var at int64
		if err := rows.Scan(&b.Robot, &at, &b.Phase, &b.Cycle, &b.Left, &b.Rate, &b.Pages, &b.Bytes, &b.Spool, &b.Begun, &b.Done); err != nil {
			return nil, fmt.Errorf("backlogs: %w", err)
		}
		b.At = db.Time(at)
		list = append(list, b)
	}
	return list, rows.Err()
}

// at work and heard of: those between whom work can be shipped.
func (b Backlog) active(now time.Time) bool {
	switch b.Phase {
	case "collecting", "closed", "idle":
		return now.Sub(b.At) <= freshFor
	}
	return false
}

// rates gives the robots' rates, of those whose own is not known the mean of the others';
// nil where nobody's is known.
func rates(list []Backlog) []float64 {
	sum, n := 0.0, 0
	for _, b := range list {
		if b.Rate > 0 {
			sum, n = sum+b.Rate, n+1
		}
	}
	if n == 0 {
		return nil
	}
	r := make([]float64, len(list))
	for i, b := range list {
		if r[i] = b.Rate; r[i] <= 0 {
			r[i] = sum / float64(n)
		}
	}
	return r
}
