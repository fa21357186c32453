package account

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sheaf/archive/catalog"
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

// VeilAt returns what the rules hid from a reader at a time that has passed; nil: nothing.
func (x *Rules) VeilAt(ctx context.Context, a *Account, scope Scope, at time.Time) (*Veil, error) {
	if x == nil {
		return nil, nil
	}
	rules, past, err := x.all(ctx)
	if err != nil {
		return nil, err
	}
	held := slices.DeleteFunc(slices.Concat(rules, past), func(r storedRules) bool {
		return r.Created.After(at) || !r.Removed.IsZero() && !r.Removed.After(at)
	})
	return newVeil(held, a, scope, at), nil
}

// Turn says that rules began or ceased to hide something at Place and below. It concerns editions
// that were published after From, up to To.
type Turn struct {
	Place    string
	From, To time.Time
}

// Turns returns where rules began or ceased to hide something from a reader, after the time from
// and up to the time to. It may return other places too.
func (x *Rules) Turns(ctx context.Context, a *Account, scope Scope, from, to time.Time) (turns []Turn, err error) {
	if x == nil {
		return nil, nil
	}
	rules, past, err := x.all(ctx)
	for _, r := range slices.Concat(rules, past) {
		place, _ := r.place()
		if r.openTo(a) || len(scope.Under(place)) == 0 || r.Created.After(to) || !r.Removed.IsZero() && !r.Removed.After(from) {
			continue
		}
		within := func(t time.Time) bool { return t.After(from) && !t.After(to) }
		switch {
		case within(r.Created), within(r.Removed), within(r.Until):
			turns = append(turns, Turn{place, time.Time{}, to})
		case r.Days > 0:
			turns = append(turns, Turn{place, r.since(from), r.since(to)})
		}
	}
	return turns, err
}

// Mark returns a cache key that changes when rules are added or removed.
func (x *Rules) Mark(ctx context.Context) (string, error) {
	if x == nil {
		return "", nil
	}
	rules, past, err := x.all(ctx)
	return fmt.Sprintf("%d %d", len(rules), len(past)), err
}

const (
	tellEvery = time.Minute
	// tellAfter is the time from the end of an embargo until the feed tells of it: by then it has
	// ended on the clocks of all processes.
	tellAfter = time.Minute
	// mostTold is the most hosts that the feed names when one embargo ends. If there are more,
	// followers of the feed begin anew instead.
	mostTold = 10_000
)

// errMany says that more hosts or editions than mostTold are no longer hidden.
var errMany = errors.New("too many to tell")

// Tell tells the change feed of a catalog what embargoes no longer hide, until ctx ends. If several
// processes call it, the feed may name a host more than once.
func (x *Rules) Tell(ctx context.Context, c *catalog.Catalog) error {
	tell := func(ctx context.Context) error { return x.TellNow(ctx, c) }
	return loop.Every(ctx, tellEvery, tell, func(err error) {
		x.log.ErrorContext(ctx, "the change feed does not tell of an embargo's end yet", "err", err)
	})
}

// TellNow tells the feed what is no longer hidden, because its embargo ended at least a minute ago.
func (x *Rules) TellNow(ctx context.Context, c *catalog.Catalog) error {
	rules, err := x.read(ctx)
	if err != nil {
		return err
	}
	now := x.Now().Add(-tellAfter)
	for _, r := range rules {
		to := r.since(now)
		if !r.Until.IsZero() && !now.Before(r.Until) {
			to = r.Until // and then it hides nothing any more
		}
		if r.Told.After(to.Add(dayLength)) { // by a clock that was ahead: it is hidden again, and told of again
			if _, err := db.Exec(ctx, x.db, `UPDATE access_rules SET told = ? WHERE id = ? AND told = ?`, db.Millis(to), r.ID, db.Millis(r.Told)); err != nil {
				return fmt.Errorf("access rule %d: %w", r.ID, err)
			}
			continue
		}
		if !to.After(r.Told) || r.Told.Equal(r.Until) && !r.Until.IsZero() {
			continue
		}
		stones, err := freed(ctx, c, &r, to)
		epoch := r.Epoch
		switch {
		case errors.Is(err, errMany):
			epoch++
		case err != nil:
			return fmt.Errorf("access rule %d: %w", r.ID, err)
		case len(stones) > 0:
			if _, err := c.Tell(ctx, stones...); err != nil {
				return fmt.Errorf("access rule %d: %w", r.ID, err)
			}
		}
		_, err = db.Exec(ctx, x.db, `UPDATE access_rules SET told = ?, epoch = ? WHERE id = ? AND told = ?`,
			db.Millis(to), epoch, r.ID, db.Millis(r.Told))
		if err != nil {
			return fmt.Errorf("access rule %d: %w", r.ID, err)
		}
	}
	_, err = x.read(ctx)
	return err
}

// freed returns, for the feed, the hosts whose segments a rule no longer hides. If the rule has
// Days, it returns the hosts' editions one by one.
func freed(ctx context.Context, c *catalog.Catalog, r *storedRules, to time.Time) ([]catalog.Tombstone, error) {
	s, err := c.Pin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	of := applied{Rule: r.Rule, since: r.Told}
	of.place, of.exact = r.place()
	var stones []catalog.Tombstone
	seen := make(map[catalog.Tombstone]bool)
	for seg, err := range published(ctx, s, of.place, r.Told, to) {
		if err != nil {
			return nil, err
		}
		if !of.names(&seg) || seg.Published.After(to) {
			continue
		}
		t := catalog.Tombstone{Host: seg.Host, By: "access", Reason: fmt.Sprintf("access rule %d: its embargo has ended", r.ID)}
		if r.Days > 0 {
			t.Edition = seg.Edition
		}
		if !seen[t] {
			seen[t] = true
			stones = append(stones, t)
		}
		if len(stones) > mostTold {
			return nil, errMany
		}
	}
	return stones, nil
}

// published yields the segments of hosts at and below a place, in editions published after the time
// from and up to the time to. It may also yield hosts beside the place (see KeyPrefix).
func published(ctx context.Context, s *catalog.Snapshot, place string, from, to time.Time) iter.Seq2[catalog.SegmentEntry, error] {
	return func(yield func(catalog.SegmentEntry, error) bool) {
		editions, err := s.Editions(ctx)
		if err != nil {
			yield(catalog.SegmentEntry{}, err)
			return
		}
		for _, ed := range editions {
			if !ed.Published.After(from) || ed.Published.After(to) {
				continue
			}
			for seg, err := range s.EditionUnder(ctx, ed.Name, KeyPrefix(place)) {
				if !yield(seg, err) {
					return
				}
			}
		}
	}
}
