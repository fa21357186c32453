package assign

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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
	Example   string    `json:"example,omitempty"` // the first URL that differs
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

// Visit is one robot's visit of one page.
type Visit struct {
	URL, Robot string
	At         time.Time
	Digest     string
}

// A robot is odd if at least leastPages pages differ, and at least leastShare of those compared.
const (
	leastPages = 3
	leastShare = 0.05
)

// Judge compares the visits of one host. It returns a verdict for each robot, by name, without Host
// and Judged. Compared counts each page by its latest visit that could be compared.
func Judge(visits []Visit) []Copies {
	visits = slices.Clone(visits)
	slices.SortFunc(visits, func(a, b Visit) int {
		if c := strings.Compare(a.URL, b.URL); c != 0 {
			return c
		}
		return a.At.Compare(b.At)
	})
	verdicts := map[string]*Copies{}
	for _, v := range visits {
		if verdicts[v.Robot] == nil {
			verdicts[v.Robot] = &Copies{Robot: v.Robot}
		}
	}
	for from := 0; from < len(visits); {
		to := from
		for to < len(visits) && visits[to].URL == visits[from].URL {
			to++
		}
		page := visits[from:to]
		from = to
		for robot, verdict := range verdicts {
			verdict.add(page, robot)
		}
	}
	list := make([]Copies, 0, len(verdicts))
	for _, v := range verdicts {
		v.Odd = v.Differing >= leastPages && float64(v.Differing) >= leastShare*float64(v.Compared)
		list = append(list, *v)
	}
	slices.SortFunc(list, func(a, b Copies) int { return strings.Compare(a.Robot, b.Robot) })
	return list
}

// add counts one page, by the robot's latest visit that votes can judge.
func (v *Copies) add(page []Visit, robot string) {
	var peers []Visit
	for _, other := range page {
		if other.Robot != robot {
			peers = append(peers, other)
		}
	}
	if goesBack(peers) {
		return
	}
	for _, own := range slices.Backward(page) {
		if own.Robot != robot {
			continue
		}
		with, against, ok := votes(own, peers)
		if !ok {
			continue
		}
		v.Compared++
		if against > with {
			if v.Differing++; v.Example == "" {
				v.Example = own.URL
			}
		}
		return
	}
}

// votes compares a visit with the peers' visits next to it. with is the number of peers that got
// the same page before or after it. against is the largest number of peers that got one other page,
// the same before and after it. ok is false if nothing can be said.
func votes(own Visit, peers []Visit) (with, against int, ok bool) {
	before, after := map[string]string{}, map[string]string{} // digest of the nearest visit, by peer
	for _, p := range peers {
		if !p.At.After(own.At) {
			before[p.Robot] = p.Digest
		}
		if _, have := after[p.Robot]; !have && !p.At.Before(own.At) {
			after[p.Robot] = p.Digest
		}
	}
	peersOf := map[string]map[string]bool{} // by digest
	for _, side := range []map[string]string{before, after} {
		for robot, digest := range side {
			if peersOf[digest] == nil {
				peersOf[digest] = map[string]bool{}
			}
			peersOf[digest][robot] = true
		}
	}
	lasting := func(digest string) bool {
		had := func(side map[string]string) bool {
			for _, d := range side {
				if d == digest {
					return true
				}
			}
			return false
		}
		return had(before) && had(after)
	}
	for digest, robots := range peersOf {
		switch {
		case digest == own.Digest:
			with = len(robots)
		case lasting(digest):
			against = max(against, len(robots))
		}
	}
	return with, against, with > 0 || against > 0
}

// goesBack reports whether a peer got one content of a page, then another, and then the first
// again.
func goesBack(peers []Visit) bool {
	past := map[string]map[string]bool{} // by robot: digests that later ones have replaced
	last := map[string]string{}
	for _, p := range peers {
		if past[p.Robot][p.Digest] {
			return true
		}
		if d, have := last[p.Robot]; have && d != p.Digest {
			if past[p.Robot] == nil {
				past[p.Robot] = map[string]bool{}
			}
			past[p.Robot][d] = true
		}
		last[p.Robot] = p.Digest
	}
	return false
}
