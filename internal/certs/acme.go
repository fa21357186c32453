package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/sync/errgroup"

	"sheaf/internal/loop"
)

// ALPN is the protocol by which an authority checks that a web server has a name (tls-alpn-01, RFC
// 8737). A server that answers the check must offer ALPN.
const ALPN = acme.ALPNProto

// Options of an ACME.
type Options struct {
	Names     []string       // each gets a certificate; clients that ask for any other name get the first name's
	Email     string         // for the authority's warnings; may be empty
	Directory string         // the authority's URL
	Roots     *x509.CertPool // root certificates for the connection to the authority; nil: the system's
	DB        *sql.DB        // shared by all processes; its migrations must have run
	Every     time.Duration  // between two looks in the database for certificates of other processes
	Log       *slog.Logger
}

// ACME gets a certificate for each of some names from an authority by ACME (RFC 8555). It renews a
// certificate when a third of its validity is left, or 30 days if that is less. Keys and
// certificates are in the database. So any process may ask the authority, and any may answer its
// check, which comes by TLS to port 443 of the name. As long as a name has no certificate, one
// process at a time asks for it. A name that fails or hangs delays no other name.
type ACME struct {
	opt     Options
	rows    rows
	manager *autocert.Manager
	reasons *reasons

	mu     sync.Mutex       // guards stages
	stages map[string]stage // by name
}

// stage is the progress of a name's certificate.
type stage int

const (
	stageMissing stage = iota // there is no certificate
	stageAsking               // the manager may ask for a certificate; a call of the manager may now take minutes
	stageServed               // the manager has the certificate
)

// NewACME returns an ACME without certificates. Run gets them.
func NewACME(opt Options) *ACME {
	opt.Names = slices.Clone(opt.Names)
	for i, name := range opt.Names {
		opt.Names[i] = plain(name)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: opt.Roots}
	a := &ACME{opt: opt, rows: rows{opt.DB, opt.Directory}, reasons: newReasons(transport, opt.Log), stages: make(map[string]stage)}
	a.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: a.rows, HostPolicy: a.policy, Email: opt.Email,
		Client: &acme.Client{DirectoryURL: opt.Directory, HTTPClient: &http.Client{Transport: a.reasons}, UserAgent: "sheaf"},
	}
	return a
}

func plain(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// policy is called by the manager before it serves a certificate or asks for one. It keeps
// handshakes from making the manager ask, because authorities refuse clients that fail often.
func (a *ACME) policy(_ context.Context, name string) error {
	if a.stage(name) == stageMissing {
		return errMissing
	}
	return nil
}

var errMissing = errors.New("there is no certificate yet")

func (a *ACME) stage(name string) stage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stages[name]
}

func (a *ACME) set(name string, s stage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stages[name] = s
}

// GetCertificate implements Source. It also answers the authority's challenge, even if another
// process has ordered the certificate.
func (a *ACME) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if slices.Equal(hello.SupportedProtos, []string{ALPN}) {
		return a.manager.GetCertificate(hello)
	}
	name := plain(hello.ServerName)
	if !slices.Contains(a.opt.Names, name) {
		name = a.opt.Names[0]
	}
	return a.present(name)
}

// present returns the certificate of a name, or an error at once if there is no certificate yet.
func (a *ACME) present(name string) (*tls.Certificate, error) {
	if a.stage(name) != stageServed {
		return nil, errMissing
	}
	return a.of(name)
}

// of returns the certificate of a name. If the manager has no certificate, it asks for one, which
// may take five minutes. The cipher suite keeps the manager from asking for a second certificate,
// with RSA, for very old clients.
func (a *ACME) of(name string) (*tls.Certificate, error) {
	return a.manager.GetCertificate(&tls.ClientHelloInfo{ServerName: name, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}})
}

// State implements Source. A failed renewal is in State only when the certificate ends soon;
// before, it is only logged.
func (a *ACME) State() State {
	s := State{Setting: "tls.acme"}
	for _, name := range a.opt.Names {
		c, err := a.present(name)
		switch {
		case err != nil:
			s.Missing = append(s.Missing, name)
			err = errors.Join(err, a.reasons.last(name))
		default:
			if s.NotAfter.IsZero() || c.Leaf.NotAfter.Before(s.NotAfter) {
				s.NotAfter = c.Leaf.NotAfter
			}
			if err = lasts(c.Leaf, time.Now(), min(Soon, c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)/6)); err != nil {
				err = errors.Join(err, a.reasons.last(name))
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
	var names errgroup.Group
	for _, name := range a.opt.Names {
		names.Go(func() error {
			return loop.Every(ctx, a.opt.Every, func(ctx context.Context) error { return a.look(ctx, name) }, func(err error) {
				a.opt.Log.ErrorContext(ctx, "tls: no certificate by ACME", "host", name, "url", a.opt.Directory, "err", err)
			})
		})
	}
	return names.Wait()
}

// look makes the manager serve the name's certificate from the database. If the database has no
// certificate, and claim allows an attempt now, the manager asks the authority for one.
func (a *ACME) look(ctx context.Context, name string) error {
	if a.stage(name) == stageServed {
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
	a.set(name, stageAsking)
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
		if there { // the manager will serve the one in the database
			a.set(name, stageServed)
		} else {
			a.set(name, stageMissing)
		}
		return err
	}
	a.set(name, stageServed)
	a.opt.Log.InfoContext(ctx, "tls: a certificate by ACME", "host", name)
	return a.keep(ctx, name, attempt)
}

// keep ends an attempt if the certificate is in the database. The manager does not report a failure
// to store the certificate there. After such a failure the attempt stays, so that no process asks
// again at once, not even this one after a restart.
func (a *ACME) keep(ctx context.Context, name, attempt string) error {
	there, err := a.rows.has(ctx, name, time.Now())
	if err == nil && !there {
		err = errors.New("the certificate could not be stored in the database: only this process serves it, and it is asked for again after a restart")
	}
	if err != nil {
		return err
	}
	return a.rows.Delete(ctx, attempt)
}

// reasons is the transport to an authority. It logs and keeps the authority's reasons for a
// refusal, because autocert drops them.
type reasons struct {
	to  http.RoundTripper
	log *slog.Logger

	mu  sync.Mutex       // guards why
	why map[string]error // by name, "" for all names; see given
}

func newReasons(to http.RoundTripper, log *slog.Logger) *reasons {
	return &reasons{to: to, log: log, why: make(map[string]error)}
}

// last returns the authority's last reason for refusing the name, or all names.
func (r *reasons) last(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.why[name], r.why[""])
}

func (r *reasons) note(name string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why[name] = why
}

// given forgets the reasons that no longer hold now that the authority has given the certificate in
// chain.
func (r *reasons) given(chain []byte) {
	block, _ := pem.Decode(chain)
	if block == nil {
		return
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return
	}
	for _, name := range append(leaf.DNSNames, "") {
		r.note(name, nil)
	}
}

// maxAnswer bounds the answers of an authority, in bytes.
const maxAnswer = 1 << 20

// RoundTrip implements http.RoundTripper.
func (r *reasons) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.to.RoundTrip(req)
	if err != nil {
		r.note("", err)
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		r.note("", err)
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	form, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch name, why := refusal(resp, text); {
	case why != nil:
		r.log.ErrorContext(req.Context(), "tls: the authority gives no certificate", "url", req.URL.String(), "err", why)
		r.note(name, why)
	case form == "application/pem-certificate-chain":
		r.given(text)
	}
	return resp, nil
}

// refusal returns the reason if an authority's answer is a refusal (RFC 8555, sections 6.7 and
// 7.1.4), otherwise nil. name is the name that the answer is about, or "".
func refusal(resp *http.Response, text []byte) (name string, why error) {
	const again = "urn:ietf:params:acme:error:badNonce" // the client must repeat the request
	type problem struct{ Type, Detail string }
	var said struct {
		problem
		Identifier struct{ Value string }
		Challenges []struct{ Error problem }
	}
	_ = json.Unmarshal(text, &said) // certificates are no JSON
	for _, c := range said.Challenges {
		if c.Error.Detail != "" {
			why = errors.Join(why, fmt.Errorf("the authority must reach this service at port 443 of %s: %s", said.Identifier.Value, c.Error.Detail))
		}
	}
	if resp.StatusCode >= http.StatusBadRequest && said.Type != again {
		why = errors.Join(why, fmt.Errorf("the authority answers %s: %s", resp.Status, said.Detail))
	}
	return said.Identifier.Value, why
}
