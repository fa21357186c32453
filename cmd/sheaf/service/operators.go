package service

import (
	"context"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/passwords"
	"sheaf/internal/session"
	"sheaf/serve/httpd/guard"
)

// operators opens the table of operators and the audit log. Every process trims the log, because it
// may be the only process.
func (b *builder) operators() error {
	rows, guesses, login := audit.New(audit.Options{DB: b.state.db, Log: b.log, Slower: b.cfg.Slower}), passwords.NewLimiter(b.log), &b.cfg.Login
	guesses.Told = rows.Try
	store, err := operators.NewStore(b.state.db, login.Passwords, guesses)
	if err != nil {
		return err
	}
	b.door = &operators.Door{
		Store: store, Token: b.state.token, TokenFile: tokenFile, Limit: guesses, Audit: rows,
		Sessions:   session.New(session.Options{DB: b.state.db, Idle: login.Idle, Life: login.Life, Public: b.cfg.HTTP.Public, Slower: b.cfg.Slower}),
		SameOrigin: guard.SameOrigin(b.cfg.HTTP.Public), Slower: b.cfg.Slower, Log: b.log,
	}
	b.work = append(b.work, func(ctx context.Context) error {
		return rows.Run(ctx, b.cfg.Audit)
	})
	return nil
}
