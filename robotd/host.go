package robotd

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
)

// host is one assigned host during a crawl.
type host struct {
	name  string
	front *frontier.Host

	mu   sync.Mutex // held while a page is stored; guards gone
	gone bool       // the host went to another robot

	// Whoever has the host's turn uses these; the gate sees to it that it is one.
	addr     netip.AddrPort // where the host lives
	rules    rules
	failures int // in a row

	idle  atomic.Bool // not to be visited: it has no address yet, or could not be reached in this cycle
	dirty atomic.Bool // written to since the last checkpoint
	pages atomic.Int64
	bytes atomic.Int64
}

// rules is what the host's robots.txt says, and how far its fetching has come.
type rules struct {
	*polite.Robots                // nil: not known
	until          time.Time      // when it must be fetched again
	at             string         // URL to fetch it from, while redirects are followed
	addr           netip.AddrPort // where that URL lives
	hops           int
}

// rulesFor is how long a robots.txt is believed (RFC 9309, 2.4).
const rulesFor = 24 * time.Hour

// Bounds of patience with a host that fails.
const (
	patience   = 15        // intervals, doubled with each failure
	maxBackOff = time.Hour // and no longer than this
	giveUp     = 8         // failures in a row, after which the host rests until the next cycle
)

// backOff counts a failure and returns when the host may be tried again; the zero
// time means not in this cycle.
func (h *host) backOff(interval time.Duration) time.Time {
	h.failures++
	if h.failures >= giveUp {
		h.idle.Store(true)
		return time.Time{}
	}
	wait := min(patience*interval<<(h.failures-1), maxBackOff)
	return time.Now().Add(wait + time.Duration(rand.Int64N(int64(wait)/4+1)))
}
