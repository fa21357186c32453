package httpd

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// An address may give this many wrong passwords at once, and one more every guessEvery.
const (
	guessBurst = 10
	guessEvery = 6 * time.Second
	guessers   = 16384 // addresses remembered
)

// guesses counts wrong passwords by address (IPv6: by its /64).
type guesses struct {
	mu     sync.Mutex // guards what follows
	byAddr *simplelru.LRU[netip.Prefix, *rate.Limiter]
}

func newGuesses() *guesses {
	byAddr, _ := simplelru.NewLRU[netip.Prefix, *rate.Limiter](guessers, nil) // fails for sizes below 1 only
	return &guesses{byAddr: byAddr}
}

// wait returns how long the address must wait before it may try again.
func (g *guesses) wait(remote string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.byAddr.Get(origin(remote))
	if !ok {
		return 0
	}
	if missing := 1 - l.Tokens(); missing > 0 {
		return time.Duration(missing * float64(guessEvery))
	}
	return 0
}

// wrong counts a wrong password.
func (g *guesses) wrong(remote string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	from := origin(remote)
	l, ok := g.byAddr.Get(from)
	if !ok {
		l = rate.NewLimiter(rate.Every(guessEvery), guessBurst)
		g.byAddr.Add(from, l)
	}
	l.Allow()
}

func origin(remote string) netip.Prefix {
	host, _, _ := net.SplitHostPort(remote)
	addr, _ := netip.ParseAddr(host)
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits) // the zero prefix for what is no address: all of it together
	return p
}
