package serve

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// ErrAway says that accounts cannot be checked: the database does not answer, and what
// was known of them is too old or not all.
var ErrAway = errors.New("accounts cannot be checked: the database is away")

const (
	askWait   = 3 * time.Second // for the database's answer about one account
	askAgain  = 5 * time.Second // after it gave none, until it is asked again
	listEvery = time.Minute     // between two looks at all accounts
	listWait  = 20 * time.Second
)

// memory is what a node knows of the accounts, so that it goes on while the database is away.
type memory struct {
	keep time.Duration // how long after the database was last heard of it may be used
	log  *slog.Logger

	mu    sync.Mutex       // guards what follows
	known map[string]known // by name; nil: never read in full
	heard time.Time        // when the database last answered
	quiet time.Time        // until when it is not asked
}

// known is one account as it is stored.
type known struct {
	account *Account
	phc     string
}

// Offline lets accounts that are known be used for so long after the database was last
// heard of. It is called before anything else, and needs Run.
func (a *Accounts) Offline(keep time.Duration, log *slog.Logger) {
	a.memory = &memory{keep: keep, log: log}
}

// Run keeps all accounts in memory, as Offline has it, until ctx ends.
func (a *Accounts) Run(ctx context.Context) error {
	if a.memory == nil {
		return nil
	}
	tick := time.NewTicker(listEvery)
	defer tick.Stop()
	for {
		if err := a.Learn(ctx); err != nil && ctx.Err() == nil {
			a.memory.log.WarnContext(ctx, "accounts cannot be read; those that are known go on", "for", a.memory.keep, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Learn reads all accounts at once, where Offline was called: from then on those that
// are stored now are known. Run does so too, from its start and each minute.
func (a *Accounts) Learn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	all := map[string]known{}
	asked := time.Now()
	err := a.each(ctx, func(account *Account, phc string) { all[account.Name] = known{account, phc} })
	if err != nil {
		return err
	}
	m := a.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.heard, m.quiet = all, asked, time.Time{}
	return nil
}

// recall is load, by the database or, while that is away, from memory.
func (a *Accounts) recall(ctx context.Context, name string) (*Account, string, error) {
	m := a.memory
	if m == nil {
		return a.load(ctx, name)
	}
	if m.quietNow() {
		return m.from(name, errors.New("it did not answer a moment ago"))
	}
	bounded, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	account, phc, err := a.load(bounded, name)
	switch {
	case err == nil || errors.Is(err, sql.ErrNoRows):
		m.note(name, account, phc)
		return account, phc, err
	case ctx.Err() != nil: // it is the asker who is gone
		return nil, "", err
	}
	m.silence()
	return m.from(name, err)
}

func (m *memory) quietNow() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Before(m.quiet)
}

// note keeps what the database has just said of an account, nil if there is none.
func (m *memory) note(name string, account *Account, phc string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard, m.quiet = time.Now(), time.Time{}
	switch {
	case m.known == nil: // not before all are known: what lacks there does not exist
	case account == nil:
		delete(m.known, name)
	default:
		m.known[name] = known{account, phc}
	}
}

// silence has the database left alone for a moment: nobody is to wait for it each time.
func (m *memory) silence() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quiet = time.Now().Add(askAgain)
}

// from answers from memory. An account that lacks there does not exist.
func (m *memory) from(name string, why error) (*Account, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		return nil, "", fmt.Errorf("%w, and no account has been read yet: %w", ErrAway, why)
	}
	if silent := time.Since(m.heard); silent > m.keep {
		return nil, "", fmt.Errorf("%w for %v, longer than known accounts go on: %w", ErrAway, silent.Round(time.Second), why)
	}
	k, ok := m.known[name]
	if !ok {
		return nil, "", sql.ErrNoRows
	}
	return k.account, k.phc, nil
}
