package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// ErrAway says that accounts cannot be checked: the database does not answer, and the accounts in
// memory are too old or incomplete.
var ErrAway = errors.New("accounts cannot be checked: the database is away")

const (
	queryTimeout = 3 * time.Second // for the database's answer about one account
	askAgain     = 5 * time.Second // pause after a query that got no answer
	listEvery    = time.Minute     // interval of reading all accounts
	listTimeout  = 20 * time.Second
)

// memory is what a process knows of the accounts, so that it can work while the database is away.
type memory struct {
	keep time.Duration // how long after the database's last answer it may be used
	log  *slog.Logger

	mu    sync.Mutex        // guards what follows
	rows  map[string]stored // by name; nil: never read completely
	heard time.Time         // when the database last answered
	pause time.Time         // the database is not asked before
}

// stored is one account as it is in the database.
type stored struct {
	account *Account
	phc     string
}

// Offline lets known accounts be used for so long after the database's last answer. It must be
// called before everything else, and needs Run.
func (a *Accounts) Offline(keep time.Duration, log *slog.Logger) {
	a.memory = &memory{keep: keep, log: log}
}

// Run keeps all accounts in memory until ctx ends, if Offline was called.
func (a *Accounts) Run(ctx context.Context) error {
	if a.memory == nil {
		return nil
	}
	tick := time.NewTicker(listEvery)
	defer tick.Stop()
	for {
		if err := a.Learn(ctx); err != nil && ctx.Err() == nil {
			a.memory.log.WarnContext(ctx, "accounts cannot be read; known accounts stay valid", "for", a.memory.keep, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Learn reads all accounts into memory. Offline must have been called. Run does the same, at its
// start and then each minute.
func (a *Accounts) Learn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	all := map[string]stored{}
	asked := time.Now()
	err := a.each(ctx, func(account *Account, phc string) { all[account.Name] = stored{account, phc} })
	if err != nil {
		return err
	}
	m := a.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows, m.heard, m.pause = all, asked, time.Time{}
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
		return m.get(name, errors.New("it did not answer a moment ago"))
	}
	bounded, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	account, phc, err := a.load(bounded, name)
	switch {
	case err == nil || errors.Is(err, sql.ErrNoRows):
		m.note(name, account, phc)
		return account, phc, err
	case ctx.Err() != nil: // the caller has gone, not the database
		return nil, "", err
	}
	m.mu.Lock()
	m.pause = time.Now().Add(askAgain) // not everybody is to wait for it
	m.mu.Unlock()
	return m.get(name, err)
}

func (m *memory) paused() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Before(m.pause)
}

// note keeps what the database has just said of an account, which is nil if there is none.
func (m *memory) note(name string, account *Account, phc string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard, m.pause = time.Now(), time.Time{}
	switch {
	case m.rows == nil: // an account that is missing in it would count as deleted
	case account == nil:
		delete(m.rows, name)
	default:
		m.rows[name] = stored{account, phc}
	}
}

// get answers from memory. An account that is not there does not exist.
func (m *memory) get(name string, why error) (*Account, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows == nil {
		return nil, "", fmt.Errorf("%w, and no account has been read yet: %w", ErrAway, why)
	}
	if silent := time.Since(m.heard); silent > m.keep {
		return nil, "", fmt.Errorf("%w for %v, longer than known accounts stay valid: %w", ErrAway, silent.Round(time.Second), why)
	}
	row, ok := m.rows[name]
	if !ok {
		return nil, "", sql.ErrNoRows
	}
	return row.account, row.phc, nil
}
