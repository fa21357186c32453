package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sheaf/internal/db"
	"sheaf/internal/passwords"
)

// Errors of tokens.
var (
	ErrNoToken    = errors.New("no such token")
	ErrManyTokens = errors.New("too many tokens; revoke some")
)

// Use is what a token may be used for.
type Use string

const (
	ForAll     Use = "all"     // whatever the account may, except its password and its tokens
	ForFiles   Use = "files"   // archives, by HTTP and FTP, and the lists of what is published
	ForQueries Use = "queries" // records and stored pages
	ForWatches Use = "watches" // the account's watches and their feeds
)

// Uses returns all uses, the widest first.
func Uses() []Use { return []Use{ForAll, ForFiles, ForQueries, ForWatches} }

// Token lets programs log in as an account without its password.
type Token struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	Name    string    `json:"name"` // what its owner calls it
	Uses    []Use     `json:"uses"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Used    time.Time `json:"used,omitzero"`    // last, to the minute; zero: never
}

// TokenPrefix begins every token, so that scanners for secrets find tokens in files.
const TokenPrefix = "sheaf_"

var tokenForm = regexp.MustCompile(`^` + TokenPrefix + `[a-z2-7]{26}$`)

const (
	maxTokens    = 50 // of an account
	maxTokenName = 64 // characters
	usedEvery    = time.Minute
)

// expired reports whether a token is no longer good.
func (t *Token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// check returns an ErrInvalid that says what is wrong with a new token.
func (t *Token) check(now time.Time) error {
	if n := utf8.RuneCountInString(t.Name); n < 1 || n > maxTokenName {
		return fmt.Errorf("%w: a token's name has 1 to %d characters", ErrInvalid, maxTokenName)
	}
	if len(t.Uses) == 0 {
		return fmt.Errorf("%w: a token needs a use: %s", ErrInvalid, joined(Uses()))
	}
	for _, u := range t.Uses {
		if !slices.Contains(Uses(), u) {
			return fmt.Errorf("%w: use %.20q of a token: want %s", ErrInvalid, u, joined(Uses()))
		}
	}
	if t.expired(now) {
		return fmt.Errorf("%w: the token would have expired on %s", ErrInvalid, t.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// May reports whether the account may be used for any of the uses. Only a login by token limits the
// uses.
func (a *Account) May(uses ...Use) bool {
	return a.token == nil || slices.Contains(a.token.Uses, ForAll) ||
		slices.ContainsFunc(uses, func(u Use) bool { return slices.Contains(a.token.Uses, u) })
}

// Token returns the token with which the client has logged in; nil if it used none.
func (a *Account) Token() *Token { return a.token }

// CreateToken makes a token of an account, with the name, uses and expiry of t. The secret cannot
// be learned again. It fails with ErrInvalid, ErrNoAccount or ErrManyTokens.
func (a *Accounts) CreateToken(ctx context.Context, known string, t Token) (made Token, secret string, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	if err := t.check(now); err != nil {
		return Token{}, "", err
	}
	secret = TokenPrefix + strings.ToLower(rand.Text())
	hash := sha256.Sum256([]byte(secret))
	made = Token{
		ID: "t" + strings.ToLower(rand.Text())[:12], Account: known, Name: t.Name, Uses: t.Uses,
		Created: now, Expires: t.Expires.UTC().Truncate(time.Second),
	}
	err = db.Transact(ctx, a.db, nil, func(tx *sql.Tx) error {
		var accounts, have int
		err := tx.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM accounts WHERE name = ?1), (SELECT COUNT(*) FROM account_tokens WHERE account = ?1)`,
			known).Scan(&accounts, &have)
		switch {
		case err != nil:
			return err
		case accounts == 0:
			return ErrNoAccount
		case have >= maxTokens:
			return fmt.Errorf("%w: the account has %d, which is the limit", ErrManyTokens, have)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO account_tokens (`+tokenColumns+`, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			made.ID, made.Account, made.Name, joined(made.Uses), db.Millis(made.Created), db.Millis(made.Expires), 0, hash[:])
		return err
	})
	if err != nil {
		return Token{}, "", fmt.Errorf("token of account %s: %w", known, err)
	}
	return made, secret, nil
}

// Tokens returns an account's tokens, oldest first, including expired ones.
func (a *Accounts) Tokens(ctx context.Context, known string) ([]Token, error) {
	list, err := db.List(ctx, a.db, func(rows *sql.Rows, t *Token) error { return scanToken(rows, t) },
		`SELECT `+tokenColumns+` FROM account_tokens WHERE account = ? ORDER BY created, id`, known)
	if err != nil {
		return nil, fmt.Errorf("tokens of account %s: %w", known, err)
	}
	return list, nil
}

// RevokeToken deletes a token of an account. Sessions and downloads that began with it end: at once
// in this process, and in others when they look (see Watch). It fails with ErrNoToken.
func (a *Accounts) RevokeToken(ctx context.Context, known, id string) error {
	if err := db.Change(ctx, a.db, ErrNoToken, `DELETE FROM account_tokens WHERE account = ? AND id = ?`, known, id); err != nil {
		return fmt.Errorf("token %s of account %s: %w", id, known, err)
	}
	a.memory.forgetToken(id)
	a.followers.keepTokens(known, func(other string) bool { return other != id })
	return nil
}

// LoginToken is Login with a token alone, for a client that gives no name.
func (a *Accounts) LoginToken(ctx context.Context, secret, remote string) (*Account, error) {
	if !tokenForm.MatchString(secret) {
		return nil, ErrCredentials
	}
	return a.byToken(ctx, "", secret, remote)
}

// byToken returns the account of a token. If a name is given, it must be the account's.
func (a *Accounts) byToken(ctx context.Context, name, secret, remote string) (found *Account, err error) {
	verify := func(ctx context.Context) (bool, error) {
		t, err := a.knownToken(ctx, sha256.Sum256([]byte(secret)))
		if err != nil || t.expired(time.Now()) || name != "" && name != t.Account {
			return false, db.OrNone(err, nil)
		}
		known, _, err := a.known(ctx, t.Account)
		if err != nil {
			return false, db.OrNone(err, nil)
		}
		with := *known
		with.token, found = t, &with
		return true, nil
	}
	ok, err := a.Guesses.Check(ctx, passwords.Try{Realm: passwords.Account, Name: name, Secret: secret, Remote: remote}, verify)
	switch {
	case err != nil:
		return nil, fmt.Errorf("account %s: %w", name, err)
	case !ok:
		return nil, ErrCredentials
	case found.Suspended:
		return nil, fmt.Errorf("account %s: %w", found.Name, ErrSuspended)
	}
	a.noteUse(ctx, found.token)
	return found, nil
}

// noteUse notes that a token is used. The note is for people: nothing fails without it.
func (a *Accounts) noteUse(ctx context.Context, t *Token) {
	now := time.Now()
	if now.Sub(t.Used) < usedEvery || a.memory.paused() {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	_, _ = a.db.ExecContext(bounded, `UPDATE account_tokens SET used = ? WHERE id = ?`, db.Millis(now.Truncate(usedEvery)), t.ID)
}

const tokenColumns = "id, account, name, uses, created, expires, used"

func scanToken(row interface{ Scan(...any) error }, t *Token, more ...any) error {
	var uses string
	if err := row.Scan(append([]any{&t.ID, &t.Account, &t.Name, &uses, db.At(&t.Created), db.At(&t.Expires), db.At(&t.Used)}, more...)...); err != nil {
		return err
	}
	for _, u := range strings.Fields(uses) {
		t.Uses = append(t.Uses, Use(u))
	}
	return nil
}

// joined returns uses as the database has them.
func joined(uses []Use) string { return strings.Trim(fmt.Sprint(uses), "[]") }

// loadToken reads the token with a hash. It fails with sql.ErrNoRows.
func (a *Accounts) loadToken(ctx context.Context, hash [sha256.Size]byte) (*Token, error) {
	t := new(Token)
	err := scanToken(a.db.QueryRowContext(ctx, `SELECT `+tokenColumns+` FROM account_tokens WHERE hash = ?`, hash[:]), t)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return t, nil
}

// eachToken calls f with every token and its hash.
func (a *Accounts) eachToken(ctx context.Context, f func(t *Token, hash []byte)) error {
	err := db.Each(ctx, a.db, func(rows *sql.Rows) error {
		t, hash := new(Token), []byte(nil)
		err := scanToken(rows, t, &hash)
		if err == nil {
			f(t, hash)
		}
		return err
	}, `SELECT `+tokenColumns+`, hash FROM account_tokens`)
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	return nil
}
