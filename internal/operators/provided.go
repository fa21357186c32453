package operators

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sheaf/internal/db"
)

// ErrTaken is Admit's error if the name belongs to another operator.
var ErrTaken = errors.New("another operator has that name")

// Admit returns the operator whom an OpenID provider vouches for, and the mark by which Resume
// recognizes their session. role is the role that the provider's claims give now. It applies to
// running sessions, too. Admit stores the operator at the first log-in. subject identifies the
// person for ever, even if the name changes. Admit returns ErrInvalid if the name cannot be an
// operator's, ErrTaken or ErrSuspended.
func (s *Store) Admit(ctx context.Context, subject, name string, role Role) (o Operator, mark string, err error) {
	if subject == "" {
		return Operator{}, "", fmt.Errorf("%w: nobody vouches for %.100q", ErrInvalid, name)
	}
	if err := s.check(name, role); err != nil {
		return Operator{}, "", err
	}
	now := time.Now().UTC()
	err = db.Transact(ctx, s.db, nil, func(tx *sql.Tx) error {
		var suspended bool
		err := tx.QueryRowContext(ctx, `SELECT suspended FROM operators WHERE subject = ?`, subject).Scan(&suspended)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if suspended {
			return ErrSuspended
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM operators WHERE subject = ? AND name <> ?`, subject, name); err != nil { // the same person had another name before
			return err
		}
		var phc string
		o, phc, err = scan(tx.QueryRowContext(ctx, `INSERT INTO operators (name, password, role, created, seen, subject) VALUES (?, '', ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET role = excluded.role, seen = excluded.seen WHERE operators.subject = excluded.subject RETURNING `+columns,
			name, string(role), db.Millis(now), db.Millis(now.Truncate(seenEvery)), subject))
		if errors.Is(err, sql.ErrNoRows) {
			return ErrTaken
		}
		mark = markOf(o, phc)
		return err
	})
	return o, mark, wrap(name, err)
}

// Dismiss removes an operator to whom the OpenID provider gives no role any more, and ends their
// sessions. It reports whether an operator was removed. A suspended operator stays stored and
// suspended.
func (s *Store) Dismiss(ctx context.Context, subject string) (ended bool, err error) {
	if subject == "" {
		return false, nil
	}
	n, err := db.Exec(ctx, s.db, `DELETE FROM operators WHERE subject = ? AND suspended = 0`, subject)
	if err != nil {
		return false, fmt.Errorf("operators: %w", err)
	}
	return n > 0, nil
}
