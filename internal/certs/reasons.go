package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"sync"
)

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
