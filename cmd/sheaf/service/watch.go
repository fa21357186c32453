package service

import (
	"fmt"
	"net"
	"net/mail"
	"os"
	"strings"

	"sheaf/serve"
	"sheaf/serve/watch"
)

// Watch is how consumers are told of changes.
type Watch struct {
	// Limit is how many watches one account may have.
	Limit int `mapstructure:"limit"`
	// Confirmed says that mail addresses need not be confirmed by who reads there:
	// all consumers are known.
	Confirmed bool `mapstructure:"confirmed"`
	// PrivateWebhooks lets webhooks be at private addresses and on this machine.
	PrivateWebhooks bool `mapstructure:"private_webhooks"`

	Mail struct {
		// Server is the SMTP server's host and port; empty: no mails are sent.
		Server string `mapstructure:"server"`
		// From is the address that mails come from.
		From string `mapstructure:"from"`
		// TLS is starttls, tls (from the first byte) or none.
		TLS string `mapstructure:"tls"`
		// User is to log in with; empty: without.
		User string `mapstructure:"user"`
		// PasswordFile is the file with the password.
		PasswordFile string `mapstructure:"password_file"`
		// Roots is a PEM file with the certificates that the server's must come from;
		// empty: those of the system.
		Roots string `mapstructure:"roots"`
	} `mapstructure:"mail"`
}

func (w *Watch) check(bad func(key string, value any, why string) error) (errs []error) {
	if w.Limit < 1 {
		errs = append(errs, bad("watch.limit", w.Limit, "want 1 or more"))
	}
	m := &w.Mail
	switch watch.TLS(m.TLS) {
	case watch.StartTLS, watch.Implicit, watch.NoTLS:
	default:
		errs = append(errs, bad("watch.mail.tls", m.TLS, "want starttls, tls or none"))
	}
	if m.Server == "" {
		return errs
	}
	if _, _, err := net.SplitHostPort(m.Server); err != nil {
		errs = append(errs, bad("watch.mail.server", m.Server, "want host:port, such as mail.example.jp:587"))
	}
	if a, err := mail.ParseAddress(m.From); err != nil || a.Address != m.From {
		errs = append(errs, bad("watch.mail.from", m.From, "want a bare address, such as archive@example.jp"))
	}
	return errs
}

// buildWatches makes what tells consumers of changes.
func (s *Service) buildWatches(c common, library *serve.Library) (err error) {
	w := &s.cfg.Watch
	opt := watch.Options{
		DB: s.db, Library: library, Account: s.accounts.Find,
		Base:  strings.TrimSuffix(s.cfg.HTTP.Public, "/"),
		Limit: w.Limit, Unconfirmed: w.Confirmed, PrivateHooks: w.PrivateWebhooks, Zone: c.zone, Poll: min(s.cfg.Poll, watch.MaxPoll), Log: s.log,
	}
	if opt.Base == "" {
		opt.Base = s.Addresses().HTTP
	}
	if w.Mail.Server != "" {
		opt.Mail = &watch.Mail{Server: w.Mail.Server, From: w.Mail.From, User: w.Mail.User, Roots: w.Mail.Roots, TLS: watch.TLS(w.Mail.TLS)}
		if w.Mail.PasswordFile != "" {
			b, err := os.ReadFile(w.Mail.PasswordFile)
			if err != nil {
				return fmt.Errorf("watch.mail.password_file: %w", err)
			}
			opt.Mail.Password = strings.TrimSpace(string(b))
		}
	}
	s.watches, err = watch.New(opt)
	return err
}
