// Package mailer sends mails by an SMTP server, at once or from an outbox in the control database.
// If a letter in the outbox cannot be sent, it is tried again for some three days.
package mailer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/wneessen/go-mail"

	"sheaf/internal/certs"
)

// Server describes the mail server and how it is used. Fields with a key are settings.
type Server struct {
	Address      string        `mapstructure:"server" want:"host:port, or nothing"` // SMTP, host:port; empty: no mails are sent
	From         string        `mapstructure:"from"`                                // bare address
	TLS          TLS           `mapstructure:"tls" want:"starttls, tls or none"`    // default StartTLS
	User         string        `mapstructure:"user"`                                // empty: no login
	PasswordFile string        `mapstructure:"password_file"`                       // its text is Password
	Roots        string        `mapstructure:"roots"`                               // PEM file with the server's certificate authorities; empty: the system's
	Password     string        `mapstructure:"-"`
	Patience     time.Duration `mapstructure:"-"` // limit for sending one mail; default a minute
}

// TLS is how the connection to the mail server is encrypted.
type TLS string

const (
	StartTLS TLS = "starttls" // the server must offer it
	Implicit TLS = "tls"      // from the first byte, port 465
	NoTLS    TLS = "none"     // only for a server on this machine
)

const defaultPatience = time.Minute

// MaxAttempts is how often a mail is tried. With the pauses of Pause, that takes some three days.
const MaxAttempts = 16

// Pause returns how long to wait after the n-th failure: 30 seconds, doubled up to 8 hours.
func Pause(n int) time.Duration {
	const first = 30 * time.Second
	return min(first<<min(n-1, 20), longestPause)
}

const longestPause = 8 * time.Hour

// BeyondPauses returns a time after the end of every pause. If a letter is to wait longer, the
// clock was set back meanwhile, and the letter is due.
func BeyondPauses(now time.Time) time.Time { return now.Add(2 * longestPause) }

// Refused says that another attempt is useless: the recipient's address is invalid, or the server
// has refused the recipient or the mail itself for good.
type Refused struct{ Err error }

func (r *Refused) Error() string { return r.Err.Error() }
func (r *Refused) Unwrap() error { return r.Err }

// WaitTime returns the limit for sending one mail. It is 0 without a server.
func (s *Server) WaitTime() time.Duration {
	if s == nil {
		return 0
	}
	return cmp.Or(s.Patience, defaultPatience)
}

// New returns a mail without a body, marked as sent automatically (RFC 3834). Its Message-ID is
// made from id. If to is not an address, New returns a *Refused.
func (s *Server) New(id, to, subject string) (*mail.Msg, error) {
	m := mail.NewMsg(mail.WithCharset(mail.CharsetUTF8))
	if err := m.From(s.From); err != nil {
		return nil, err
	}
	if err := m.To(to); err != nil {
		return nil, &Refused{err}
	}
	m.SetDate()
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetMessageIDWithValue(id + "@" + s.From[strings.LastIndexByte(s.From, '@')+1:])
	m.Subject(OneLine(subject))
	return m, nil
}

// Send gives a mail to the server, within WaitTime. If another attempt is useless, it returns a
// *Refused.
func (s *Server) Send(ctx context.Context, m *mail.Msg) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.WaitTime())
	defer cancel()
	if err := client.DialWithContext(ctx); err != nil {
		return err
	}
	err = client.Send(m)
	_ = client.Close()   // the answer to QUIT does not matter
	if m.IsDelivered() { // the server has accepted it
		return nil
	}
	if failed, ok := errors.AsType[*mail.SendError](err); ok && failed.ErrorCode()/100 == 5 && slices.Contains(lettersFault, failed.Reason) {
		return &Refused{err}
	}
	return err
}

// lettersFault are the steps at which a permanent refusal (5xx, RFC 5321 4.2.1) concerns this
// letter. If the server refuses an earlier step, the login or the sender, the operator must act,
// and letters wait.
var lettersFault = []mail.SendErrReason{mail.ErrSMTPRcptTo, mail.ErrSMTPData, mail.ErrSMTPDataClose}

func (s *Server) client() (*mail.Client, error) {
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	options := []mail.Option{mail.WithPort(n), mail.WithTimeout(s.WaitTime())}
	if s.Roots != "" {
		pool, err := certs.Pool(s.Roots)
		if err != nil {
			return nil, err
		}
		options = append(options, mail.WithTLSConfig(&tls.Config{RootCAs: pool, ServerName: host, MinVersion: tls.VersionTLS12}))
	}
	switch s.TLS {
	case NoTLS:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	case Implicit:
		options = append(options, mail.WithSSL())
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if s.User != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(s.User), mail.WithPassword(s.Password))
		if s.TLS == NoTLS {
			options = append(options, mail.WithSMTPAuth(mail.SMTPAuthPlainNoEnc))
		}
	}
	return mail.NewClient(host, options...)
}

// OneLine returns a text as one line of some 200 bytes at most, without control characters.
func OneLine(s string) string {
	const most = 200
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
	for i := range s {
		if i > most {
			s = s[:i] + "…"
			break
		}
	}
	return strings.Join(strings.Fields(s), " ")
}
