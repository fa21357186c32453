package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/passwords"
)

// Login returns the account with these credentials, for a client at an address ("192.0.2.1:7"). It
// fails with ErrCredentials, which does not tell whether the name or the password is wrong, with
// ErrSuspended if both are right but the account is suspended, or with *passwords.TooMany if too
// many passwords from that address were wrong. If the same credentials arrive several times at once
// from one address, they are checked once.
func (a *Accounts) Login(ctx context.Context, name, password, remote string) (*Account, error) {
	known, _, err := a.login(ctx, name, password, remote)
	return known, err
}

// Enter is Login for a session, which goes on without the password. It also returns the session's
// mark, for Resume. It fails with ErrCredentials for Anonymous and for a token: tokens are for
// programs.
func (a *Accounts) Enter(ctx context.Context, name, password, remote string) (known *Account, mark string, err error) {
	known, phc, err := a.login(ctx, name, password, remote)
	if err == nil && phc == "" { // a token, or Anonymous
		err = ErrCredentials
	}
	if err != nil {
		return nil, "", err
	}
	return known, markOf(known, phc), nil
}

// Resume returns the account of a session. It fails with ErrCredentials if the account has another
// password than when the session began, if it was deleted, or if it is suspended.
func (a *Accounts) Resume(ctx context.Context, name, mark string) (*Account, error) {
	known, phc, err := a.known(ctx, name)
	switch {
	case err != nil:
		return nil, db.OrNone(err, ErrCredentials)
	case known.Suspended || subtle.ConstantTimeCompare([]byte(markOf(known, phc)), []byte(mark)) != 1:
		return nil, ErrCredentials
	}
	return known, nil
}

// markOf returns the mark of an account's password. The password cannot be told from it.
func markOf(known *Account, phc string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", known.Name, known.Created.Unix(), phc))
	return hex.EncodeToString(sum[:16])
}

// login returns the account with these credentials, and the hash of its password; no hash for a
// token or Anonymous.
func (a *Accounts) login(ctx context.Context, name, password, remote string) (known *Account, phc string, err error) {
	if a.anonymous != nil && name == Anonymous {
		return a.anonymous, "", nil
	}
	if tokenForm.MatchString(password) {
		known, err = a.byToken(ctx, name, password, remote)
		return known, "", err
	}
	known, phc, err = a.known(ctx, name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		known, phc = nil, ""
	case err != nil:
		return nil, "", err
	}
	ok, err := a.checker.Check(ctx, a.Guesses, passwords.Try{Realm: passwords.Account, Name: name, Secret: password, Remote: remote}, phc)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("account %s: %w", name, err)
	case !ok:
		return nil, "", ErrCredentials
	case known.Suspended:
		return nil, "", fmt.Errorf("account %s: %w", name, ErrSuspended)
	}
	return known, phc, nil
}

// ChangePassword sets the password that an account's owner has chosen. old must be the present
// password. It returns the new mark for the owner's session. It fails with ErrCredentials if old is
// wrong, with ErrInvalid if chosen is too easy, and with *passwords.TooMany.
func (a *Accounts) ChangePassword(ctx context.Context, name, old, chosen, remote string) (mark string, err error) {
	if _, _, err := a.Enter(ctx, name, old, remote); err != nil {
		return "", err
	}
	if err := checkChosen(name, chosen); err != nil {
		return "", err
	}
	if _, err := a.Change(ctx, name, Change{Password: &chosen}); err != nil {
		return "", err
	}
	_, mark, err = a.Enter(ctx, name, chosen, remote)
	return mark, err
}

// Admit is Enter without a password, for a user whom another service has identified. It fails with
// ErrNoAccount or ErrSuspended.
func (a *Accounts) Admit(ctx context.Context, name string) (known *Account, mark string, err error) {
	known, phc, err := a.known(ctx, name)
	switch {
	case err != nil:
		return nil, "", db.OrNone(err, fmt.Errorf("account %s: %w", name, ErrNoAccount))
	case known.Suspended:
		return nil, "", fmt.Errorf("account %s: %w", name, ErrSuspended)
	}
	return known, markOf(known, phc), nil
}

// ErrNoReset says that a link for a new password has expired, was used, or never existed.
var ErrNoReset = errors.New("this link has expired or was used")

const (
	// ResetLife is how long a link for a new password is good.
	ResetLife = time.Hour

	resetPause = 5 * time.Minute // between two mails about one account
)

// latest returns, in Unix ms, the latest time at which a link made by now expires. A link that
// expires later was made by a clock that was ahead.
func latest(now time.Time) int64 { return db.Millis(now.Add(ResetLife + resetPause)) }

// BeginReset begins to set the password of an account anew. As a part of its transaction it calls
// send, which tells a secret to the account's mail address. If there is no such account, or it has
// no address, is suspended or was sent a secret just now, nothing is sent. The caller cannot tell:
// the error is nil, and the call takes equally long.
func (a *Accounts) BeginReset(ctx context.Context, name string, send func(ctx context.Context, tx *sql.Tx, to, secret string) error) error {
	known, phc, err := a.load(ctx, name)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	real := err == nil && known.Email != "" && !known.Suspended
	now := time.Now()
	secret := strings.ToLower(rand.Text())
	hash := sha256.Sum256([]byte(secret))
	return db.Transact(ctx, a.db, nil, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM password_resets WHERE expires <= ? OR expires > ?`, db.Millis(now), latest(now)); err != nil {
			return err
		}
		var lately int
		err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM password_resets WHERE account = ? AND expires > ?`,
			name, db.Millis(now.Add(ResetLife-resetPause))).Scan(&lately)
		if err != nil {
			return err
		}
		of, mark, expires := "", "", now // a row for nobody, which the next request deletes
		if real && lately == 0 {
			of, mark, expires = name, markOf(known, phc), now.Add(ResetLife)
			if err := send(ctx, tx, known.Email, secret); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO password_resets (hash, account, mark, expires) VALUES (?, ?, ?, ?)`, hash[:], of, mark, db.Millis(expires))
		return err
	})
}

// Resettable returns the name of the account for which a secret allows a new password. It fails
// with ErrNoReset.
func (a *Accounts) Resettable(ctx context.Context, secret string) (name string, err error) {
	hash := sha256.Sum256([]byte(secret))
	var mark string
	now := time.Now()
	err = a.db.QueryRowContext(ctx, `SELECT account, mark FROM password_resets WHERE hash = ? AND expires > ? AND expires <= ?`,
		hash[:], db.Millis(now), latest(now)).Scan(&name, &mark)
	if errors.Is(err, sql.ErrNoRows) {
		return "", ErrNoReset
	}
	if err != nil {
		return "", fmt.Errorf("password reset: %w", err)
	}
	known, phc, err := a.load(ctx, name)
	switch {
	case err != nil:
		return "", db.OrNone(err, ErrNoReset)
	case known.Suspended || subtle.ConstantTimeCompare([]byte(markOf(known, phc)), []byte(mark)) != 1: // the password has changed since
		return "", ErrNoReset
	}
	return name, nil
}

// Reset sets a new password by a secret, which is good once. It returns the account's name. It
// fails with ErrNoReset, or with ErrInvalid if the password is too easy. The secret stays good if
// the password was not set.
func (a *Accounts) Reset(ctx context.Context, secret, chosen string) (name string, err error) {
	if name, err = a.Resettable(ctx, secret); err != nil {
		return "", err
	}
	if err := checkChosen(name, chosen); err != nil {
		return "", err
	}
	hash, phc := sha256.Sum256([]byte(secret)), a.cost.Hash(chosen)
	var now *Account
	err = db.Transact(ctx, a.db, nil, func(tx *sql.Tx) (err error) {
		if err := db.Change(ctx, tx, ErrNoReset, `DELETE FROM password_resets WHERE hash = ?`, hash[:]); err != nil { // another request was faster
			return err
		}
		now, phc, err = scan(tx.QueryRowContext(ctx, `UPDATE accounts SET password = ? WHERE name = ? RETURNING `+columns, phc, name))
		return db.OrNone(err, ErrNoReset)
	})
	if err != nil {
		return "", fmt.Errorf("password reset: %w", err)
	}
	a.changed(now, phc)
	return name, nil
}
