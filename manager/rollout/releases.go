// Package rollout keeps the releases of the robot's program and rolls each out in
// stages: it is offered to one robot in a hundred, to ten, to all. A stage follows by
// itself when the robots of the one before have reported in with the release, and the
// roll-out stops by itself when robots put it back.
//
// It hands on what the operators signed and verifies it once, when it is published.
// That does not make it trusted: robots verify with the key that they learnt when they joined.
package rollout

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/db"
	"sheaf/internal/release"
)

var (
	// ErrNoKey says that no key was registered that releases are signed with.
	ErrNoKey = errors.New("no release key is registered; sheaf release key makes one")
	// ErrKey says that another key is registered already.
	ErrKey = errors.New("another release key is registered; robots that joined trust that one only. Say that it is to be replaced for those that join from now on")
	// ErrCounter says that a release is not newer than those before it.
	ErrCounter = errors.New("the counter is not higher than every earlier release's")
	// ErrUnknown says that there is no such release.
	ErrUnknown = errors.New("no such release was published")
	// ErrProgram says that a program was not sent, or is not what its name says.
	ErrProgram = errors.New("a program of the release was not sent whole")
)

// Releases keeps the releases in the control database, and their programs in the
// store of objects. It may be used by many goroutines at once; a change that a method reports is durable.
type Releases struct {
	db      *sql.DB
	objects store.Store
	log     *slog.Logger
}

// New gives the releases in db, which internal/db has opened, with programs in the store.
func New(db *sql.DB, objects store.Store, log *slog.Logger) *Releases {
	return &Releases{db, objects, log}
}

// Release is what operators see of a release.
type Release struct {
	Counter   int64     `json:"counter"`
	Version   string    `json:"version"`
	Published time.Time `json:"published"`
	Expires   time.Time `json:"expires"`
	Floor     int64     `json:"floor,omitempty"`
	Platforms []string  `json:"platforms"`
	Percent   int       `json:"percent"` // of the robots that are offered it
	Since     time.Time `json:"since"`   // when that began
	Soak      Seconds   `json:"soak"`    // that a stage lasts at least
	Stopped   string    `json:"stopped,omitempty"`
	Robots    int       `json:"robots"` // that run it, or a later one
	Failed    int       `json:"failed"` // that put it back
}

// Seconds is a span of time, in JSON as a number of seconds.
type Seconds int64

// published is a release as the database keeps it.
type published struct {
	*release.Release
	text, signature []byte
	published       time.Time
	stage
}

const releaseColumns = `text, signature, published, percent, since, soak, stopped`

// scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(...any) error }

func scanRelease(row scanner) (p published, err error) {
	var when, since, soak int64
	if err := row.Scan(&p.text, &p.signature, &when, &p.percent, &since, &soak, &p.stopped); err != nil {
		return p, err
	}
	p.published, p.since, p.soak = db.Time(when), db.Time(since), time.Duration(soak)*time.Millisecond
	p.Release, err = release.Parse(p.text) // was verified when it was published
	return p, err
}

// queryer is a *sql.DB or *sql.Tx.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// releases gives every release, the newest first.
func releases(ctx context.Context, q queryer) ([]published, error) {
	rows, err := q.QueryContext(ctx, `SELECT `+releaseColumns+` FROM releases ORDER BY counter DESC`)
	if err != nil {
		return nil, fmt.Errorf("releases: %w", err)
	}
	defer rows.Close()
	var all []published
	for rows.Next() {
		p, err := scanRelease(rows)
		if err != nil {
			return nil, fmt.Errorf("releases: %w", err)
		}
		all = append(all, p)
	}
	return all, rows.Err()
}

// Key gives the key that releases are signed with, empty where there is none.
func (s *Releases) Key(ctx context.Context) (string, error) {
	var key string
	err := s.db.QueryRowContext(ctx, `SELECT key FROM release_key`).Scan(&key)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return key, err
}

// SetKey registers the key that releases are signed with. Robots learn it
// when they join and trust no other afterwards, so another one is taken only where
// replace says so.
func (s *Releases) SetKey(ctx context.Context, key string, replace bool) error {
	k, err := release.ParseKey(key)
	if err != nil {
		return Bad{err}
	}
	key = k.String()
	have, err := s.Key(ctx)
	if err != nil {
		return err
	}
	if have != "" && have != key && !replace {
		return ErrKey
	}
	_, err = s.db.ExecContext(ctx, `INSERT INTO release_key (id, key) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET key = excluded.key`, key)
	return err
}

// Bad wraps an error that is the operator's own fault, not the service's.
type Bad struct{ error }

func (b Bad) Unwrap() error { return b.error }

// Publish begins to roll out a release whose programs were taken before. It must be
// signed with the registered key, be newer than every other and last at least a day.
// Where no robot has reported yet, it is for everybody at once.
func (s *Releases) Publish(ctx context.Context, text, signature []byte, soak time.Duration) error {
	key, err := s.Key(ctx)
	if err != nil {
		return err
	}
	if key == "" {
		return ErrNoKey
	}
	public, err := release.ParseKey(key)
	if err != nil {
		return err
	}
	now := time.Now()
	r, err := release.Open(text, signature, public, now.AddDate(0, 0, 1))
	if err != nil {
		return Bad{err}
	}
	for _, f := range r.Files {
		taken, err := s.taken(ctx, f)
		if err != nil {
			return err
		}
		if !taken {
			return Bad{fmt.Errorf("%s: %w", f.Platform, ErrProgram)}
		}
	}
	return s.transact(ctx, func(tx *sql.Tx) error {
		robots, err := reporters(ctx, tx, published{Release: r})
		if err != nil {
			return err
		}
		percent := stages[0]
		if len(robots) == 0 { // nobody to try it: new robots are to install it
			percent = 100
		}
		var newest int64
		if err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(counter), 0) FROM releases`).Scan(&newest); err != nil {
			return err
		}
		if r.Counter <= newest {
			return ErrCounter
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO releases (counter, text, signature, published, percent, since, soak) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			r.Counter, text, signature, db.Millis(now), percent, db.Millis(now), soak.Milliseconds())
		if err != nil {
			return fmt.Errorf("publish release %d: %w", r.Counter, err)
		}
		s.log.InfoContext(ctx, "release published", "counter", r.Counter, "version", r.Version, "percent", percent)
		return nil
	})
}

// List lists what was published, the newest first.
func (s *Releases) List(ctx context.Context) ([]Release, error) {
	all, err := releases(ctx, s.db)
	if err != nil {
		return nil, err
	}
	list := []Release{}
	for _, p := range all {
		r := Release{
			Counter: p.Counter, Version: p.Version, Published: p.published, Expires: p.Expires, Floor: p.Floor,
			Percent: p.percent, Since: p.since, Soak: Seconds(p.soak / time.Second), Stopped: p.stopped,
		}
		for _, f := range p.Files {
			r.Platforms = append(r.Platforms, f.Platform)
		}
		err := s.db.QueryRowContext(ctx, `
			SELECT (SELECT COUNT(*) FROM release_reports WHERE counter >= ?), (SELECT COUNT(*) FROM release_failures WHERE counter = ?)`,
			p.Counter, p.Counter).Scan(&r.Robots, &r.Failed)
		if err != nil {
			return nil, fmt.Errorf("release %d: %w", p.Counter, err)
		}
		list = append(list, r)
	}
	return list, nil
}

// Rollout sets how many of a hundred robots are offered a release, or stops it with
// the reason given; with none it goes on.
func (s *Releases) Rollout(ctx context.Context, counter int64, percent int, stopped string) error {
	if percent < 1 || percent > 100 {
		return Bad{fmt.Errorf("%d %%: want 1 to 100", percent)}
	}
	res, err := s.db.ExecContext(ctx, `UPDATE releases SET percent = ?, since = ?, stopped = ? WHERE counter = ?`,
		percent, db.Millis(time.Now()), stopped, counter)
	if err != nil {
		return fmt.Errorf("release %d: %w", counter, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrUnknown)
	}
	return nil
}

// Signed is a release as it was signed.
type Signed struct {
	*release.Release
	Text, Signature []byte
}

// Get gives one release, or with counter 0 the newest that every robot may have.
func (s *Releases) Get(ctx context.Context, counter int64) (Signed, error) {
	all, err := releases(ctx, s.db)
	if err != nil {
		return Signed{}, err
	}
	for _, p := range all {
		if p.Counter == counter || counter == 0 && p.percent == 100 && p.stopped == "" && time.Now().Before(p.Expires) {
			return Signed{p.Release, p.text, p.signature}, nil
		}
	}
	return Signed{}, ErrUnknown
}

// transact runs f in one transaction and commits where f returns nil.
func (s *Releases) transact(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // does nothing after Commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
