package peer

import (
	"container/list"
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Limits bound the connections that a server keeps open.
type Limits struct {
	Total      int // connections at once
	PerAddress int // from one IPv4 address or IPv6 /64; no limit for loopback, where a proxy may be

	// Unbounded reports whether PerAddress does not apply to an address, such as a proxy's; nil: it
	// applies to all.
	Unbounded func(netip.Addr) bool
}

// Guard closes connections beyond the limits. Its ConnState must be set as http.Server.ConnState.
type Guard struct {
	limits Limits

	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]*entry
	idle   *list.List // of *entry, the longest idle first
	origin map[netip.Prefix]int
}

type entry struct {
	conn   net.Conn
	origin netip.Prefix // zero: not bounded, or no IP address
	idle   *list.Element
}

// NewGuard returns a guard. A limit that is not positive means no limit.
func NewGuard(limits Limits) *Guard {
	return &Guard{limits: limits, conns: make(map[net.Conn]*entry), idle: list.New(), origin: make(map[netip.Prefix]int)}
}

// ConnState is the hook for http.Server.ConnState. A new connection that has sent nothing counts as
// idle.
func (g *Guard) ConnState(c net.Conn, state http.ConnState) {
	for _, victim := range g.note(c, state) {
		victim.Close()
	}
}

// note records the state and returns the connections to close.
func (g *Guard) note(c net.Conn, state http.ConnState) (victims []net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch state {
	case http.StateNew:
		e := &entry{conn: c, origin: g.originOf(c)}
		g.conns[c] = e
		if e.origin.IsValid() {
			g.origin[e.origin]++
		}
		victims = g.makeRoom(e)
		if g.conns[c] == e {
			e.idle = g.idle.PushBack(e)
		}
	case http.StateActive:
		if e := g.conns[c]; e != nil && e.idle != nil {
			g.idle.Remove(e.idle)
			e.idle = nil
		}
	case http.StateIdle:
		if e := g.conns[c]; e != nil && e.idle == nil {
			e.idle = g.idle.PushBack(e)
		}
	case http.StateClosed, http.StateHijacked:
		g.forget(c)
	}
	return victims
}

// makeRoom returns the connection to close if one too many is open in total or from e's address. It
// chooses the connection that has been idle longest, or e itself if no connection is idle, and
// forgets the chosen one.
func (g *Guard) makeRoom(e *entry) []net.Conn {
	of := func(*entry) bool { return true }
	switch {
	case e.origin.IsValid() && g.limits.PerAddress > 0 && g.origin[e.origin] > g.limits.PerAddress:
		of = func(other *entry) bool { return other.origin == e.origin }
	case g.limits.Total > 0 && len(g.conns) > g.limits.Total:
	default:
		return nil
	}
	victim := e.conn
	for el := g.idle.Front(); el != nil; el = el.Next() {
		if other := el.Value.(*entry); of(other) {
			victim = other.conn
			break
		}
	}
	g.forget(victim)
	return []net.Conn{victim}
}

func (g *Guard) forget(c net.Conn) {
	e := g.conns[c]
	if e == nil {
		return
	}
	delete(g.conns, c)
	if e.idle != nil {
		g.idle.Remove(e.idle)
	}
	if e.origin.IsValid() {
		if g.origin[e.origin]--; g.origin[e.origin] == 0 {
			delete(g.origin, e.origin)
		}
	}
}

// originOf returns the network under which PerAddress counts a connection, or the zero Prefix if
// PerAddress does not apply to it.
func (g *Guard) originOf(c net.Conn) netip.Prefix {
	addr := Addr(c.RemoteAddr().String())
	if addr.IsLoopback() || g.limits.Unbounded != nil && g.limits.Unbounded(addr) {
		return netip.Prefix{}
	}
	return Network(addr)
}

// Shutdown is server.Shutdown, but notices within 50 ms that the last request has ended.
// server.Shutdown looks less and less often, in the end twice a second.
func Shutdown(ctx context.Context, server *http.Server) error {
	const look = 50 * time.Millisecond
	for {
		bounded, cancel := context.WithTimeout(ctx, look)
		err := server.Shutdown(bounded)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

type idKey struct{}

// WithRequest returns a context with a request's ID. Lines that are logged with the context have
// the ID (see package commandline).
func WithRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, idKey{}, id)
}

// Request returns the request's ID in a context; empty if there is none.
func Request(ctx context.Context) string {
	id, _ := ctx.Value(idKey{}).(string)
	return id
}

// NewID returns a new random ID of 26 letters and digits.
func NewID() string { return rand.Text() }
