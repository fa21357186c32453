package assign

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"sheaf/internal/db"
)

// Tx is one transaction on hosts and assignments. All its changes make one generation; a
// transaction that changes no assignment makes none. Use it in one goroutine.
type Tx struct {
	db         *sql.DB
	tx         *sql.Tx
	generation int64           // 0 before the first change
	touched    map[string]bool // robots whose list this transaction changes

	lease    time.Duration // of a robot; 0: without end
	now      func() time.Time
	held     map[string]bool // robots with new holds
	disowned []string        // robots whose holds are to be separated from their names

	loads   *loads // before this transaction or, once fresh is set, after its changes; nil: not known
	fresh   bool   // loads includes this transaction's changes
	removed bool   // a robot in touched has lost a host that loads still counts

	changed int64 // rows changed since the last ANALYZE
}

// QueryContext queries within the transaction, so that a Tx is a db.Queryer.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return t.tx.QueryContext(ctx, query, args...)
}

// QueryRowContext queries one row within the transaction.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return t.tx.QueryRowContext(ctx, query, args...)
}

// Exec executes a statement and returns the number of rows that it changed.
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	n, err := db.Exec(ctx, t.tx, query, args...)
	t.changed += n
	return n, err
}

// Insert enters rows of equal width. into is the statement up to its VALUES. Rows that exist
// already stay unchanged.
func (t *Tx) Insert(ctx context.Context, into string, rows [][]any) error {
	for some := range slices.Chunk(rows, db.RowsAtOnce) {
		query := into + ` VALUES ` + db.Tuples(len(some), len(some[0])) + ` ON CONFLICT DO NOTHING`
		if _, err := t.Exec(ctx, query, slices.Concat(some...)...); err != nil {
			return err
		}
	}
	return nil
}

// analyze updates the database's statistics after many changes.
func (t *Tx) analyze(ctx context.Context) error {
	const many = 1000
	if t.changed < many {
		return nil
	}
	done, err := db.Analyze(ctx, t.db, t.tx, t.changed, "hosts", "seeds", "assignments")
	if done {
		t.changed = 0
	}
	return err
}

// Generation returns the number of the generation that this transaction makes.
func (t *Tx) Generation(ctx context.Context) (int64, error) {
	if t.generation != 0 {
		return t.generation, nil
	}
	err := t.tx.QueryRowContext(ctx, `UPDATE generation SET number = number + 1 RETURNING number`).Scan(&t.generation)
	return t.generation, err
}

// Touch notes that the lists of the robots have changed.
func (t *Tx) Touch(robots ...string) {
	for _, r := range robots {
		t.touched[r] = true
	}
}

// publish stamps the changed lists with the generation, and settles the holds.
func (t *Tx) publish(ctx context.Context) error {
	if len(t.touched) == 0 {
		return nil
	}
	g, err := t.Generation(ctx)
	if err != nil {
		return err
	}
	for robot := range t.touched {
		if _, err := t.Exec(ctx, `UPDATE robots SET list_generation = ? WHERE name = ?`, g, robot); err != nil {
			return err
		}
	}
	return t.settleHolds(ctx)
}

// Load is the work of one robot.
type Load struct {
	Robot  string
	Hosts  int64
	MS     float64 // expected transfer time of a night, in ms
	Slow   float64 // ms that the robot takes where the median robot takes 1 ms
	Shares bool    // its program can collect a share of a host's URLs
	Silent bool    // nothing is heard of it now
}

// loads are the robots' known loads at one generation and one plan. They are kept from one
// transaction to the next, because summing them up reads every assignment. The load of a robot that
// lost a host is not kept. If another process has made a generation or a plan since, the next
// transaction sums up anew.
type loads struct {
	generation, planned int64
	robots              []*Load // must not be changed
}

// RobotsOf returns the robots that have the host, by name.
func RobotsOf(ctx context.Context, q db.Queryer, host string) ([]string, error) {
	return db.Column[string](ctx, q, `SELECT robot FROM assignments WHERE host = ? AND to_generation IS NULL ORDER BY robot`, host)
}
