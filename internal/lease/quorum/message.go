package quorum

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// path is the URL path at which a server takes requests, by POST.
const path = "/v1/lease"

// macHeader is the header for a message's HMAC-SHA256 with the servers' secret, in hex.
const macHeader = "Sheaf-Mac"

const (
	maxMessage = 1 << 20
	fresh      = time.Minute // how old a request's At may be, and how long nonces are kept
)

// sent is the message that carries a request.
type sent struct {
	To    string  `json:"to"`    // the server's name
	Boot  string  `json:"boot"`  // identifies the server's start, as the server has told it; empty at first
	At    int64   `json:"at"`    // the server's time, ms since its start, as far as the client knows
	Nonce string  `json:"nonce"` // random; a server takes each once
	Q     request `json:"request"`
}

// returned is the message that carries an answer.
type returned struct {
	Nonce string `json:"nonce"` // of the request
	Boot  string `json:"boot"`
	At    int64  `json:"at"`
	Stale bool   `json:"stale,omitempty"` // nothing was done: Boot was wrong, or At too old
	R     answer `json:"answer"`
}

func mac(secret []byte, kind string, body []byte) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(kind + "\n"))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

func authentic(secret []byte, kind string, body []byte, claimed string) bool {
	return hmac.Equal([]byte(mac(secret, kind, body)), []byte(claimed))
}

// door passes on requests that are authentic, fresh and not repeated. It may be used concurrently.
type door struct {
	name   string
	secret []byte
	boot   string
	began  time.Time
	handle func(request) (answer, error)
	refuse func(reason string, r *http.Request)

	mu            sync.Mutex // guards what follows
	nonces, older map[string]bool
	turned        time.Time // when nonces were last moved to older
}

func newDoor(name string, secret []byte, handle func(request) (answer, error), refuse func(string, *http.Request)) *door {
	return &door{name: name, secret: secret, boot: rand.Text(), began: time.Now(), handle: handle, refuse: refuse, nonces: make(map[string]bool), turned: time.Now()}
}

// first reports whether a nonce is new, and remembers it.
func (d *door) first(nonce string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.turned) > fresh {
		d.older, d.nonces, d.turned = d.nonces, make(map[string]bool), time.Now()
	}
	if d.nonces[nonce] || d.older[nonce] {
		return false
	}
	d.nonces[nonce] = true
	return true
}

// ServeHTTP implements http.Handler. A forged, misdirected or repeated request gets 403 and the
// reason.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	var q sent
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case !authentic(d.secret, "request", body, r.Header.Get(macHeader)):
		d.deny(w, r, "forged: the message is not signed by the servers' secret")
		return
	case json.Unmarshal(body, &q) != nil:
		http.Error(w, "the message is not JSON", http.StatusBadRequest)
		return
	case q.To != d.name:
		d.deny(w, r, fmt.Sprintf("the message is for %s, this is %s", q.To, d.name))
		return
	}
	now := time.Since(d.began).Milliseconds()
	out := returned{Nonce: q.Nonce, Boot: d.boot, At: now}
	switch {
	case q.Boot != d.boot || now-q.At > fresh.Milliseconds():
		out.Stale = true
	case !d.first(q.Nonce):
		d.deny(w, r, "replayed: the message has come before")
		return
	default:
		if out.R, err = d.handle(q.Q); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	answered, err := json.Marshal(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set(macHeader, mac(d.secret, "answer", answered))
	_, _ = w.Write(answered) // a client without an answer repeats its request
}

func (d *door) deny(w http.ResponseWriter, r *http.Request, reason string) {
	d.refuse(reason, r)
	http.Error(w, reason, http.StatusForbidden)
}

// caller sends requests to servers. It may be used concurrently.
type caller struct {
	secret []byte
	client *http.Client

	mu   sync.Mutex // guards told
	told map[string]told
}

// told has the start and the time of a server, as the server has told them.
type told struct {
	boot string
	at   int64
	when time.Time
}

var errForged = errors.New("forged: the answer is not signed by the servers' secret")

// call sends a request to a server, twice if the server calls it stale, and returns the answer.
func (c *caller) call(ctx context.Context, server string, q request) (answer, error) {
	for try := 0; ; try++ {
		out, err := c.once(ctx, server, q)
		if err != nil || !out.Stale {
			return out.R, err
		}
		if try > 0 {
			return answer{}, fmt.Errorf("server %s has forgotten its own time", server)
		}
	}
}

func (c *caller) once(ctx context.Context, server string, q request) (out returned, err error) {
	c.mu.Lock()
	t := c.told[server]
	c.mu.Unlock()
	message := sent{To: server, Boot: t.boot, At: t.at + time.Since(t.when).Milliseconds(), Nonce: rand.Text(), Q: q}
	body, err := json.Marshal(message)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+server+path, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header.Set(macHeader, mac(c.secret, "request", body))
	resp, err := c.client.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	answered, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	switch {
	case err != nil:
		return out, err
	case resp.StatusCode != http.StatusOK:
		return out, fmt.Errorf("server %s: %s: %s", server, resp.Status, bytes.TrimSpace(answered))
	case !authentic(c.secret, "answer", answered, resp.Header.Get(macHeader)):
		return out, errForged
	}
	if err := json.Unmarshal(answered, &out); err != nil {
		return out, err
	}
	if out.Nonce != message.Nonce {
		return out, errors.New("replayed: the answer is to another message")
	}
	c.mu.Lock()
	c.told[server] = told{out.Boot, out.At, time.Now()}
	c.mu.Unlock()
	return out, nil
}
