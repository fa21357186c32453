package ftp

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"sheaf/internal/acked"
)

// afterCut is how long the sessions' goroutines get to end once their
// connections have been cut.
const afterCut = 5 * time.Second

// engine is what the connections of one server share.
type engine struct {
	Config
	handler Handler

	follower *acked.Follower // of downloads that are sent and not yet acknowledged

	anyPorts [2]int // first and last, where Config names none

	mu       sync.Mutex // guards what follows
	conns    map[*conn]struct{}
	strange  *list.List // of *conn that have not logged in, the longest open first
	places   int        // taken of MaxConns
	perAddr  map[netip.Prefix]int
	perUser  map[string]int
	draining bool
	empty    chan struct{} // closed when draining and the last connection has gone
}

func newEngine(cfg Config, h Handler) *engine {
	return &engine{
		Config:  cfg,
		handler: h,

		follower: acked.NewFollower(),

		anyPorts: ephemeralPorts(),

		conns:   make(map[*conn]struct{}),
		strange: list.New(),
		perAddr: make(map[netip.Prefix]int),
		perUser: make(map[string]int),
		empty:   make(chan struct{}),
	}
}

// admit registers a new connection, or says why not. Where there is no place for it, the
// connection that has been open longest without a login has to go.
func (e *engine) admit(c *conn) *Error {
	e.mu.Lock()
	defer e.mu.Unlock()
	full := func() bool { return e.places >= e.MaxConns }
	fullHere := func() bool { return e.perAddr[c.origin] >= e.MaxPerAddr }
	if fullHere() {
		e.makeRoom(func(other *conn) bool { return other.origin == c.origin })
	}
	if full() {
		e.makeRoom(func(*conn) bool { return true })
	}
	switch {
	case e.draining:
		return stopping()
	case full():
		return &Error{421, "Too many connections to this service; try again later" + e.ask()}
	case fullHere():
		return &Error{421, fmt.Sprintf("Too many connections from %v: at most %d are allowed at once%s", c.peer, e.MaxPerAddr, e.ask())}
	}
	e.conns[c] = struct{}{}
	c.stranger = e.strange.PushBack(c)
	c.placed = true
	e.places++
	e.perAddr[c.origin]++
	return nil
}

// makeRoom sends the longest open connection away that has not logged in and fits.
func (e *engine) makeRoom(fits func(*conn) bool) {
	for el := e.strange.Front(); el != nil; el = el.Next() {
		if c := el.Value.(*conn); fits(c) {
			e.leave(c)
			c.dismiss(&Error{421, "Others came meanwhile, and there was no login; try again" + e.ask()})
			time.AfterFunc(strangersWords, c.cut)
			return
		}
	}
}

// strangersWords is how long a connection that has to make room has for its last reply.
const strangersWords = 100 * time.Millisecond

// leave takes a connection's place from it.
func (e *engine) leave(c *conn) {
	if c.stranger != nil {
		e.strange.Remove(c.stranger)
		c.stranger = nil
	}
	if c.placed {
		c.placed = false
		e.places--
		decrement(e.perAddr, c.origin)
	}
}

// ask is what refusals end with.
func (e *engine) ask() string {
	if e.Contact == "" {
		return ""
	}
	return "; questions: " + e.Contact
}

func stopping() *Error { return &Error{421, "The service is stopping; come back later"} }

// admitUser counts a login of user, or says why not. The connection's end
// gives the place back.
func (e *engine) admitUser(c *conn, user string) *Error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.perUser[user] >= e.MaxPerAccount {
		return &Error{421, fmt.Sprintf("Too many connections of %s: at most %d are allowed at once%s", user, e.MaxPerAccount, e.ask())}
	}
	if !c.placed {
		return &Error{421, "Others came meanwhile; try again" + e.ask()}
	}
	e.strange.Remove(c.stranger)
	c.stranger = nil
	e.perUser[user]++
	c.account = user
	return nil
}

// forget takes back what admit and admitUser counted.
func (e *engine) forget(c *conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, c)
	e.leave(c)
	if c.account != "" {
		decrement(e.perUser, c.account)
	}
	if e.draining && len(e.conns) == 0 {
		close(e.empty)
	}
}

func decrement[K comparable](m map[K]int, k K) {
	if m[k]--; m[k] == 0 {
		delete(m, k)
	}
}

// drain sends idle sessions away, lets the others finish their command within
// patience, and then cuts them.
func (e *engine) drain(patience time.Duration) error {
	e.each(true, func(c *conn) { c.dismiss(stopping()) })
	if e.gone(patience) {
		return nil
	}
	e.each(false, (*conn).cut)
	if e.gone(afterCut) {
		return nil
	}
	return errors.New("ftp: sessions did not end although their connections were cut")
}

// each calls f for every connection there is; first says that no more may come.
func (e *engine) each(first bool, f func(*conn)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if first {
		e.draining = true
		if len(e.conns) == 0 {
			close(e.empty)
		}
	}
	for c := range e.conns {
		f(c)
	}
}

func (e *engine) gone(within time.Duration) bool {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-e.empty:
		return true
	case <-t.C:
		return false
	}
}

// listener hands goftp connections of our own, within the limits.
type listener struct {
	net.Listener
	engine *engine
}

// Accept outlasts a lack of descriptors: goftp would ask again in a tight loop.
func (l *listener) Accept() (net.Conn, error) {
	pause := time.Millisecond
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil, err
			}
			l.engine.Log.Warn("ftp: cannot accept a connection", "error", err, "pause", pause)
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		c := newConn(context.Background(), l.engine, raw)
		if refusal := l.engine.admit(c); refusal != nil {
			c.reply(refusal.Code, "%s", refusal.Msg)
			raw.Close()
			continue
		}
		return c, nil
	}
}
