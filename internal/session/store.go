package session

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sheaf/internal/db"
)

// store is an scs.CtxStore in the control database.
type store struct {
	db         *sql.DB
	idle, life time.Duration
}

// clockError is how far the clocks of processes may differ. If a session's beginning lies farther
// in the future, the clock was set back since, and the session ends, because it would last too
// long.
const clockError = 5 * time.Minute

// touchEvery limits writes: the end of a used session is moved once in each idle time divided by
// touchEvery.
const touchEvery = 20

// FindCtx returns a session's data. It moves the session's end to the idle time from now, but not
// beyond the session's life.
func (s *store) FindCtx(ctx context.Context, token string) (data []byte, found bool, err error) {
	var begun, expires time.Time
	err = s.db.QueryRowContext(ctx, `SELECT data, begun, expires FROM sessions WHERE token = ?`, token).Scan(&data, db.At(&begun), db.At(&expires))
	now := time.Now()
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case !now.Before(expires) || !now.Before(begun.Add(s.life)), begun.After(now.Add(clockError)):
		return nil, false, nil
	}
	end := now.Add(s.idle)
	if last := begun.Add(s.life); last.Before(end) {
		end = last
	}
	if end.Sub(expires) > s.idle/touchEvery {
		// An insert could bring back a session that another request has just ended.
		if _, err := s.db.ExecContext(ctx, `UPDATE sessions SET expires = ? WHERE token = ?`, db.Millis(end), token); err != nil {
			return nil, false, err
		}
	}
	return data, true, nil
}

// CommitCtx stores a session under a token. It replaces a session that has the token.
func (s *store) CommitCtx(ctx context.Context, token string, data []byte, expires time.Time) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO sessions (token, data, begun, expires) VALUES (?, ?, ?, ?)
		ON CONFLICT (token) DO UPDATE SET data = excluded.data, expires = excluded.expires`,
		token, data, db.Millis(time.Now()), db.Millis(expires))
	return err
}

// DeleteCtx ends a session.
func (s *store) DeleteCtx(ctx context.Context, token string) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM sessions WHERE token = ?`, token)
	return err
}

// trim deletes sessions that have ended.
func (s *store) trim(ctx context.Context) error {
	now := time.Now()
	_, err := s.db.ExecContext(ctx, `DELETE FROM sessions WHERE expires <= ? OR begun <= ? OR begun > ?`,
		db.Millis(now), db.Millis(now.Add(-s.life)), db.Millis(now.Add(clockError)))
	return err
}

// Find, Commit and Delete are only there for scs.Store; scs calls FindCtx, CommitCtx and DeleteCtx.
func (s *store) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

func (s *store) Commit(token string, data []byte, expires time.Time) error {
	return s.CommitCtx(context.Background(), token, data, expires)
}

func (s *store) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }
