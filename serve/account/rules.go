package account

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/loop"
)

// ErrNoRule says that no rule in force has the ID.
var ErrNoRule = errors.New("no such access rule")

// readEvery is the interval at which rules are read again, to learn what other processes have
// changed.
const readEvery = 2 * time.Second

// Rules keeps the rules in the database. Its methods may be called concurrently. A nil Rules has no
// rules.
type Rules struct {
	Now func() time.Time // the clock by which embargoes end

	db  *sql.DB
	log *slog.Logger

	mu    sync.Mutex    // guards what follows
	known bool          // rules have been read
	rules []storedRules // in force, by number
	past  []storedRules // those that were removed
}

// storedRules is a rule as the database has it.
type storedRules struct {
	Rule
	Told    time.Time
	Epoch   int64
	Removed time.Time // zero: it is in force
}

// NewRules returns the rules in a database, whose migrations must have run.
func NewRules(database *sql.DB, log *slog.Logger) *Rules {
	return &Rules{Now: time.Now, db: database, log: log}
}

// Veil returns what the rules hide from a reader now; nil: nothing. It fails if the rules have
// never been read. While the database is away later, they stay as they were.
func (x *Rules) Veil(ctx context.Context, a *Account, scope Scope) (*Veil, error) {
	if x == nil {
		return nil, nil
	}
	rules, _, err := x.all(ctx)
	if err != nil {
		return nil, err
	}
	return newVeil(rules, a, scope, x.Now()), nil
}

// all returns the rules in force and those that were removed.
func (x *Rules) all(ctx context.Context) (rules, past []storedRules, err error) {
	x.mu.Lock()
	known := x.known
	x.mu.Unlock()
	if !known {
		if _, err := x.read(ctx); err != nil {
			return nil, nil, err
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.rules, x.past, nil
}

// Run reads the rules again every few seconds, until ctx ends.
func (x *Rules) Run(ctx context.Context) error {
	read := func(ctx context.Context) error { _, err := x.read(ctx); return err }
	return loop.After(ctx, readEvery, read, func(err error) {
		x.log.WarnContext(ctx, "access rules could not be read again; they stay as they were", "err", err)
	})
}

// read reads all rules again, and returns those in force.
func (x *Rules) read(ctx context.Context) ([]storedRules, error) {
	x.mu.Lock() // so that an older state does not follow a newer one
	defer x.mu.Unlock()
	rules, err := db.List(ctx, x.db, func(rows *sql.Rows, r *storedRules) error {
		var text []byte
		var id int64
		err := rows.Scan(&id, &text, db.At(&r.Created), db.At(&r.Told), &r.Epoch, db.At(&r.Removed))
		if err == nil {
			created := r.Created
			err = json.Unmarshal(text, &r.Rule)
			r.ID, r.Created = id, created
		}
		return err
	}, `SELECT id, rule, created, told, epoch, removed FROM access_rules ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("access rules: %w", err)
	}
	x.rules, x.past, x.known = nil, nil, true
	for _, r := range rules {
		if r.Removed.IsZero() {
			x.rules = append(x.rules, r)
		} else {
			x.past = append(x.past, r)
		}
	}
	return x.rules, nil
}

// List returns the rules in force, the oldest first.
func (x *Rules) List(ctx context.Context) ([]Rule, error) {
	all, err := x.read(ctx)
	rules := make([]Rule, 0, len(all))
	for _, r := range all {
		rules = append(rules, r.Rule)
	}
	return rules, err
}

// Add adds a rule and returns it as stored. When it returns, the rule holds in this process; in
// others within a few seconds. It fails with ErrInvalidRules.
func (x *Rules) Add(ctx context.Context, r Rule) (Rule, error) {
	if err := r.check(); err != nil {
		return Rule{}, err
	}
	r.Created = x.Now().UTC().Truncate(time.Second)
	r.ID, r.Until = 0, r.Until.UTC().Truncate(time.Second)
	text, err := json.Marshal(r)
	if err != nil {
		return Rule{}, err
	}
	err = db.Transact(ctx, x.db, nil, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `INSERT INTO access_rules (id, rule, created, told)
			VALUES ((SELECT COALESCE(MAX(id), 0) + 1 FROM access_rules), ?, ?, ?) RETURNING id`,
			string(text), db.Millis(r.Created), db.Millis(r.since(r.Created))).Scan(&r.ID)
	})
	if err != nil {
		return Rule{}, fmt.Errorf("access rule: %w", err)
	}
	_, err = x.read(ctx)
	return r, err
}

// Remove ends a rule: what only it hid is visible again. It fails with ErrNoRule.
func (x *Rules) Remove(ctx context.Context, id int64) error {
	err := db.Change(ctx, x.db, ErrNoRule, `UPDATE access_rules SET removed = ? WHERE id = ? AND removed = 0`, db.Millis(x.Now()), id)
	if err == nil {
		_, err = x.read(ctx)
	}
	if err != nil {
		return fmt.Errorf("access rule %d: %w", id, err)
	}
	return nil
}
