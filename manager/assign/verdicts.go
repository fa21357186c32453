package assign

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"sheaf/internal/db"
)

const (
	keepFor  = 60 * 24 * time.Hour // how long visits are kept for comparison
	keepMost = 8                   // visits of one page by one robot
)

// Copies is how one robot's copy of a host compares with its peers'.
type Copies struct {
	Host      string    `json:"host"`
	Robot     string    `json:"robot"`
	Judged    time.Time `json:"judged"`
	Compared  int64     `json:"compared"`          // pages
	Differing int64     `json:"differing"`         // of those: pages that the peers had with another content before and after
	Odd       bool      `json:"odd"`               // more pages differ than chance explains
	Example   string    `json:"example,omitempty"` // a URL that differs
}

// Verdicts keeps the visits and the verdicts in the control database. ingest enters the visits.
// It may be used by many goroutines at once.
type Verdicts struct {
	db  *sql.DB
	log *slog.Logger
}

// NewVerdicts returns the verdicts in d, which internal/db has opened. A nil logger discards.
func NewVerdicts(d *sql.DB, log *slog.Logger) *Verdicts {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Verdicts{d, log}
}

// Update judges the hosts that have new visits since they were last judged. Several calls at once
// do no harm.
func (v *Verdicts) Update(ctx context.Context) error {
	hosts, err := db.Column[string](ctx, v.db, `
		SELECT h.name FROM hosts h WHERE (h.copies > 1 OR h.parts > 1) AND
			(SELECT MAX(added) FROM copies c WHERE c.host = h.name) >= COALESCE((SELECT MAX(judged) FROM copy_verdicts v WHERE v.host = h.name), 0)`)
	if err != nil {
		return fmt.Errorf("copies: %w", err)
	}
	for _, host := range hosts {
		if err := v.update(ctx, host); err != nil {
			return fmt.Errorf("copies of %s: %w", host, err)
		}
	}
	return nil
}

// update judges one host, and deletes its old visits.
func (v *Verdicts) update(ctx context.Context, host string) error {
	now := time.Now()
	return db.Transact(ctx, v.db, nil, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			DELETE FROM copies WHERE host = ? AND (at < ? OR
				(SELECT COUNT(*) FROM copies o WHERE o.host = copies.host AND o.url = copies.url AND o.robot = copies.robot AND o.at > copies.at) >= ?)`,
			host, db.Millis(now.Add(-keepFor)), keepMost)
		if err != nil {
			return err
		}
		visits, err := db.List(ctx, tx, func(rows *sql.Rows, v *Visit) error {
			return rows.Scan(&v.URL, &v.Robot, db.At(&v.At), &v.Digest)
		}, `SELECT url, robot, at, digest FROM copies WHERE host = ?`, host)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM copy_verdicts WHERE host = ?`, host); err != nil {
			return err
		}
		for _, j := range Judge(visits) {
			_, err := tx.ExecContext(ctx, `INSERT INTO copy_verdicts (host, robot, judged, compared, differing, odd, example) VALUES (?, ?, ?, ?, ?, ?, ?)`,
				host, j.Robot, db.Millis(now), j.Compared, j.Differing, j.Odd, j.Example)
			if err != nil {
				return err
			}
			if j.Odd {
				v.log.WarnContext(ctx, "a robot's pages differ from its peers' by more than time explains", "robot", j.Robot, "host", host,
					"differing", j.Differing, "compared", j.Compared, "example", j.Example)
			}
		}
		return nil
	})
}

// List returns the latest verdicts, by host and robot.
func (v *Verdicts) List(ctx context.Context) ([]Copies, error) {
	list, err := db.List(ctx, v.db, func(rows *sql.Rows, c *Copies) error {
		return rows.Scan(&c.Host, &c.Robot, db.At(&c.Judged), &c.Compared, &c.Differing, &c.Odd, &c.Example)
	}, `SELECT host, robot, judged, compared, differing, odd, example FROM copy_verdicts ORDER BY host, robot`)
	if err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	return list, nil
}
