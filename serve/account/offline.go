package account

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"sheaf/internal/loop"
)

// ErrAway says that accounts cannot be checked: the database does not answer, and the accounts in
// memory are too old or incomplete.
var ErrAway = errors.New("accounts cannot be checked: the database is away")

var errSilent = errors.New("it did not answer a moment ago")

const (
	queryTimeout = 3 * time.Second // for the database's answer about one account
	askAgain     = 5 * time.Second // pause after a query that got no answer
	listEvery    = time.Minute     // interval of reading all accounts
	listTimeout  = 20 * time.Second
)

// memory is what a process knows of the accounts, so that it can work while the database is away.
type memory struct {
	keep  time.Duration // how long after the database's last answer it may be used
	limit time.Duration // for the database's answer about one account
	log   *slog.Logger

	mu     sync.Mutex                   // guards what follows
	rows   map[string]stored            // by name; nil: never read completely
	tokens map[[sha256.Size]byte]*Token // by hash
	heard  time.Time                    // when the database last answered
	pause  time.Time                    // no query to the database before this time
}

// stored is one account as it is in the database.
type stored struct {
	account *Account
	phc     string
}

// Offline lets accounts be used from memory while the database is away, for at most keep after the
// database's last answer. The database counts as away if it does not answer within slower times 3
// seconds; 0 means 1. Offline must be called before everything else, and needs Run.
func (a *Accounts) Offline(keep time.Duration, slower int, log *slog.Logger) {
	a.memory = &memory{keep: keep, limit: queryTimeout * time.Duration(max(1, slower)), log: log}
}

// Run keeps all accounts in memory until ctx ends, if Offline was called.
func (a *Accounts) Run(ctx context.Context) error {
	if a.memory == nil {
		return nil
	}
	return loop.Every(ctx, listEvery, a.Learn, func(err error) {
		a.memory.log.WarnContext(ctx, "accounts cannot be read; known accounts stay valid", "after", a.memory.keep, "err", err)
	})
}

// Learn reads all accounts into memory. Offline must have been called. Run does the same, at its
// start and then each minute.
func (a *Accounts) Learn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	all := map[string]stored{}
	asked := time.Now()
	err := a.each(ctx, func(known *Account, phc string) { all[known.Name] = stored{known, phc} })
	tokens := map[[sha256.Size]byte]*Token{}
	if err == nil {
		err = a.eachToken(ctx, func(t *Token, hash []byte) { tokens[[sha256.Size]byte(hash)] = t })
	}
	if err != nil {
		return err
	}
	m := a.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows, m.tokens, m.heard, m.pause = all, tokens, asked, time.Time{}
	return nil
}

// known returns an account and the hash of its password from the database or, while that is away,
// from memory. It fails with sql.ErrNoRows.
func (a *Accounts) known(ctx context.Context, name string) (*Account, string, error) {
	if a.memory == nil {
		return a.load(ctx, name)
	}
	row, err := ask(ctx, a.memory, &a.memory.rows, name, func(ctx context.Context) (stored, error) {
		known, phc, err := a.load(ctx, name)
		return stored{known, phc}, err
	})
	return row.account, row.phc, err
}

// knownToken returns the token with a hash from the database or, while that is away, from memory.
// It fails with sql.ErrNoRows.
func (a *Accounts) knownToken(ctx context.Context, hash [sha256.Size]byte) (*Token, error) {
	load := func(ctx context.Context) (*Token, error) { return a.loadToken(ctx, hash) }
	if a.memory == nil {
		return load(ctx)
	}
	return ask(ctx, a.memory, &a.memory.tokens, hash, load)
}

// ask returns what load finds in the database and keeps it in memory, as the value of key. While
// the database is away, ask returns what is in memory. load and ask fail with sql.ErrNoRows if
// there is no such value.
func ask[K comparable, V any](ctx context.Context, m *memory, in *map[K]V, key K, load func(context.Context) (V, error)) (none V, err error) {
	away := errSilent
	if !m.paused() {
		bounded, cancel := context.WithTimeout(ctx, m.limit)
		defer cancel()
		value, err := load(bounded)
		switch {
		case err == nil || errors.Is(err, sql.ErrNoRows):
			note(m, in, key, value, err == nil)
			return value, err
		case ctx.Err() != nil: // the caller has gone, not the database
			return none, err
		}
		away = err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if away != errSilent {
		m.pause = time.Now().Add(askAgain) // so that others do not wait for it too
	}
	if err := m.tooOldLocked(away); err != nil {
		return none, err
	}
	value, ok := (*in)[key]
	if !ok {
		return none, sql.ErrNoRows
	}
	return value, nil
}

// note keeps the value of key that the database has just told, or that there is none.
func note[K comparable, V any](m *memory, in *map[K]V, key K, value V, there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard, m.pause = time.Now(), time.Time{}
	switch {
	case *in == nil: // never read completely: what is missing would count as deleted
	case there:
		(*in)[key] = value
	default:
		delete(*in, key)
	}
}

// forgetToken forgets a token that has been revoked. m may be nil.
func (m *memory) forgetToken(id string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.tokens, func(_ [sha256.Size]byte, t *Token) bool { return t.ID == id })
}

// paused reports whether queries to the database are paused. m may be nil.
func (m *memory) paused() bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Before(m.pause)
}

// tooOldLocked returns an ErrAway if what is in memory cannot be used. The caller holds mu.
func (m *memory) tooOldLocked(why error) error {
	if m.rows == nil {
		return fmt.Errorf("%w, and no account has been read yet: %w", ErrAway, why)
	}
	if silent := time.Since(m.heard); silent > m.keep {
		return fmt.Errorf("%w for %v, longer than known accounts stay valid: %w", ErrAway, silent.Round(time.Second), why)
	}
	return nil
}
