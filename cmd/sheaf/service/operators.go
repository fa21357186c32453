package service

import (
	"context"
	"time"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/settings"
	"sheaf/serve/httpd/guard"
)

// Operators is the settings of who runs the service, and of the audit log of what they and others
// do.
type Operators struct {
	TokenName string `mapstructure:"token_name"` // under which the token of the data directory acts
}

// Audit is the settings of the audit log.
type Audit struct {
	Keep      time.Duration `mapstructure:"keep"`      // how long rows are kept; 0: for ever
	Addresses time.Duration `mapstructure:"addresses"` // how long they have the clients' addresses; 0: as long as the rows
}

func (a *Audit) check(is *settings.Checks) {
	is.Require(a.Keep >= 0, "audit.keep", a.Keep, wantNatural)
	is.Require(a.Addresses >= 0, "audit.addresses", a.Addresses, wantNatural)
}

// operators makes what knows the operators, and the log of what is done. Every process keeps the
// log, as each may be the only one.
func (b *builder) operators() error {
	b.audit = audit.New(audit.Options{DB: b.state.db, Log: b.log})
	b.guesses.Told = b.audit.Try
	name := b.cfg.Operators.TokenName
	store, err := operators.NewStore(b.state.db, name, b.cfg.Login.Passwords, b.guesses)
	if err != nil {
		return err
	}
	b.door = &operators.Door{
		Store: store, Token: b.state.token, TokenName: name, TokenFile: tokenFile, Limit: b.guesses, Sessions: b.sessions,
		Audit: b.audit, SameOrigin: guard.SameOrigin(b.cfg.HTTP.Public), Log: b.log,
	}
	b.work = append(b.work, func(ctx context.Context) error {
		return b.audit.Run(ctx, audit.Keeping{Rows: b.cfg.Audit.Keep, Addresses: b.cfg.Audit.Addresses})
	})
	return nil
}
