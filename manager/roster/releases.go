package roster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/db"
	"sheaf/internal/files"
	"sheaf/internal/stream"
	"sheaf/internal/wire"
)

var (
	// ErrNoKey says that no key for signing releases is registered.
	ErrNoKey = errors.New("no release key is registered; sheaf release key makes one")
	// ErrKey says that another key is registered already.
	ErrKey = errors.New("another release key is registered, and robots that have joined trust that one only; sheaf release key --replace sets another for robots that join from now on")
	// ErrCounter says that a release is not newer than all earlier ones.
	ErrCounter = errors.New("the counter is not higher than that of every earlier release")
	// ErrUnknown says that there is no such release.
	ErrUnknown = errors.New("no such release was published")
	// ErrProgram says that a program was not sent, or that its digest is not the one sent with it.
	ErrProgram = errors.New("a program of the release was not sent whole")
)

// Releases keeps the releases in the control database, and their programs in the object store. It
// may be used by many goroutines at once. A change is durable when its method returns.
type Releases struct {
	db      *sql.DB
	objects store.Store
	log     *slog.Logger
}

// NewReleases returns the releases in d, which internal/db has opened, with programs in the store.
// A nil logger discards.
func NewReleases(d *sql.DB, objects store.Store, log *slog.Logger) *Releases {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Releases{d, objects, log}
}

// Release is a release as operators see it.
type Release struct {
	Counter   int64     `json:"counter"`
	Version   string    `json:"version"`
	Published time.Time `json:"published"`
	Expires   time.Time `json:"expires"`
	Floor     int64     `json:"floor,omitempty"`
	Platforms []string  `json:"platforms"`
	Percent   int       `json:"percent"` // percentage of the robots that are offered it
	Since     time.Time `json:"since"`   // when this stage began
	Soak      Seconds   `json:"soak"`    // shortest duration of a stage
	Stopped   string    `json:"stopped,omitempty"`
	Robots    int       `json:"robots"` // number of robots that run this release
	Failed    int       `json:"failed"` // number of robots that went back to the release before
}

// Seconds is a span of time, in JSON as a number of seconds.
type Seconds int64

// published is a row of the table releases.
type published struct {
	*wire.Release
	text, signature []byte
	published       time.Time
	stage
}

// releases returns all releases, the newest first.
func releases(ctx context.Context, q db.Queryer) ([]published, error) {
	all, err := db.List(ctx, q, func(rows *sql.Rows, p *published) (err error) {
		var soak int64
		if err := rows.Scan(&p.text, &p.signature, db.At(&p.published), &p.percent, db.At(&p.since), &soak, &p.stopped); err != nil {
			return err
		}
		p.soak = time.Duration(soak) * time.Millisecond
		p.Release, err = wire.ParseRelease(p.text) // it was verified when it was published
		return err
	}, `SELECT text, signature, published, percent, since, soak, stopped FROM releases ORDER BY counter DESC`)
	if err != nil {
		return nil, fmt.Errorf("releases: %w", err)
	}
	return all, nil
}

// Key returns the key that releases are signed with, or "" if no key is registered.
func (s *Releases) Key(ctx context.Context) (string, error) {
	var key string
	err := s.db.QueryRowContext(ctx, `SELECT key FROM release_key`).Scan(&key)
	return key, db.OrNone(err, nil)
}

// SetKey registers the key that releases are signed with. Robots get it when they join and trust no
// other key afterwards. So SetKey returns ErrKey for another key, unless replace is set.
func (s *Releases) SetKey(ctx context.Context, key string, replace bool) error {
	k, err := wire.ParseReleaseKey(key)
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

// Bad says that the operator sent something wrong, such as a damaged program.
type Bad struct{ error }

// Unwrap returns the wrapped error, for errors.Is and errors.As.
func (b Bad) Unwrap() error { return b.error }

// Publish begins to roll out a release. Its programs must have been sent before (TakeProgram). It
// must be signed with the registered key, have the highest counter, and expire in a day at the
// earliest. Each stage lasts at least soak. If no robot has reported a platform of the release, it
// is for all robots at once.
func (s *Releases) Publish(ctx context.Context, text, signature []byte, soak time.Duration) error {
	key, err := s.Key(ctx)
	if err != nil {
		return err
	}
	if key == "" {
		return ErrNoKey
	}
	public, err := wire.ParseReleaseKey(key)
	if err != nil {
		return err
	}
	now := time.Now()
	r, err := wire.OpenRelease(text, signature, public, now.AddDate(0, 0, 1))
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
	return db.Transact(ctx, s.db, nil, func(tx *sql.Tx) error {
		robots, err := reporters(ctx, tx, published{Release: r})
		if err != nil {
			return err
		}
		percent := stages[0]
		if len(robots) == 0 { // no robot can try it, and new robots are to install it
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
		s.log.InfoContext(ctx, "release published", "release", r.Counter, "program_version", r.Version, "percent", percent)
		return nil
	})
}

// Stopped returns the newest release if its roll-out has stopped, or nil.
func (s *Releases) Stopped(ctx context.Context) (*Release, error) {
	all, err := s.List(ctx)
	if err != nil || len(all) == 0 || all[0].Stopped == "" {
		return nil, err
	}
	return &all[0], nil
}

// List returns all releases, the newest first.
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
			SELECT (SELECT COUNT(*) FROM release_reports WHERE counter = ?), (SELECT COUNT(*) FROM release_failures WHERE counter = ?)`,
			p.Counter, p.Counter).Scan(&r.Robots, &r.Failed)
		if err != nil {
			return nil, fmt.Errorf("release %d: %w", p.Counter, err)
		}
		list = append(list, r)
	}
	return list, nil
}

// Rollout sets the percentage of the robots that are offered a release. A reason in stopped stops
// the roll-out; "" lets it go on.
func (s *Releases) Rollout(ctx context.Context, counter int64, percent int, stopped string) error {
	if percent < 1 || percent > 100 {
		return Bad{fmt.Errorf("percent is %d; send 1 to 100", percent)}
	}
	err := db.Change(ctx, s.db, ErrUnknown, `UPDATE releases SET percent = ?, since = ?, stopped = ? WHERE counter = ?`,
		percent, db.Millis(time.Now()), stopped, counter)
	if err != nil {
		return fmt.Errorf("release %d: %w", counter, err)
	}
	return nil
}

// Signed is a release with the text that was signed.
type Signed struct {
	*wire.Release
	Text, Signature []byte
}

// Get returns the release with a counter. Counter 0 stands for the newest release that every robot
// may have. If there is no such release, Get returns ErrUnknown.
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

// ReleasePrefix begins the keys of the robots' programs in the object store. The keys are
// releases/programs/<SHA-256>.
const ReleasePrefix = "releases/"

func programKey(digest string) string { return ReleasePrefix + "programs/" + digest }

// TakeProgram stores a program, durably, under its SHA-256. It does nothing if the store already
// has the program.
func (s *Releases) TakeProgram(ctx context.Context, digest string, r io.Reader) error {
	if !wire.ValidDigest(digest) {
		return Bad{fmt.Errorf("%q is not a SHA-256 in lower-case hexadecimal", digest)}
	}
	// The store needs the size first and must not get a damaged program, so a temporary file comes
	// before it.
	f, err := files.Nameless("")
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(f, sum), r)
	if err != nil {
		return fmt.Errorf("program %s: %w", digest, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
		return Bad{fmt.Errorf("program %s: %w: its SHA-256 is %s", digest, ErrProgram, got)}
	}
	err = s.objects.Put(ctx, programKey(digest), io.NewSectionReader(f, 0, size), size)
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("program %s: %w", digest, err)
	}
	return nil
}

// taken reports whether the store has a release's program, at its full size.
func (s *Releases) taken(ctx context.Context, f wire.ReleaseFile) (bool, error) {
	info, err := s.objects.Stat(ctx, programKey(f.SHA256))
	if errors.Is(err, store.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size == f.Size, err
}

// Program returns a release's program. The caller must close it.
func (s *Releases) Program(ctx context.Context, f wire.ReleaseFile) *stream.Content {
	return &stream.Content{Size: f.Size, Open: func(off, n int64) (io.ReadCloser, error) {
		return s.objects.Open(ctx, programKey(f.SHA256), off, n)
	}}
}
