package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"sheaf/internal/db"
)

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
