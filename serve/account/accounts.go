package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/passwords"
	"sheaf/internal/window"
)

// Errors of Accounts.
var (
	ErrCredentials = errors.New("wrong account or password")
	ErrExists      = errors.New("account exists already; delete it first to give it anew")
	ErrNoAccount   = errors.New("no such account")
	ErrInvalid     = errors.New("account cannot be as given")
	ErrSuspended   = errors.New("account is suspended; ask those who run the archive")
)

// Accounts keeps accounts in the database. Passwords are stored as argon2id PHC strings. All
// methods may be called concurrently. What a method has changed is durable when it returns nil.
type Accounts struct {
	db        *sql.DB
	anonymous *Account
	memory    *memory // nil: nothing works without the database

	checker *passwords.Checker
	cost    passwords.Cost // of new passwords

	followers followers

	// Guesses bounds Login. It may be replaced before the first login, by a limiter that is shared.
	Guesses *passwords.Limiter
}

// NewAccounts keeps accounts in a database, whose migrations must have run. anonymous is the
// account of clients without credentials; nil: they may see nothing. NewAccounts sets its name.
// cost is spent on hashing new passwords: passwords.DefaultCost, except in tests.
func NewAccounts(database *sql.DB, anonymous *Account, cost passwords.Cost) (*Accounts, error) {
	checker, err := passwords.NewChecker(cost)
	if err != nil {
		return nil, err
	}
	a := &Accounts{db: database, checker: checker, cost: cost, Guesses: passwords.NewLimiter(slog.New(slog.DiscardHandler))}
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

// Anonymous returns the account of clients that give no credentials; nil if they may see nothing.
func (a *Accounts) Anonymous() *Account { return a.anonymous }

// Account returns the account of a name. It fails with ErrNoAccount.
func (a *Accounts) Account(ctx context.Context, name string) (*Account, error) {
	if a.anonymous != nil && name == Anonymous {
		return a.anonymous, nil
	}
	known, _, err := a.load(ctx, name)
	return known, db.OrNone(err, fmt.Errorf("account %s: %w", name, ErrNoAccount))
}

// Find returns the account of a name, from memory if the database is away; nil if the account does
// not exist or is suspended.
func (a *Accounts) Find(ctx context.Context, name string) (*Account, error) {
	known, _, err := a.known(ctx, name)
	if errors.Is(err, sql.ErrNoRows) || err == nil && known.Suspended {
		return nil, nil
	}
	return known, err
}

// Create stores a new account and returns it as stored, with its password. If password is empty,
// one is made up; it cannot be learned again. It fails with ErrExists, or with ErrInvalid if the
// account or the password is not allowed.
func (a *Accounts) Create(ctx context.Context, known Account, password string) (Account, string, error) {
	if err := known.check(); err != nil {
		return Account{}, "", err
	}
	if known.Name == Anonymous {
		return Account{}, "", fmt.Errorf("%w: %s has no password and is given in the settings", ErrInvalid, Anonymous)
	}
	if password == "" {
		password = passwords.New()
	}
	if err := checkNew(known.Name, password); err != nil {
		return Account{}, "", err
	}
	if known.Window == nil {
		known.Window = window.Always()
	}
	known.Created = time.Now().UTC().Truncate(time.Second)
	err := db.Change(ctx, a.db, ErrExists, `INSERT INTO accounts (`+columns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING`,
		known.Name, a.cost.Hash(password), strings.Join(known.Domains, " "), known.Window.String(),
		storedRate(known.Rate), known.Quota, known.Created.Unix(), known.Email, known.Suspended, known.Terms.stored())
	if err != nil {
		return Account{}, "", fmt.Errorf("account %s: %w", known.Name, err)
	}
	return known, password, nil
}

// checkNew returns an ErrInvalid if a text cannot be an account's password.
func checkNew(known, password string) error {
	switch {
	case password == "":
		return fmt.Errorf("%w: %s: the password is empty", ErrInvalid, known)
	case tokenForm.MatchString(password):
		return fmt.Errorf("%w: %s: the password has the form of a token", ErrInvalid, known)
	}
	return nil
}

// checkChosen returns an ErrInvalid that says why a password that its owner has chosen is too easy
// or too long. Passwords that operators give are not checked so strictly.
func checkChosen(known, password string) error {
	if err := passwords.CheckChosen(known, password); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return checkNew(known, password)
}

// Change says what to change in an account. Nil fields stay as they are.
type Change struct {
	Domains  []string         `json:"domains,omitempty"`
	Window   *window.Schedule `json:"window,omitempty" doc:"when the account may fetch, such as 'Mon-Fri 00:00-12:00,13:00-24:00 Asia/Tokyo'; always; or never"`
	Rate     *Rates           `json:"rate,omitempty" doc:"bytes a second, such as 10MiB, '1MiB Mon-Fri 09:00-18:00 Asia/Tokyo | 10MiB' or unlimited"`
	Quota    *int64           `json:"quota,omitempty"` // 0 removes it
	Password *string          `json:"password,omitempty"`
	Email    *string          `json:"email,omitempty" doc:"mail address for links that set a new password"`
	Terms    *Terms           `json:"terms,omitempty"` // zero removes them

	Suspended *bool `json:"suspended,omitempty" doc:"keep everybody out of the account, until it is set to false"`
}

// Change changes an account and returns its new state. Transfers that are running continue under
// the new limits: at once in this process, and in others when they look (see Watch).
func (a *Accounts) Change(ctx context.Context, name string, c Change) (Account, error) {
	probe := Account{Name: name, Domains: c.Domains}
	var domains, opening, rate, password *string
	if c.Domains == nil {
		probe.Domains = []string{"*"}
	} else {
		domains = new(strings.Join(c.Domains, " "))
	}
	if c.Quota != nil {
		probe.Quota = *c.Quota
	}
	if c.Email != nil {
		probe.Email = *c.Email
	}
	var terms *string
	if c.Terms != nil {
		probe.Terms, terms = *c.Terms, new(c.Terms.stored())
	}
	if err := probe.check(); err != nil {
		return Account{}, err
	}
	if c.Window != nil {
		opening = new(c.Window.String())
	}
	if c.Rate != nil {
		rate = new(c.Rate.String())
	}
	if c.Password != nil {
		if err := checkNew(name, *c.Password); err != nil {
			return Account{}, err
		}
		password = new(a.cost.Hash(*c.Password))
	}
	row := a.db.QueryRowContext(ctx, `UPDATE accounts SET domains = COALESCE(?, domains), opening = COALESCE(?, opening),
		rate = COALESCE(?, rate), quota = COALESCE(?, quota), password = COALESCE(?, password),
		email = COALESCE(?, email), suspended = COALESCE(?, suspended), terms = COALESCE(?, terms)
		WHERE name = ? RETURNING `+columns, domains, opening, rate, c.Quota, password, c.Email, c.Suspended, terms, name)
	now, phc, err := scan(row)
	if err != nil {
		return Account{}, fmt.Errorf("account %s: %w", name, db.OrNone(err, ErrNoAccount))
	}
	a.changed(now, phc)
	return *now, nil
}

// changed takes over an account's new state and password hash.
func (a *Accounts) changed(now *Account, phc string) {
	if a.memory != nil {
		note(a.memory, &a.memory.rows, now.Name, stored{now, phc}, true)
	}
	a.followers.changed(now)
}

// Delete deletes an account. Its next login or HTTP request fails, and its sessions and downloads
// end: at once in this process, and in others when they look (see Watch).
func (a *Accounts) Delete(ctx context.Context, name string) error {
	if err := db.Change(ctx, a.db, ErrNoAccount, `DELETE FROM accounts WHERE name = ?`, name); err != nil {
		return fmt.Errorf("account %s: %w", name, err)
	}
	a.followers.deleted(name)
	return nil
}

// List returns all accounts, sorted by name, without Anonymous.
func (a *Accounts) List(ctx context.Context) ([]Account, error) {
	var all []Account
	err := a.each(ctx, func(known *Account, _ string) { all = append(all, *known) })
	return all, err
}

// each calls f with every account, in the order of names, and with the hash of its password.
func (a *Accounts) each(ctx context.Context, f func(known *Account, phc string)) error {
	err := db.Each(ctx, a.db, func(rows *sql.Rows) error {
		known, phc, err := scan(rows)
		if err == nil {
			f(known, phc)
		}
		return err
	}, `SELECT `+columns+` FROM accounts ORDER BY name`)
	if err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	return nil
}

// load reads an account and the hash of its password. It fails with sql.ErrNoRows.
func (a *Accounts) load(ctx context.Context, name string) (*Account, string, error) {
	known, phc, err := scan(a.db.QueryRowContext(ctx, `SELECT `+columns+` FROM accounts WHERE name = ?`, name))
	if err != nil {
		return nil, "", fmt.Errorf("accounts: %w", err)
	}
	return known, phc, nil
}

const columns = "name, password, domains, opening, rate, quota, created, email, suspended, terms"

// storedRate returns a rate as the database has it.
func storedRate(r *Rates) string {
	if r == nil {
		return ""
	}
	return r.String()
}

func scan(row interface{ Scan(...any) error }) (*Account, string, error) {
	var (
		known                              Account
		phc, domains, opening, rate, terms string
		created                            int64
	)
	if err := row.Scan(&known.Name, &phc, &domains, &opening, &rate, &known.Quota, &created, &known.Email, &known.Suspended, &terms); err != nil {
		return nil, "", err
	}
	schedule, err := window.Parse(opening)
	if err != nil {
		return nil, "", fmt.Errorf("stored window of %s: %w", known.Name, err)
	}
	if rate != "" {
		if known.Rate, err = ParseRates(rate); err != nil {
			return nil, "", fmt.Errorf("stored rate of %s: %w", known.Name, err)
		}
	}
	if known.Terms, err = parseTerms(terms); err != nil {
		return nil, "", fmt.Errorf("stored terms of %s: %w", known.Name, err)
	}
	known.Domains, known.Window, known.Created = strings.Fields(domains), schedule, time.Unix(created, 0).UTC()
	return &known, phc, nil
}
