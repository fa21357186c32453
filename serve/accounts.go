package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"sheaf/internal/guesses"
	"sheaf/internal/peer"
	"sheaf/internal/window"
	"sheaf/serve/bandwidth"
)

// Errors of Accounts.
var (
	ErrCredentials   = errors.New("wrong account or password")
	ErrAccountExists = errors.New("account exists already; delete it first to give it anew")
	ErrNoAccount     = errors.New("no such account")
	ErrAccount       = errors.New("account cannot be as given")
)

// Verified credentials are believed for credentialTTL without spending argon2id
// again: mirrors log in with several connections. Deleting an account or
// changing its password takes effect at once all the same.
const (
	credentialTTL   = 5 * time.Minute
	credentialCache = 4096 // entries
)

// Accounts keeps accounts in the database. Passwords are stored as argon2id PHC
// strings. All methods may be called from many goroutines at once; what a method
// has changed is durable when it returns nil.
type Accounts struct {
	db        *sql.DB
	anonymous *Account
	memory    *memory // nil: nothing goes on without the database

	key      [sha256.Size]byte                        // of this process; never stored
	verified *lru.Cache[[sha256.Size]byte, time.Time] // keyed hash of credentials → believed until
	checks   singleflight.Group                       // of the same credentials: one at a time
	turns    *guesses.Turns                           // bounds argon2id's memory: one check a CPU
	decoy    string                                   // verified for unknown names, so that they take as long

	following following

	// Guesses bounds Login. It may be replaced before the first one, by one that others use too.
	Guesses *guesses.Limiter
}

// NewAccounts keeps accounts in db, whose migrations have run. Anonymous, where
// not nil, is what those without credentials may see; its name is set.
func NewAccounts(db *sql.DB, anonymous *Account) (*Accounts, error) {
	verified, err := lru.New[[sha256.Size]byte, time.Time](credentialCache)
	if err != nil {
		return nil, err
	}
	a := &Accounts{db: db, verified: verified, turns: guesses.NewTurns(runtime.GOMAXPROCS(0)), decoy: decoyHash(),
		Guesses: guesses.New(slog.New(slog.DiscardHandler))}
	rand.Read(a.key[:])
	if anonymous != nil {
		copied := *anonymous
		copied.Name = Anonymous
		if err := copied.check(); err != nil {
			return nil, err
		}
		a.anonymous = &copied
	}
	return a, nil
}

// Anonymous is the account of those who give no credentials, or nil where the
// operator has configured none.
func (a *Accounts) Anonymous() *Account { return a.anonymous }

// Account returns the account of a name, or fails with ErrNoAccount.
func (a *Accounts) Account(ctx context.Context, name string) (*Account, error) {
	if a.anonymous != nil && name == Anonymous {
		return a.anonymous, nil
	}
	account, _, err := a.load(ctx, name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("account %s: %w", name, ErrNoAccount)
	}
	return account, err
}

// Authenticate returns the account whose credentials these are. It fails with
// ErrCredentials, and does not tell which of the two was wrong. It bounds no guessing: Login does.
func (a *Accounts) Authenticate(ctx context.Context, name, password string) (*Account, error) {
	return a.login(ctx, name, password, "")
}

// Login is Authenticate for a client at an address ("192.0.2.1:7"). It fails with
// *guesses.TooMany where too many passwords from there were wrong. Of the same credentials that
// come at once from one address only one is checked, and all have its answer.
func (a *Accounts) Login(ctx context.Context, name, password, remote string) (*Account, error) {
	return a.login(ctx, name, password, cmp.Or(remote, "unknown"))
}

func (a *Accounts) login(ctx context.Context, name, password, remote string) (*Account, error) {
	if a.anonymous != nil && name == Anonymous {
		return a.anonymous, nil
	}
	account, phc, err := a.recall(ctx, name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		account, phc = nil, a.decoy
	case err != nil:
		return nil, err
	}
	id := guesses.Digest(a.key[:], name, phc, password)
	if until, ok := a.verified.Get(id); ok && time.Now().Before(until) && account != nil {
		return account, nil
	}
	verify := func(ctx context.Context) (bool, error) {
		done, err := a.turns.Wait(ctx, remote)
		if err != nil {
			return false, err
		}
		defer done()
		ok, err := checkPassword(phc, password)
		if ok = ok && account != nil; ok {
			a.verified.Add(id, time.Now().Add(credentialTTL))
		}
		return ok, err
	}
	ok, err := a.once(ctx, string(id[:])+peer.Network(peer.Addr(remote)).String(), func(ctx context.Context) (bool, error) {
		if remote == "" {
			return verify(ctx)
		}
		return a.Guesses.Check(ctx, guesses.Try{Realm: guesses.Account, Name: name, Secret: password, Remote: remote}, verify)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("account %s: %w", name, err)
	case !ok:
		return nil, ErrCredentials
	}
	return account, nil
}

// once calls f, unless a call with the same key is under way: then it waits for that one's result.
// The call goes on when its caller has gone, for others may wait for it.
func (a *Accounts) once(ctx context.Context, key string, f func(context.Context) (bool, error)) (bool, error) {
	result := a.checks.DoChan(key, func() (any, error) { return f(context.WithoutCancel(ctx)) })
	select {
	case r := <-result:
		return r.Val.(bool), r.Err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Create stores a new account and returns it as stored. Where password is empty
// one is made up; the password is returned too, and cannot be learned again. What
// cannot be an account fails with ErrAccount.
func (a *Accounts) Create(ctx context.Context, account Account, password string) (Account, string, error) {
	if err := account.check(); err != nil {
		return Account{}, "", err
	}
	if account.Name == Anonymous {
		return Account{}, "", fmt.Errorf("%w: %s has no password and is given in the settings", ErrAccount, Anonymous)
	}
	if password == "" {
		password = newPassword()
	}
	if account.Window == nil {
		account.Window = window.Always()
	}
	account.Created = time.Now().UTC().Truncate(time.Second)
	result, err := a.db.ExecContext(ctx,
		`INSERT INTO accounts (name, password, domains, opening, rate, quota, created) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO NOTHING`,
		account.Name, hashPassword(password), strings.Join(account.Domains, " "), account.Window.String(),
		storedRate(account.Rate), account.Quota, account.Created.Unix())
	if err != nil {
		return Account{}, "", fmt.Errorf("account %s: %w", account.Name, err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return Account{}, "", fmt.Errorf("account %s: %w", account.Name, cmp.Or(err, ErrAccountExists))
	}
	return account, password, nil
}

// Delete removes an account. Its next login or HTTP request fails, and what it
// has open ends: at once in this process, in others as they look (Watch).
func (a *Accounts) Delete(ctx context.Context, name string) error {
	result, err := a.db.ExecContext(ctx, `DELETE FROM accounts WHERE name = $1`, name)
	if err != nil {
		return fmt.Errorf("account %s: %w", name, err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return fmt.Errorf("account %s: %w", name, cmp.Or(err, ErrNoAccount))
	}
	a.following.gone(name)
	return nil
}

// List returns all accounts by name, the anonymous one not among them.
func (a *Accounts) List(ctx context.Context) ([]Account, error) {
	var all []Account
	err := a.each(ctx, func(account *Account, _ string) { all = append(all, *account) })
	return all, err
}

// each gives every account by name, with its password's hash.
func (a *Accounts) each(ctx context.Context, f func(account *Account, phc string)) error {
	rows, err := a.db.QueryContext(ctx, `SELECT `+accountColumns+` FROM accounts ORDER BY name`)
	if err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		account, phc, err := scanAccount(rows)
		if err != nil {
			return err
		}
		f(account, phc)
	}
	return rows.Err()
}

func (a *Accounts) load(ctx context.Context, name string) (*Account, string, error) {
	return scanAccount(a.db.QueryRowContext(ctx,
		`SELECT `+accountColumns+` FROM accounts WHERE name = $1`, name))
}

const accountColumns = "name, password, domains, opening, rate, quota, created"

// storedRate is a rate as the database has it.
func storedRate(r *bandwidth.Rates) string {
	if r == nil {
		return ""
	}
	return r.String()
}

func scanAccount(row interface{ Scan(...any) error }) (*Account, string, error) {
	var (
		account                     Account
		phc, domains, opening, rate string
		created                     int64
	)
	if err := row.Scan(&account.Name, &phc, &domains, &opening, &rate, &account.Quota, &created); err != nil {
		return nil, "", fmt.Errorf("accounts: %w", err)
	}
	schedule, err := window.Parse(opening)
	if err != nil {
		return nil, "", fmt.Errorf("account %s: stored window: %w", account.Name, err)
	}
	if rate != "" {
		if account.Rate, err = bandwidth.ParseRates(rate); err != nil {
			return nil, "", fmt.Errorf("account %s: stored: %w", account.Name, err)
		}
	}
	account.Domains, account.Window, account.Created = strings.Fields(domains), schedule, time.Unix(created, 0).UTC()
	return &account, phc, nil
}

// Find returns an account by its name; nil where there is none.
func (a *Accounts) Find(ctx context.Context, name string) (*Account, error) {
	account, _, err := a.recall(ctx, name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return account, err
}
