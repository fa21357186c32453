package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"sheaf/internal/loop"
)

// ALPN is the protocol by which an authority asks a web server to prove that it has a name
// (tls-alpn-01, RFC 8737). A server that answers must offer it.
const ALPN = acme.ALPNProto

// Options of an ACME.
type Options struct {
	Names     []string       // each gets a certificate; the first is also for clients that name none of them
	Email     string         // for the authority's warnings; may be empty
	Directory string         // the authority's URL
	Roots     *x509.CertPool // of the authority's own certificate; nil: the system's
	DB        *sql.DB        // shared by all processes; its migrations must have run
	Every     time.Duration  // between two looks for certificates that another process has got
	Log       *slog.Logger
}

// ACME is a certificate for each of some names, which an authority gives by ACME (RFC 8555). It is
// renewed when a third of its time is left, or 30 days if that is less. Keys and certificates lie
// in the database. So any process may ask, and any may answer the authority, which comes by TLS to
// port 443 of the name. As long as a name has no certificate, one process at a time asks for it.
type ACME struct {
	opt     Options
	rows    rows
	manager *autocert.Manager
	reasons *reasons

	mu  sync.Mutex          // guards may
	may map[string]struct{} // names for which the manager may serve a certificate, and ask for it
}

// NewACME returns certificates that Run gets.
func NewACME(opt Options) *ACME {
	opt.Names = slices.Clone(opt.Names)
	for i, name := range opt.Names {
		opt.Names[i] = plain(name)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: opt.Roots}
	a := &ACME{opt: opt, rows: rows{opt.DB, opt.Directory}, reasons: &reasons{to: transport, log: opt.Log}, may: make(map[string]struct{})}
	a.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: a.rows, HostPolicy: a.policy, Email: opt.Email,
		Client: &acme.Client{DirectoryURL: opt.Directory, HTTPClient: &http.Client{Transport: a.reasons}, UserAgent: "sheaf"},
	}
	return a
}

func plain(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// policy is asked by the manager before it serves a certificate, or asks for one. Handshakes must
// not make it ask: authorities refuse whoever fails often.
func (a *ACME) policy(_ context.Context, name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.may[name]; !ok {
		return errors.New("there is no certificate yet")
	}
	return nil
}

// let allows the manager to serve the certificate of a name, or forbids it.
func (a *ACME) let(name string, may bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if may {
		a.may[name] = struct{}{}
	} else {
		delete(a.may, name)
	}
}

// GetCertificate implements Source. An authority that comes for an answer gets it, also if another
// process has asked.
func (a *ACME) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if slices.Equal(hello.SupportedProtos, []string{ALPN}) {
		return a.manager.GetCertificate(hello)
	}
	name := plain(hello.ServerName)
	if !slices.Contains(a.opt.Names, name) {
		name = a.opt.Names[0]
	}
	return a.of(name)
}

// of returns the certificate of a name. Without the cipher suite, the manager would ask for a
// second one with RSA, for clients of long ago.
func (a *ACME) of(name string) (*tls.Certificate, error) {
	return a.manager.GetCertificate(&tls.ClientHelloInfo{ServerName: name, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}})
}

// State implements Source. While there is time for more attempts, one that fails is only logged.
func (a *ACME) State() State {
	s := State{Setting: "tls.acme"}
	for _, name := range a.opt.Names {
		c, err := a.of(name)
		switch {
		case err != nil:
			err = errors.Join(err, a.reasons.last())
		default:
			if s.NotAfter.IsZero() || c.Leaf.NotAfter.Before(s.NotAfter) {
				s.NotAfter = c.Leaf.NotAfter
			}
			if err = valid(c.Leaf, time.Now()); err == nil && time.Until(c.Leaf.NotAfter) < c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)/6 {
				err = a.reasons.last()
			}
		}
		if err != nil {
			s.Err = errors.Join(s.Err, fmt.Errorf("%s: %w", name, err))
		}
	}
	return s
}

// Run implements Source. It gets the first certificate of each name; the manager renews it.
func (a *ACME) Run(ctx context.Context) error {
	return loop.Every(ctx, a.opt.Every, func(ctx context.Context) (err error) {
		for _, name := range a.opt.Names {
			if failed := a.look(ctx, name); failed != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", name, failed))
			}
		}
		return err
	}, func(err error) {
		a.opt.Log.ErrorContext(ctx, "tls: no certificate by ACME", "url", a.opt.Directory, "err", err)
	})
}

// look has the manager serve the certificate of a name that is in the database. If there is none,
// and no other process is at it, the manager asks for one.
func (a *ACME) look(ctx context.Context, name string) error {
	if a.policy(ctx, name) == nil {
		return nil
	}
	there, err := a.rows.has(ctx, name, time.Now())
	if err != nil {
		return err
	}
	attempt := "attempt " + name
	if !there {
		if mine, err := a.rows.claim(ctx, attempt, time.Now()); err != nil || !mine {
			return err
		}
	}
	a.let(name, true)
	got := make(chan error, 1)
	go func() { // the manager gives up after five minutes
		_, err := a.of(name)
		got <- err
	}()
	select {
	case <-ctx.Done():
		return nil
	case err = <-got:
	}
	if err != nil {
		a.let(name, there) // what is in the database is served before long
		return err
	}
	a.opt.Log.InfoContext(ctx, "tls: a certificate by ACME", "host", name)
	return a.rows.Delete(ctx, attempt)
}
