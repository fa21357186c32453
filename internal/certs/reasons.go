package certs

import (
	"bytes"
	"encoding/json"
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

	mu  sync.Mutex // guards why
	why error      // nil since a certificate was given
}

func (r *reasons) last() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

func (r *reasons) note(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why = why
}

// maxAnswer bounds the answers of an authority, in bytes.
const maxAnswer = 1 << 20

// RoundTrip implements http.RoundTripper.
func (r *reasons) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.to.RoundTrip(req)
	if err != nil {
		r.note(err)
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		r.note(err)
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	form, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch why := refusal(resp, text); {
	case why != nil:
		r.log.ErrorContext(req.Context(), "tls: the authority gives no certificate", "url", req.URL.String(), "err", why)
		r.note(why)
	case form == "application/pem-certificate-chain":
		r.note(nil)
	}
	return resp, nil
}

// refusal returns the reason in an answer of an authority (RFC 8555, sections 6.7 and 7.1.4), or
// nil.
func refusal(resp *http.Response, text []byte) error {
	const again = "urn:ietf:params:acme:error:badNonce" // which asks for the same request again
	type problem struct{ Type, Detail string }
	var said struct {
		problem
		Identifier struct{ Value string }
		Challenges []struct{ Error problem }
	}
	_ = json.Unmarshal(text, &said) // certificates are no JSON
	var why error
	for _, c := range said.Challenges {
		if c.Error.Detail != "" {
			why = errors.Join(why, fmt.Errorf("the authority must reach this service at port 443 of %s: %s", said.Identifier.Value, c.Error.Detail))
		}
	}
	if resp.StatusCode >= http.StatusBadRequest && said.Type != again {
		why = errors.Join(why, fmt.Errorf("the authority answers %s: %s", resp.Status, said.Detail))
	}
	return why
}
