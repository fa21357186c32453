package httpd

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/serve/account"
)

// How many searches go on at once: of one account, and of all.
const accountSearches = 4

func allSearches() int { return 4 * runtime.GOMAXPROCS(0) }

// How many of them have a list of URLs and hosts in their body: one of query.MaxList lines takes
// some 30 MB while it is read and searched for.
const accountLists, allLists = 2, 4

// How many requests wait for changes at once: of one account, and of all. Each looks for them
// twice a second.
const accountPolls, allPolls = 16, 1000

// searchRetry is when one who was turned away may come again.
const searchRetry = 5 * time.Second

// gate lets a bounded number of requests of a kind in.
type gate struct {
	perAccount, total int
	what              string // they are, in the plural
	reason            string // for programs, of a problem

	mu  sync.Mutex // guards what follows
	by  map[string]int
	all int
}

func newGate(perAccount, total int, what, reason string) *gate {
	return &gate{perAccount: perAccount, total: total, what: what, reason: reason, by: make(map[string]int)}
}

func newSearches() *gate { return newGate(accountSearches, allSearches(), "searches", "searches") }
func newLists() *gate    { return newGate(accountLists, allLists, "searches for a list", "lists") }
func newPolls() *gate {
	return newGate(accountPolls, allPolls, "requests that wait for changes", "waits")
}

// enterSearch lets a query in, before its body is read, or fails with the problem to answer.
// Leave must be called at its end.
func (s *server) enterSearch(r *http.Request, a *account.Account) (leave func(), err error) {
	who := payer(r, a)
	if r.Method != http.MethodPost {
		return s.searches.enter(who)
	}
	leaveLists, err := s.lists.enter(who)
	if err != nil {
		return nil, err
	}
	leaveSearches, err := s.searches.enter(who)
	if err != nil {
		leaveLists()
		return nil, err
	}
	return func() { leaveSearches(); leaveLists() }, nil
}

// payer is who a request counts for: its account; of those who gave no name, each address is one.
func payer(r *http.Request, a *account.Account) string {
	if a.Name != account.Anonymous {
		return a.Name
	}
	return a.Name + " " + peer.Network(peer.Addr(r.RemoteAddr)).String()
}

// enter lets a request of a payer in, or fails with the problem to answer. Leave
// must be called at its end.
func (g *gate) enter(account string) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.by[account] >= g.perAccount:
		return nil, busy(http.StatusTooManyRequests, "too_many_"+g.reason,
			fmt.Sprintf("this account has %d %s under way; wait for one of them", g.perAccount, g.what))
	case g.all >= g.total:
		return nil, busy(http.StatusServiceUnavailable, g.reason+"_busy", fmt.Sprintf("as many %s are under way as the service does at once", g.what))
	}
	g.by[account]++
	g.all++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.all--
		if g.by[account]--; g.by[account] == 0 {
			delete(g.by, account)
		}
	}, nil
}

func busy(status int, reason, detail string) error {
	p := problem.New(status, reason, detail)
	p.Next = time.Now().Add(searchRetry).UTC().Format(time.RFC3339)
	return p
}
