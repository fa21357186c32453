package certs

import (
	"cmp"
	"context"
	"crypto"
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
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
)

// ALPN is the protocol by which an authority asks a web server to prove that it has a name
// (tls-alpn-01, RFC 8737). A server that answers must offer it.
const ALPN = acme.ALPNProto

// Options of an ACME.
type Options struct {
	Names     []string       // in the certificate
	Email     string         // for the authority's warnings; may be empty
	Directory string         // the authority's URL
	Roots     *x509.CertPool // of the authority's own certificate; nil: the system's
	DB        *sql.DB        // shared by all processes; its migrations must have run
	Every     time.Duration  // between two looks for a certificate that another process has got
	Log       *slog.Logger
}

// ACME is one certificate for some names, which an authority gives by ACME (RFC 8555). It is
// renewed when a third of its time is left. Key and certificate lie in the database. So any process
// may ask, one at a time does, and any may answer the authority, which comes by TLS to port 443 of
// each name.
type ACME struct {
	opt     Options
	rows    rows
	current atomic.Pointer[tls.Certificate]

	mu  sync.Mutex // guards err
	err error      // with which this process's last attempt ended
}

// NewACME returns a certificate that Run gets.
func NewACME(opt Options) *ACME {
	opt.Names = slices.Clone(opt.Names)
	for i, name := range opt.Names {
		opt.Names[i] = strings.ToLower(strings.TrimSuffix(name, "."))
	}
	slices.Sort(opt.Names)
	opt.Names = slices.Compact(opt.Names)
	return &ACME{opt: opt, rows: rows{opt.DB}}
}

// GetCertificate implements Source. An authority that comes for an answer gets it, also if another
// process has asked.
func (a *ACME) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if slices.Equal(hello.SupportedProtos, []string{ALPN}) {
		return a.answer(hello.Context(), strings.ToLower(hello.ServerName))
	}
	if c := a.current.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// State implements Source. While there is time for more attempts, one that fails is only logged.
func (a *ACME) State() State {
	s := State{Setting: "tls.acme"}
	a.mu.Lock()
	failed := a.err
	a.mu.Unlock()
	c := a.current.Load()
	if c == nil {
		s.Err = cmp.Or(failed, errors.New("there is no certificate yet"))
		return s
	}
	s.NotAfter, s.Err = c.Leaf.NotAfter, valid(c.Leaf, time.Now())
	if s.Err == nil && time.Until(s.NotAfter) < renewal(c.Leaf)/2 {
		s.Err = failed
	}
	return s
}

// renewal is the part of a certificate's time in which it is renewed.
func renewal(leaf *x509.Certificate) time.Duration { return leaf.NotAfter.Sub(leaf.NotBefore) / 3 }

// Run implements Source.
func (a *ACME) Run(ctx context.Context) error {
	for {
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			a.opt.Log.ErrorContext(ctx, "tls: no certificate by ACME", "hosts", a.opt.Names, "url", a.opt.Directory, "err", err)
			a.mu.Lock()
			a.err = err
			a.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(a.opt.Every):
		}
	}
}

// look takes the certificate from the database. If it is due, and no other process is at it, look
// has the authority give a new one.
func (a *ACME) look(ctx context.Context) error {
	if err := a.load(ctx); err != nil || !a.due(time.Now()) {
		return err
	}
	mine, err := a.rows.claim(ctx, a.name("attempt"), time.Now())
	if err != nil || !mine {
		return err
	}
	if err := a.load(ctx); err != nil || !a.due(time.Now()) { // another process was faster
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	text, err := a.order(bounded)
	if err != nil {
		return err
	}
	if err := a.rows.put(ctx, a.name("certificate"), text); err != nil {
		return err
	}
	a.mu.Lock()
	a.err = nil
	a.mu.Unlock()
	return errors.Join(a.load(ctx), a.rows.delete(ctx, a.name("attempt")))
}

// attemptTime is how long an attempt may take.
const attemptTime = 50 * time.Second

// due reports whether a certificate is needed: there is none, it lacks a name, or it expires soon.
func (a *ACME) due(now time.Time) bool {
	c := a.current.Load()
	return c == nil || now.After(c.Leaf.NotAfter.Add(-renewal(c.Leaf))) || !covers(c.Leaf, a.opt.Names)
}

func covers(leaf *x509.Certificate, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return leaf.VerifyHostname(name) != nil })
}

// name names a row of these names.
func (a *ACME) name(what string) string {
	return what + " " + a.opt.Directory + " " + strings.Join(a.opt.Names, " ")
}

// load takes the certificate of these names from the database. If there is none, it takes the
// newest of the same authority, which is better than none until there is another.
func (a *ACME) load(ctx context.Context) error {
	text, err := a.rows.get(ctx, a.name("certificate"))
	if err == nil && text == "" && a.current.Load() == nil {
		text, err = a.rows.newest(ctx, "certificate "+a.opt.Directory+" ")
	}
	if err != nil || text == "" {
		return err
	}
	pair, err := tls.X509KeyPair([]byte(text), []byte(text))
	if err != nil {
		a.opt.Log.ErrorContext(ctx, "tls: the certificate in the database cannot be read; another is asked for", "err", err)
		return nil
	}
	if last := a.current.Load(); last == nil || !last.Leaf.Equal(pair.Leaf) {
		a.current.Store(&pair)
		a.opt.Log.InfoContext(ctx, "tls: a certificate by ACME", "hosts", pair.Leaf.DNSNames, "until", pair.Leaf.NotAfter)
	}
	return nil
}

// order has the authority give a certificate. It returns key and certificates in PEM.
func (a *ACME) order(ctx context.Context) (text string, err error) {
	key, err := a.account(ctx)
	if err != nil {
		return "", err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: a.opt.Roots}
	defer transport.CloseIdleConnections()
	client := &acme.Client{Key: key, DirectoryURL: a.opt.Directory, HTTPClient: &http.Client{Transport: transport}, UserAgent: "sheaf"}
	account := new(acme.Account)
	if a.opt.Email != "" {
		account.Contact = []string{"mailto:" + a.opt.Email}
	}
	if _, err := client.Register(ctx, account, acme.AcceptTOS); err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
		return "", fmt.Errorf("register: %w", err)
	}
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(a.opt.Names...))
	if err != nil {
		return "", fmt.Errorf("order: %w", err)
	}
	for _, url := range order.AuthzURLs {
		if err := a.authorize(ctx, client, url); err != nil {
			return "", err
		}
	}
	if order, err = client.WaitOrder(ctx, order.URI); err != nil {
		return "", fmt.Errorf("order: %w", err)
	}
	return a.finish(ctx, client, order)
}

// authorize proves to the authority that this service has a name.
func (a *ACME) authorize(ctx context.Context, client *acme.Client, url string) (err error) {
	z, err := client.GetAuthorization(ctx, url)
	if err != nil {
		return fmt.Errorf("authorization: %w", err)
	}
	if z.Status == acme.StatusValid {
		return nil
	}
	name := strings.ToLower(z.Identifier.Value)
	i := slices.IndexFunc(z.Challenges, func(c *acme.Challenge) bool { return c.Type == "tls-alpn-01" })
	if i < 0 {
		return fmt.Errorf("%s: the authority does not offer tls-alpn-01", name)
	}
	answer, err := client.TLSALPN01ChallengeCert(z.Challenges[i].Token, name)
	if err != nil {
		return err
	}
	text, err := encode(answer.PrivateKey.(crypto.Signer), answer.Certificate)
	if err != nil {
		return err
	}
	row := "answer " + name
	if err := a.rows.put(ctx, row, text); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.rows.delete(context.WithoutCancel(ctx), row)) }()
	if _, err := client.Accept(ctx, z.Challenges[i]); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if _, err := client.WaitAuthorization(ctx, url); err != nil {
		return fmt.Errorf("the authority must reach this service at port 443 of %s: %w", name, err)
	}
	return nil
}

// answer returns the certificate with the answer to a challenge.
func (a *ACME) answer(ctx context.Context, name string) (*tls.Certificate, error) {
	if !slices.Contains(a.opt.Names, name) {
		return nil, fmt.Errorf("no certificate is asked for %q", name)
	}
	text, err := a.rows.get(ctx, "answer "+name)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(text), []byte(text))
	return &pair, err
}
