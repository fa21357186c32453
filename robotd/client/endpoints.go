package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"sheaf/internal/wire"
)

// A URL that fails is not asked for a while, unless there is no other URL.
const (
	passOver    = 10 * time.Second // after the first failure, doubled with each further one
	passOverMax = 5 * time.Minute
)

// endpoints are the manager's URLs. The one that answered last is asked first. Its methods may be
// called concurrently.
type endpoints struct {
	mu    sync.Mutex // guards all below
	all   []endpoint
	first int // index of the one to ask first
}

type endpoint struct {
	url      string    // without a slash at its end
	failures int       // successive ones
	due      time.Time // not asked before, after a failure
	err      string    // the last failure
	failed   time.Time // time of the last failure
	answered time.Time // time of the last answer
}

func newEndpoints(urls []string) *endpoints {
	e := new(endpoints)
	for _, u := range urls {
		e.all = append(e.all, endpoint{url: strings.TrimRight(u, "/")})
	}
	return e
}

func (e *endpoints) String() string {
	urls := make([]string, len(e.all))
	for i := range e.all {
		urls[i] = e.all[i].url
	}
	return strings.Join(urls, " ")
}

func (e *endpoints) current() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.all) == 0 {
		return ""
	}
	return e.all[e.first].url
}

// try calls ask with one URL after another until its error is not an *unreachable.
func (e *endpoints) try(ask func(base string) error) error {
	var errs []error
	tried := make(map[int]bool)
	for {
		i, ok := e.next(tried)
		if !ok {
			return errors.Join(errs...)
		}
		tried[i] = true
		err := ask(e.all[i].url)
		var away *unreachable
		if !errors.As(err, &away) {
			e.answered(i)
			return err
		}
		e.failed(i, away)
		errs = append(errs, err)
	}
}

// next returns the index of the next URL to try: one that is due or, if none was tried yet, the one
// that is due soonest.
func (e *endpoints) next(tried map[int]bool) (int, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	soonest := -1
	for k := range e.all {
		i := (e.first + k) % len(e.all)
		if tried[i] {
			continue
		}
		if !e.all[i].due.After(now) {
			return i, true
		}
		if soonest < 0 || e.all[i].due.Before(e.all[soonest].due) {
			soonest = i
		}
	}
	return soonest, soonest >= 0 && len(tried) == 0
}

func (e *endpoints) answered(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.first = i
	e.all[i].failures, e.all[i].due, e.all[i].answered = 0, time.Time{}, time.Now()
}

func (e *endpoints) failed(i int, away *unreachable) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := &e.all[i]
	wait := min(passOver<<min(p.failures, 10), passOverMax)
	wait += rand.N(wait/4 + 1) // so that not all robots come back at once
	p.failures++
	p.failed, p.err = time.Now(), away.Error()
	p.due = p.failed.Add(max(wait, away.after))
}

// Target is the state of a URL of the service or of a manager.
type Target struct {
	Name     string    `json:"target"`
	Failures int       `json:"failures"`          // successive failures
	Again    time.Time `json:"again,omitzero"`    // not used before
	Error    string    `json:"error,omitempty"`   // last failure since the start
	Failed   time.Time `json:"failed,omitzero"`   // time of the last failure
	Answered time.Time `json:"answered,omitzero"` // time of the last batch or answer
}

func (e *endpoints) describe() []Target {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]Target, len(e.all))
	for i, p := range e.all {
		all[i] = Target{Name: p.url, Failures: p.failures, Again: p.due, Error: p.err, Failed: p.failed, Answered: p.answered}
	}
	return all
}

// unreachable is the error of a URL that gives no answer now, while another one may. The request
// may have been carried out. Every request can be repeated.
type unreachable struct {
	after time.Duration // the Retry-After of the answer
	err   error
}

func (u *unreachable) Error() string { return u.err.Error() }
func (u *unreachable) Unwrap() error { return u.err }

// refused is the manager's answer that it does not do what was asked.
type refused struct {
	status int
	text   string
}

func (r *refused) Error() string { return r.text }

// answerError returns the error for an answer that is no success. said is the beginning of its
// body.
func answerError(resp *http.Response, said string) error {
	err := &refused{resp.StatusCode, fmt.Sprintf("%s %s: %s: %s", resp.Request.Method, resp.Request.URL, resp.Status, strings.TrimSpace(said))}
	if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
		return &unreachable{wire.RetryAfter(resp.Header, time.Now()), err}
	}
	return err
}

// Refused reports whether an error is the manager's answer that it does not do what was asked,
// other than a 429 or 5xx.
func Refused(err error) bool {
	var r *refused
	var away *unreachable
	return errors.As(err, &r) && !errors.As(err, &away)
}

// Advice returns what a person must do after an error of the manager, if repeating the request does
// not help.
func Advice(err error) (advice string, needed bool) {
	var r *refused
	if !errors.As(err, &r) {
		return "", false
	}
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "the service does not know this robot, or has revoked it: ask its operator for a token and join again with a new data folder", true
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "what answers is no service of Sheaf's: see the setting manager", true
	}
	return "", false
}
