package ftp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	evictTime = time.Second     // for a client that must make room, to read its last reply
	cutTime   = 5 * time.Second // for goroutines to end once their connections are cut
)

// place is a connection in the registry.
type place struct {
	peer    netip.Addr   // the client's
	network netip.Prefix // the network that limits count as one client
	dismiss func(*Error) // tells the client why it must go: now if it is idle, or after its command
	cut     func()       // closes the connection

	// The registry's mutex guards the following.
	evicted bool   // another connection has its room
	account string // logged in as; "" before
}

// registry counts connections and logins, and sends clients away.
type registry struct {
	maxConns, maxPerAddr, maxPerAccount int
	contact                             string // whom refused people can ask
	counts                              *Counts

	mu       sync.Mutex // guards what follows
	places   []*place   // of the open connections, the longest connected first
	draining bool
	empty    chan struct{} // closed when draining and the last connection has gone
}

func newRegistry(cfg Config) *registry {
	return &registry{
		maxConns: cfg.MaxConns, maxPerAddr: cfg.MaxPerAddr, maxPerAccount: cfg.MaxPerAccount, contact: cfg.Contact, counts: cfg.Counts,
		empty: make(chan struct{}),
	}
}

// refusal returns a 421 reply that ends with the contact.
func (r *registry) refusal(format string, args ...any) *Error {
	text := fmt.Sprintf(format, args...)
	if r.contact != "" {
		text += "; questions: " + r.contact
	}
	return &Error{421, text}
}

func stopping() *Error { return &Error{421, "The service is stopping; come back later"} }

// count returns the number of matching connections, without those that were evicted.
func (r *registry) count(match func(*place) bool) (n int) {
	for _, p := range r.places {
		if !p.evicted && match(p) {
			n++
		}
	}
	return n
}

// admit counts a new connection, or returns why it may not stay. If there is no room, admit sends
// away the connection that has been open longest without a login.
func (r *registry) admit(p *place) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := func(*place) bool { return true }
	neighbour := func(other *place) bool { return other.network == p.network }
	if r.count(neighbour) >= r.maxPerAddr {
		r.evict(neighbour)
	}
	if r.count(all) >= r.maxConns {
		r.evict(all)
	}
	switch {
	case r.draining:
		return stopping()
	case r.count(all) >= r.maxConns:
		r.counts.Refused.Add(1)
		return r.refusal("Too many connections to this service; try again later")
	case r.count(neighbour) >= r.maxPerAddr:
		r.counts.Refused.Add(1)
		return r.refusal("Too many connections from %v: at most %d are allowed at once", p.peer, r.maxPerAddr)
	}
	r.places = append(r.places, p)
	r.counts.Accepted.Add(1)
	r.counts.Open.Add(1)
	return nil
}

// evict sends away the matching connection that has been open longest without a login.
func (r *registry) evict(match func(*place) bool) {
	i := slices.IndexFunc(r.places, func(p *place) bool { return !p.evicted && p.account == "" && match(p) })
	if i < 0 {
		return
	}
	p := r.places[i]
	p.evicted = true
	p.dismiss(r.refusal("Others came meanwhile, and there was no login; try again"))
	time.AfterFunc(evictTime, p.cut)
}

// login counts a login of user, or returns why it is refused. forget undoes login.
func (r *registry) login(p *place, user string) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count(func(other *place) bool { return other.account == user }) >= r.maxPerAccount {
		return r.refusal("Too many connections of %s: at most %d are allowed at once", user, r.maxPerAccount)
	}
	if p.evicted {
		return r.refusal("Others came meanwhile; try again")
	}
	r.counts.Logins.Add(1)
	p.account = user
	return nil
}

// forget undoes admit and login.
func (r *registry) forget(p *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.places, p); i >= 0 {
		r.places = slices.Delete(r.places, i, i+1)
		r.counts.Open.Add(-1)
	}
	r.checkEmpty()
}

func (r *registry) checkEmpty() {
	if r.draining && len(r.places) == 0 {
		close(r.empty)
	}
}

// drain admits no more clients and sends idle ones away. It lets busy clients finish their command
// within patience, and then cuts their connections.
func (r *registry) drain(patience time.Duration) error {
	r.mu.Lock()
	r.draining = true
	for _, p := range r.places {
		p.dismiss(stopping())
	}
	r.checkEmpty()
	r.mu.Unlock()
	if r.gone(patience) {
		return nil
	}
	r.mu.Lock()
	for _, p := range r.places {
		p.cut()
	}
	r.mu.Unlock()
	if r.gone(cutTime) {
		return nil
	}
	return errors.New("ftp: sessions did not end although their connections were cut")
}

// gone waits until the last connection has gone, but no longer than within. It reports whether the
// last connection has gone.
func (r *registry) gone(within time.Duration) bool {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-r.empty:
		return true
	case <-t.C:
		return false
	}
}
