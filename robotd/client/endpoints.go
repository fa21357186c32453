package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// A URL that fails is not asked for a while, unless all URLs have failed.
const (
	passOver    = 10 * time.Second // after the first failure, doubled with each further one
	passOverMax = 5 * time.Minute
)

// endpoints are the manager's URLs. The one that answered last is asked first. Its methods may be
// called concurrently.
type endpoints struct {
	mu    sync.Mutex           // guards all below
	all   []config.TargetState // names have no slash at their end
	first int                  // index of the one to ask first
}

func newEndpoints(urls []string) *endpoints {
	e := new(endpoints)
	for _, u := range urls {
		e.all = append(e.all, config.TargetState{Name: strings.TrimRight(u, "/")})
	}
	return e
}

func (e *endpoints) String() string {
	urls := make([]string, len(e.all))
	for i := range e.all {
		urls[i] = e.all[i].Name
	}
	return strings.Join(urls, " ")
}

func (e *endpoints) current() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.all) == 0 {
		return ""
	}
	return e.all[e.first].Name
}

// errNoEndpoint means that neither the settings nor the identity name a manager.
var errNoEndpoint = errors.New("no manager is known: set manager to its URL")

// try calls ask with one URL after another until its error is not an *unreachable.
func (e *endpoints) try(ask func(base string) error) error {
	if len(e.all) == 0 {
		return errNoEndpoint
	}
	var errs []error
	tried := make(map[int]bool)
	for {
		i, ok := e.next(tried)
		if !ok {
			return errors.Join(errs...)
		}
		tried[i] = true
		err := ask(e.all[i].Name)
		var away *unreachable
		if !errors.As(err, &away) {
			e.answered(i)
			return err
		}
		e.failed(i, away)
		errs = append(errs, err)
	}
}

// next returns the index of the next URL to try: a URL that is due or, if none is due and none was
// tried yet, the URL that is due soonest. It returns false if there is neither.
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
		if !e.all[i].Again.After(now) {
			return i, true
		}
		if soonest < 0 || e.all[i].Again.Before(e.all[soonest].Again) {
			soonest = i
		}
	}
	return soonest, soonest >= 0 && len(tried) == 0
}

func (e *endpoints) answered(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.first = i
	e.all[i].Failures, e.all[i].Again, e.all[i].Answered = 0, time.Time{}, time.Now()
}

func (e *endpoints) failed(i int, away *unreachable) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := &e.all[i]
	wait := min(passOver<<min(p.Failures, 10), passOverMax)
	wait += rand.N(wait/4 + 1) // so that not all robots come back at once
	p.Failures++
	p.Failed, p.Error = time.Now(), away.Error()
	p.Again = p.Failed.Add(max(wait, away.after))
}

func (e *endpoints) describe() []config.TargetState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// unreachable is the error of a URL that gives no answer now, while another URL may. The request
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

// Answered reports whether an error is an answer of the manager, also a 429 or 5xx.
func Answered(err error) bool {
	var r *refused
	return errors.As(err, &r)
}

// Advice returns what a person must do after the manager's answers 401, 403, 404 and 405. After any
// other error, needed is false.
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
