package account

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

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
