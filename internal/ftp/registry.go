package ftp

import (
	"container/list"
	"errors"
	"fmt"
	"net/netip"
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
	counted  bool          // the connection is in conns and in the network's count
	stranger *list.Element // in registry.strangers; nil after the login
	account  string        // logged in as; "" before
}

// registry counts connections and logins, and sends clients away.
type registry struct {
	maxConns, maxPerAddr, maxPerAccount int
	contact                             string // whom refused people can ask
	counts                              *Counts

	mu         sync.Mutex // guards what follows
	places     map[*place]bool
	strangers  *list.List // of *place without a login, the longest connected first
	conns      int        // number of counted connections
	perNetwork map[netip.Prefix]int
	perAccount map[string]int
	draining   bool
	empty      chan struct{} // closed when draining and the last connection has gone
}

func newRegistry(cfg Config) *registry {
	return &registry{
		maxConns: cfg.MaxConns, maxPerAddr: cfg.MaxPerAddr, maxPerAccount: cfg.MaxPerAccount, contact: cfg.Contact, counts: cfg.Counts,
		places: make(map[*place]bool), strangers: list.New(),
		perNetwork: make(map[netip.Prefix]int), perAccount: make(map[string]int), empty: make(chan struct{}),
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

// admit counts a new connection, or returns why it may not stay. If there is no room, admit sends
// away the connection that has been open longest without a login.
func (r *registry) admit(p *place) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	full := func() bool { return r.conns >= r.maxConns }
	networkFull := func() bool { return r.perNetwork[p.network] >= r.maxPerAddr }
	if networkFull() {
		r.evict(func(other *place) bool { return other.network == p.network })
	}
	if full() {
		r.evict(func(*place) bool { return true })
	}
	switch {
	case r.draining:
		return stopping()
	case full():
		r.counts.Refused.Add(1)
		return r.refusal("Too many connections to this service; try again later")
	case networkFull():
		r.counts.Refused.Add(1)
		return r.refusal("Too many connections from %v: at most %d are allowed at once", p.peer, r.maxPerAddr)
	}
	r.places[p] = true
	r.counts.Accepted.Add(1)
	r.counts.Open.Add(1)
	p.stranger = r.strangers.PushBack(p)
	p.counted = true
	r.conns++
	r.perNetwork[p.network]++
	return nil
}

// evict sends away the matching connection that has been open longest without a login.
func (r *registry) evict(match func(*place) bool) {
	for el := r.strangers.Front(); el != nil; el = el.Next() {
		if p := el.Value.(*place); match(p) {
			r.uncount(p)
			p.dismiss(r.refusal("Others came meanwhile, and there was no login; try again"))
			time.AfterFunc(evictTime, p.cut)
			return
		}
	}
}

// uncount removes a connection from the counts, so that another has room.
func (r *registry) uncount(p *place) {
	if p.stranger != nil {
		r.strangers.Remove(p.stranger)
		p.stranger = nil
	}
	if p.counted {
		p.counted = false
		r.conns--
		decrement(r.perNetwork, p.network)
	}
}

// login counts a login of user, or returns why it is refused. forget undoes login.
func (r *registry) login(p *place, user string) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.perAccount[user] >= r.maxPerAccount {
		return r.refusal("Too many connections of %s: at most %d are allowed at once", user, r.maxPerAccount)
	}
	if !p.counted {
		return r.refusal("Others came meanwhile; try again")
	}
	r.strangers.Remove(p.stranger)
	p.stranger = nil
	r.perAccount[user]++
	r.counts.Logins.Add(1)
	p.account = user
	return nil
}

// forget undoes admit and login.
func (r *registry) forget(p *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places[p] {
		delete(r.places, p)
		r.counts.Open.Add(-1)
	}
	r.uncount(p)
	if p.account != "" {
		decrement(r.perAccount, p.account)
	}
	r.checkEmpty()
}

func decrement[K comparable](m map[K]int, k K) {
	if m[k]--; m[k] == 0 {
		delete(m, k)
	}
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
	for p := range r.places {
		p.dismiss(stopping())
	}
	r.checkEmpty()
	r.mu.Unlock()
	if r.gone(patience) {
		return nil
	}
	r.mu.Lock()
	for p := range r.places {
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
