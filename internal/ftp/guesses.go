package ftp

import (
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// How many failures are free, and how long the next tries must wait at most.
// An address pays for its own guesses. An account pays for everybody's, so it
// bears more and waits less, and addresses that it has logged in from before
// are let through: guessing must not lock the owner out.
const (
	freePerAddr    = 5
	freePerAccount = 20
	longestAddr    = 15 * time.Minute
	longestAccount = time.Minute

	forgiven   = time.Hour // without a failure, until all is forgotten
	remembered = 1 << 14   // addresses, accounts and pairs kept in mind
)

// guesses counts failed logins and says how long to wait.
type guesses struct {
	mu       sync.Mutex // guards the counts from read to write
	addrs    *lru.Cache[netip.Prefix, strikes]
	accounts *lru.Cache[string, strikes]
	known    *lru.Cache[pair, struct{}]
}

type pair struct {
	from netip.Prefix
	user string
}

type strikes struct {
	n    int
	last time.Time
}

func newGuesses() *guesses {
	g := new(guesses)
	// New only fails for sizes below one.
	g.addrs, _ = lru.New[netip.Prefix, strikes](remembered)
	g.accounts, _ = lru.New[string, strikes](remembered)
	g.known, _ = lru.New[pair, struct{}](remembered)
	return g
}

// wait is how long user, coming from from, has to wait until the next try.
func (g *guesses) wait(from netip.Prefix, user string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, _ := g.addrs.Get(from)
	wait := s.left(freePerAddr, longestAddr)
	if !g.known.Contains(pair{from, user}) {
		s, _ = g.accounts.Get(user)
		wait = max(wait, s.left(freePerAccount, longestAccount))
	}
	return wait
}

func (g *guesses) failed(from netip.Prefix, user string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, _ := g.addrs.Get(from)
	g.addrs.Add(from, s.another())
	s, _ = g.accounts.Get(user)
	g.accounts.Add(user, s.another())
}

func (g *guesses) passed(from netip.Prefix, user string) {
	g.known.Add(pair{from, user}, struct{}{})
}

func (s strikes) another() strikes {
	now := time.Now()
	if now.Sub(s.last) > forgiven {
		s.n = 0
	}
	return strikes{s.n + 1, now}
}

// left doubles from one second on with every failure beyond the free ones.
func (s strikes) left(free int, longest time.Duration) time.Duration {
	if s.n < free {
		return 0
	}
	penalty := min(time.Second<<min(s.n-free, 20), longest)
	return time.Until(s.last.Add(penalty))
}
