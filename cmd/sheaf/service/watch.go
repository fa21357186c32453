package service

import (
	"fmt"
	"net/mail"
	"os"
	"strings"

	"sheaf/internal/mailer"
	"sheaf/internal/settings"
)

// Watch is the settings by which consumers are told of changes.
type Watch struct {
	Limit           int  `mapstructure:"limit" want:"above 0"` // most watches of one account
	Confirmed       bool `mapstructure:"confirmed"`            // mail addresses count as confirmed
	PrivateWebhooks bool `mapstructure:"private_webhooks"`     // webhooks may be at private addresses and on this machine
	Mail            Mail `mapstructure:"mail"`
}

// Mail is the settings of outgoing mail.
type Mail struct {
	Server       string `mapstructure:"server" want:"host:port, or nothing"` // SMTP, host:port; empty: no mails are sent
	From         string `mapstructure:"from"`                                // bare address
	TLS          string `mapstructure:"tls" want:"starttls, tls or none"`    // one of mailer.TLS
	User         string `mapstructure:"user"`                                // empty: no login
	PasswordFile string `mapstructure:"password_file"`
	Roots        string `mapstructure:"roots"` // PEM file with the server's certificate authorities; empty: the system's
}

func (w *Watch) check(is *settings.Checks) {
	m := &w.Mail
	if m.Server == "" {
		return
	}
	a, err := mail.ParseAddress(m.From)
	is.Require(err == nil && a.Address == m.From, "watch.mail.from", m.From, "want a bare address, such as archive@example.jp")
}

// mailServer returns the mail server, or nil if no server is set.
func (m *Mail) mailServer() (*mailer.Server, error) {
	if m.Server == "" {
		return nil, nil
	}
	s := &mailer.Server{Address: m.Server, From: m.From, User: m.User, Roots: m.Roots, TLS: mailer.TLS(m.TLS)}
	if m.PasswordFile != "" {
		text, err := os.ReadFile(m.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("settings: watch.mail.password_file: %w", err)
		}
		s.Password = strings.TrimSpace(string(text))
	}
	return s, nil
}
