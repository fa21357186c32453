package manager

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/copies"
)

// PathAdminCopies shows how the robots' copies of hosts compare that are given to several.
const PathAdminCopies = "/v1/admin/copies"

const (
	copiesFor   = 60 * 24 * time.Hour // that visits are kept to compare others with
	copiesOf    = 8                   // of one page by one robot
	judgedEvery = 10 * time.Minute    // at most
)

// Copies is how one robot's copy of a host compares with its peers'.
type Copies struct {
	Host      string    `json:"host"`
	Robot     string    `json:"robot"`
	Judged    time.Time `json:"judged"`
	Compared  int64     `json:"compared"`          // pages
	Differing int64     `json:"differing"`         // of those: not what the peers had before and after
	Odd       bool      `json:"odd"`               // more than pages do by themselves
	Example   string    `json:"example,omitempty"` // a URL that differs
}

// CopiesResponse answers GET /v1/admin/copies.
type CopiesResponse struct {
	Copies []Copies `json:"copies"`
}

// JudgeCopies compares the copies of those hosts of which some have come since they were last
// compared. Done twice at once it gives the same twice.
func (m *Manager) JudgeCopies(ctx context.Context) error {
	hosts, err := column[string](ctx, m.db, `
		SELECT h.name FROM hosts h WHERE (h.copies > 1 OR h.parts > 1) AND
			(SELECT MAX(added) FROM copies c WHERE c.host = h.name) >= COALESCE((SELECT MAX(judged) FROM copy_verdicts v WHERE v.host = h.name), 0)`)
	if err != nil {
		return fmt.Errorf("copies: %w", err)
	}
	for _, host := range hosts {
		if err := m.judgeCopies(ctx, host); err != nil {
			return fmt.Errorf("copies of %s: %w", host, err)
		}
	}
	return nil
}

func (m *Manager) judgeCopies(ctx context.Context, host string) error {
	now := time.Now()
	return m.transact(ctx, nil, func(tx *sql.Tx) error {
		// Of each page a robot's latest visits are kept.
		_, err := tx.ExecContext(ctx, `
			DELETE FROM copies WHERE host = ? AND (at < ? OR
				(SELECT COUNT(*) FROM copies o WHERE o.host = copies.host AND o.url = copies.url AND o.robot = copies.robot AND o.at > copies.at) >= ?)`,
			host, db.Millis(now.Add(-copiesFor)), copiesOf)
		if err != nil {
			return err
		}
		visits, err := visitsOf(ctx, tx, host)
		if err != nil {
			return err
		}
		verdicts := copies.Judge(visits)
		if _, err := tx.ExecContext(ctx, `DELETE FROM copy_verdicts WHERE host = ?`, host); err != nil {
			return err
		}
		for _, v := range verdicts {
			_, err := tx.ExecContext(ctx, `INSERT INTO copy_verdicts (host, robot, judged, compared, differing, odd, example) VALUES (?, ?, ?, ?, ?, ?, ?)`,
				host, v.Robot, db.Millis(now), v.Compared, v.Differing, v.Odd, v.Example)
			if err != nil {
				return err
			}
			if v.Odd {
				m.log.WarnContext(ctx, "a robot's pages differ from its peers' by more than time explains", "robot", v.Robot, "host", host,
					"differing", v.Differing, "compared", v.Compared, "example", v.Example)
			}
		}
		return nil
	})
}

func visitsOf(ctx context.Context, tx *sql.Tx, host string) ([]copies.Visit, error) {
	rows, err := tx.QueryContext(ctx, `SELECT url, robot, at, digest FROM copies WHERE host = ?`, host)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var visits []copies.Visit
	for rows.Next() {
		var v copies.Visit
		var at int64
		if err := rows.Scan(&v.URL, &v.Robot, &at, &v.Digest); err != nil {
			return nil, err
		}
		v.At = db.Time(at)
		visits = append(visits, v)
	}
	return visits, rows.Err()
}

// Copies gives what came of the last comparison, by host and robot.
func (m *Manager) Copies(ctx context.Context) ([]Copies, error) {
	rows, err := m.db.QueryContext(ctx, `SELECT host, robot, judged, compared, differing, odd, example FROM copy_verdicts ORDER BY host, robot`)
	if err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	defer rows.Close()
	list := []Copies{}
	for rows.Next() {
		var c Copies
		var judged int64
		if err := rows.Scan(&c.Host, &c.Robot, &judged, &c.Compared, &c.Differing, &c.Odd, &c.Example); err != nil {
			return nil, fmt.Errorf("copies: %w", err)
		}
		c.Judged = db.Time(judged)
		list = append(list, c)
	}
	return list, rows.Err()
}

// adminCopies compares what has come since, and shows all.
func (m *Manager) adminCopies(w http.ResponseWriter, r *http.Request) error {
	if err := m.JudgeCopies(r.Context()); err != nil {
		return err
	}
	list, err := m.Copies(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, CopiesResponse{list})
}
