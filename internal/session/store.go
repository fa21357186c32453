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

// clockError is how far the clocks of the processes that have made sessions may be apart. If a
// session began later than that, the clock was set back since, and the session is over: it would go
// on for too long.
const clockError = 5 * time.Minute

// touchEvery is the part of the idle time after which the end of a session that is used moves. Each
// move is a write.
const touchEvery = 20

// FindCtx returns a session's data. A session that is used goes on for the idle time from now.
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
		// No insert: it could bring a session back that another request has just ended.
		if _, err := s.db.ExecContext(ctx, `UPDATE sessions SET expires = ? WHERE token = ?`, db.Millis(end), token); err != nil {
			return nil, false, err
		}
	}
	return data, true, nil
}

// CommitCtx stores a session under a token, in place of the one that has it.
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

// trim deletes what has ended.
func (s *store) trim(ctx context.Context) error {
	now := time.Now()
	_, err := s.db.ExecContext(ctx, `DELETE FROM sessions WHERE expires <= ? OR begun <= ? OR begun > ?`,
		db.Millis(now), db.Millis(now.Add(-s.life)), db.Millis(now.Add(clockError)))
	return err
}

// Find, Commit and Delete are for scs.Store; scs calls the others.
func (s *store) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

func (s *store) Commit(token string, data []byte, expires time.Time) error {
	return s.CommitCtx(context.Background(), token, data, expires)
}

func (s *store) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }
