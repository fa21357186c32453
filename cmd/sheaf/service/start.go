package service

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/cmd/sheaf/service/monitor"
	"sheaf/internal/db"
	"sheaf/internal/files"
	"sheaf/internal/lease"
	"sheaf/internal/loop"
	"sheaf/internal/servicekey"
)

// state has what a process opens at its start, such as store, database and keys.
type state struct {
	lock    io.Closer // of the data directory
	objects *Objects
	db      *sql.DB
	local   func() time.Time // the machine's clock; nil: time.Now
	clock   *db.Clock        // the same in all processes
	token   string           // the operators'
	keys    *servicekey.Ring // they sign receipts; nil in a process that only serves
	leases  lease.Locker     // nil in a process that only serves
	leasing io.Closer
	monitor *monitor.Monitor // counts what the process does
}

// open opens what the settings name. It creates a database only if the database and the store
// belong together. If it fails, the caller must call close.
func (s *state) open(ctx context.Context, cfg Config, log *slog.Logger) (err error) {
	if s.lock, err = lockData(cfg); err != nil {
		return err
	}
	used, err := databaseUsed(ctx, cfg, log)
	if err != nil {
		return err
	}
	if s.objects, err = OpenStore(ctx, cfg); err != nil {
		return err
	}
	s.objects.LogTo(log)
	if !used {
		if err := checkBeside(ctx, cfg, s.objects); err != nil {
			return err
		}
	}
	if s.db, err = db.Open(ctx, cfg.database()); err != nil {
		return cfg.advise(err)
	}
	s.clock = db.NewClock(s.db, cfg.database(), s.local)
	if err := compareClocks(ctx, s.clock); err != nil {
		log.WarnContext(ctx, "the clock is wrong", "err", err)
	}
	if cfg.has(roleManager, roleIngest) {
		if s.keys, err = openKey(ctx, s.db, cfg); err != nil {
			return err
		}
		if err = claim(ctx, cfg, s.db, s.objects); err != nil {
			return err
		}
		if s.leases, s.leasing, err = openLeases(cfg, s.db, log); err != nil {
			return err
		}
		s.leases = s.monitor.Leases(s.leases)
	}
	s.token, err = secretFiles{s.db, cfg}.token(ctx)
	return err
}

// close closes what is open, in the reverse order.
func (s *state) close() {
	if s.leasing != nil {
		s.leasing.Close()
	}
	if s.db != nil {
		s.db.Close()
	}
	if s.objects != nil {
		s.objects.Close()
	}
	if s.lock != nil {
		s.lock.Close()
	}
}

// lockFile is locked by the process that uses a data directory with a SQLite database. It contains
// the process's ID.
const lockFile = "service.lock"

// lockData locks a data directory with a SQLite database against other processes, until the lock is
// closed or the process ends.
func lockData(cfg Config) (io.Closer, error) {
	if cfg.Database.URL != "" {
		return io.NopCloser(nil), nil
	}
	f, err := os.OpenFile(filepath.Join(cfg.Data, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("settings: data: %w", err)
	}
	if err := files.TryLock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("settings: data: lock %s: %w", f.Name(), err)
		}
		owner := "another process"
		if pid, err := io.ReadAll(io.LimitReader(f, 20)); err == nil && len(pid) > 0 {
			owner = "process " + strings.TrimSpace(string(pid))
		}
		return nil, fmt.Errorf("settings: data: %q is in use by %s; stop that first, or let both share a PostgreSQL database (database.url)", cfg.Data, owner)
	}
	if err := errors.Join(f.Truncate(0), writePID(f)); err != nil {
		f.Close()
		return nil, fmt.Errorf("settings: data: %w", err)
	}
	return files.Held{File: f}, nil
}

func writePID(f *os.File) error {
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

// Times while a start waits for the database.
const (
	databaseLook   = time.Second      // between two attempts
	databaseAnswer = 10 * time.Second // for one attempt
	databaseTell   = 30 * time.Second // between two lines in the log
)

// databaseUsed waits until the database answers, at most for database.wait, and reports whether a
// service has used the database before.
func databaseUsed(ctx context.Context, cfg Config, log *slog.Logger) (bool, error) {
	begun := time.Now()
	var told time.Time
	for {
		bounded, cancel := context.WithTimeout(ctx, databaseAnswer)
		used, err := db.Used(bounded, cfg.database())
		cancel()
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err == nil:
			if !told.IsZero() {
				log.InfoContext(ctx, "the database answers", "after", time.Since(begun).Round(time.Second))
			}
			return used, nil
		case cfg.Database.URL == "" || !db.Away(err):
			return false, cfg.advise(err)
		case time.Since(begun) >= cfg.Database.Wait:
			return false, fmt.Errorf("settings: database.url: the database has not answered for %v (database.wait); start it, or mend the URL: %w", cfg.Database.Wait, err)
		}
		if time.Since(told) >= databaseTell {
			told = time.Now()
			log.WarnContext(ctx, "the database is away; waiting for it", "until", begun.Add(cfg.Database.Wait).Format(time.RFC3339), "err", err)
		}
		loop.Pause(ctx, databaseLook)
	}
}

// advise adds how to restore a backup if the error is that of a damaged database.
func (c *Config) advise(err error) error {
	if !errors.Is(err, db.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w; restore a backup: move %s (with -wal and -shm, where they are) out of the way, then run `sheaf restore BACKUP --data %s`",
		err, c.database(), c.Data)
}

// checkBeside returns an error if the store has archives although the database is empty. Such a
// service would know no account and no robot, sign with a new key, and accept old batches again.
func checkBeside(ctx context.Context, cfg Config, objects store.Store) error {
	if cfg.Database.Fresh {
		return nil
	}
	published, err := catalog.Published(ctx, objects)
	if err != nil || !published {
		return err
	}
	where, setting := cfg.database(), "data"
	if cfg.Database.URL != "" {
		where, setting = "that of database.url", "database.url"
	}
	return fmt.Errorf("settings: %s: the database (%s) is empty, and the store has archives: is it the right one? "+
		"Restore a backup with `sheaf restore BACKUP`; or, to begin anew without the accounts, robots and keys there were, start once with --set database.fresh=true", setting, where)
}

// claim marks the store as this installation's, or returns an error if the store belongs to another
// installation. Two installations that publish into one catalog would take each other's batches for
// unknown and collect each other's objects. With database.fresh, which makes a new installation
// with old archives, claim takes the store over.
func claim(ctx context.Context, cfg Config, d *sql.DB, objects store.Store) error {
	var first []byte // the first key stays in the database, whichever key signs now
	if err := d.QueryRowContext(ctx, `SELECT public FROM service_keys WHERE number = 1`).Scan(&first); err != nil {
		return fmt.Errorf("the service's first key: %w", err)
	}
	sum := sha256.Sum256(first)
	own := hex.EncodeToString(sum[:]) + "\n"
	named, err := owner(ctx, objects)
	if errors.Is(err, store.ErrNotExist) {
		err = objects.Put(ctx, catalog.OwnerKey, strings.NewReader(own), int64(len(own)))
		if errors.Is(err, store.ErrExists) { // another process, of this service or of another, was faster
			return claim(ctx, cfg, d, objects)
		}
		return err
	}
	switch {
	case err != nil:
		return err
	case named == own:
		return nil
	case cfg.Database.Fresh:
		if err := objects.Delete(ctx, catalog.OwnerKey); err != nil {
			return err
		}
		return claim(ctx, cfg, d, objects)
	}
	return fmt.Errorf("settings: store: %s belongs to another installation (its object %q names another first key than the database has): "+
		"is it the right store, and the right database? To give the store to this installation, start once with --set database.fresh=true",
		cfg.storeName(), catalog.OwnerKey)
}

// owner returns the name of the installation that the store belongs to.
func owner(ctx context.Context, objects store.Store) (string, error) {
	r, err := objects.Open(ctx, catalog.OwnerKey, 0, -1)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, 1000))
	return string(text), err
}

// mostAhead is the largest difference allowed between a machine's clock and the database's.
const mostAhead = 30 * time.Second

// compareClocks returns an error if the machine's clock differs too much from the database's.
func compareClocks(ctx context.Context, clock *db.Clock) error {
	ahead, err := clock.Measure(ctx)
	if err != nil || ahead.Abs() <= mostAhead {
		return err
	}
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	return advice(fmt.Sprintf("this machine's clock is %v %s the database's: set the wrong one (NTP); until then windows, sessions and "+
		"tokens begin and end by this machine's clock", ahead.Abs().Round(time.Second), way))
}
