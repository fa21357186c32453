package httpd

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"sheaf/internal/problem"
)

// How many searches go on at once: of one account, and of all.
const accountSearches = 4

func allSearches() int { return 4 * runtime.GOMAXPROCS(0) }

// searchRetry is when one who was turned away may come again.
const searchRetry = 5 * time.Second

// gate lets a bounded number of searches in.
type gate struct {
	mu  sync.Mutex // guards what follows
	by  map[string]int
	all int
}

func newGate() *gate { return &gate{by: make(map[string]int)} }

// enter lets an account's search in, or fails with the problem to answer. Leave
// must be called at its end.
func (g *gate) enter(account string) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.by[account] >= accountSearches:
		return nil, busy(http.StatusTooManyRequests, "too_many_searches",
			fmt.Sprintf("this account has %d searches under way; wait for one of them", accountSearches))
	case g.all >= allSearches():
		return nil, busy(http.StatusServiceUnavailable, "searches_busy", "as many searches are under way as the service does at once")
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
