package robotd

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/robotd/frontier"
	"sheaf/robotd/trap"
)

// host is one assigned host during a crawl.
type host struct {
	name  string
	front *frontier.Host
	quiet *window.Schedule // when it is not to be visited, by the operator; nil: never
	later int64            // known pages that this cycle has no room for

	mu   sync.Mutex // held while a page is stored; guards gone
	gone bool       // the host went to another robot

	// Whoever has the host's turn uses these; the gate sees to it that it is one.
	rules     []*rules  // one for each scheme that was met
	speed     speed     // in the hour that runs
	failures  int       // in a row
	located   time.Time // when its address was learned
	lost      bool      // nothing answered there the last time
	probed    bool      // it was asked for what is missing
	calendars trap.Calendars
	// What was to be noted of a page whose cell is stored, where the disk was too full to note it; nil: nothing.
	unfinished *frontier.Done
	missing    *missing // nil: what is not there is said to be so, or nobody has asked

	addr    atomic.Pointer[netip.AddrPort] // where the host lives
	share   atomic.Pointer[wire.Share]     // what of it is this robot's
	idle    atomic.Bool                    // not to be visited: it has no address yet, or is another robot's now
	nowhere atomic.Bool                    // it was looked up, and has no address
	rests   atomic.Bool                    // it has failed too often to be tried again soon
	waits   atomic.Pointer[string]         // why it waits longer than its address's interval; nil: it does not
	dirty   atomic.Bool                    // written to since the last checkpoint
	pages   meter
	bytes   meter
	ms      atomic.Int64 // that the transfer of its pages took
}

// locate notes where the host lives.
func (h *host) locate(addr netip.AddrPort) {
	h.addr.Store(&addr)
	h.located, h.lost = time.Now(), false
}

func (h *host) address() netip.AddrPort { return *h.addr.Load() }

// home is where the host's own pages are, wherever its robots.txt's redirects led.
func (h *host) home() netip.Addr { return h.address().Addr() }
