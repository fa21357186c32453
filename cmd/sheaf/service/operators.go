package service

import (
	"context"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/serve/httpd/guard"
)

// operators opens the table of operators and the audit log. Every process trims the log, because it
// may be the only process.
func (b *builder) operators() error {
	b.audit = audit.New(audit.Options{DB: b.state.db, Log: b.log, Slower: b.cfg.Slower})
	b.guesses.Told = b.audit.Try
	store, err := operators.NewStore(b.state.db, b.cfg.Login.Passwords, b.guesses)
	if err != nil {
		return err
	}
	b.door = &operators.Door{
		Store: store, Token: b.state.token, TokenFile: tokenFile, Limit: b.guesses, Sessions: b.sessions,
		Audit: b.audit, SameOrigin: guard.SameOrigin(b.cfg.HTTP.Public), Slower: b.cfg.Slower, Log: b.log,
	}
	b.work = append(b.work, func(ctx context.Context) error {
		return b.audit.Run(ctx, b.cfg.Audit)
	})
	return nil
}
