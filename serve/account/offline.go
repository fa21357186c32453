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
	m := a.memory
	if m == nil {
		return a.load(ctx, name)
	}
	if m.paused() {
		return m.get(name, errSilent)
	}
	bounded, cancel := context.WithTimeout(ctx, m.limit)
	defer cancel()
	known, phc, err := a.load(bounded, name)
	switch {
	case err == nil || errors.Is(err, sql.ErrNoRows):
		m.note(name, known, phc)
		return known, phc, err
	case ctx.Err() != nil: // the caller has gone, not the database
		return nil, "", err
	}
	m.mu.Lock()
	m.pause = time.Now().Add(askAgain) // so that others do not wait for it too
	m.mu.Unlock()
	return m.get(name, err)
}

// knownToken returns the token with a hash from the database or, while that is away, from memory;
// nil if no token has it.
func (a *Accounts) knownToken(ctx context.Context, hash [sha256.Size]byte) (*Token, error) {
	m := a.memory
	if m == nil {
		return a.loadToken(ctx, hash)
	}
	if m.paused() {
		return m.getToken(hash, errSilent)
	}
	bounded, cancel := context.WithTimeout(ctx, m.limit)
	defer cancel()
	t, err := a.loadToken(bounded, hash)
	switch {
	case err == nil:
		m.noteToken(hash, t)
		return t, nil
	case ctx.Err() != nil: // the caller has gone, not the database
		return nil, err
	}
	m.mu.Lock()
	m.pause = time.Now().Add(askAgain)
	m.mu.Unlock()
	return m.getToken(hash, err)
}

func (m *memory) getToken(hash [sha256.Size]byte, why error) (*Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tokens[hash], m.tooOldLocked(why)
}

// noteToken keeps what the database has just said of a token. t is nil if the database does not
// have the token.
func (m *memory) noteToken(hash [sha256.Size]byte, t *Token) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case t == nil:
		delete(m.tokens, hash)
	case m.tokens != nil:
		m.tokens[hash] = t
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

// note keeps what the database has just said of an account. known is nil if the database does not
// have the account.
func (m *memory) note(name string, known *Account, phc string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard, m.pause = time.Now(), time.Time{}
	switch {
	case m.rows == nil: // an account that is missing in it would count as deleted
	case known == nil:
		delete(m.rows, name)
	default:
		m.rows[name] = stored{known, phc}
	}
}

// get answers from memory, with sql.ErrNoRows for an account that is not there.
func (m *memory) get(name string, why error) (*Account, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.tooOldLocked(why); err != nil {
		return nil, "", err
	}
	row, ok := m.rows[name]
	if !ok {
		return nil, "", sql.ErrNoRows
	}
	return row.account, row.phc, nil
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
