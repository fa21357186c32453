package operators

import (
	"context"
	"database/sql"
	"time"

	"sheaf/internal/audit"
	"sheaf/internal/loop"
	"sheaf/internal/passwords"
	"sheaf/internal/session"
	"sheaf/internal/settings"
)

// Settings say how long a log-in with a browser lasts.
type Settings struct {
	Idle      time.Duration  `mapstructure:"idle" want:"at least 1m"` // a session ends after this time without use
	Life      time.Duration  `mapstructure:"life"`                    // every session ends after this time
	Passwords passwords.Cost `mapstructure:"-"`                       // for new passwords; only tests choose another
}

// Check checks what the tags of the settings do not say.
func (s *Settings) Check(is *settings.Checks) {
	is.Require(s.Life >= s.Idle, "login.life", s.Life, "want at least login.idle")
}

// Open sets Store, Limit, Sessions and Audit to those in a database, whose migrations must have
// run. public is the service's own URL, if it is behind a proxy.
func (d *Door) Open(database *sql.DB, s Settings, public string) (err error) {
	d.Audit, d.Limit = audit.New(audit.Options{DB: database, Log: d.Log, Slower: d.Slower}), passwords.NewLimiter(d.Log)
	d.Limit.Told = d.Audit.Try
	d.Sessions = session.New(session.Options{DB: database, Idle: s.Idle, Life: s.Life, Public: public, Slower: d.Slower})
	d.Store, err = NewStore(database, s.Passwords, d.Limit)
	return err
}

// Run trims the audit log and the sessions until ctx ends. Every process does, because it may be
// the only one.
func (d *Door) Run(ctx context.Context, keep audit.Keeping) error {
	return loop.Together(ctx, func(ctx context.Context) error { return d.Audit.Run(ctx, keep) }, func(ctx context.Context) error {
		return d.Sessions.Run(ctx, func(err error) { d.Log.ErrorContext(ctx, "sessions: not trimmed", "err", err) })
	})
}
