package crawl

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/page"
	"sheaf/internal/preference"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
	"sheaf/robotd/revisit"
)

// Host is an assigned host during a crawl.
type Host struct {
	Name  string
	Front *frontier.Host
	Later atomic.Int64     // known pages that the cycle has no room for
	Quiet *window.Schedule // when the host is not to be visited; nil: there is no such time

	mu   sync.Mutex // held while a page is stored; guards gone
	gone bool       // the host was dropped

	place  place
	memory memory
	rest   rest
	share  atomic.Pointer[wire.Share] // which URLs of the host are this robot's
	idle   atomic.Bool                // not to be visited: the host has no address yet, waits, or was dropped
	waits  atomic.Bool                // not to be visited yet: another robot may still do so
	dirty  atomic.Bool                // written to since the last checkpoint
	pages  Meter
	bytes  Meter
	ms     atomic.Int64 // transfer time of its pages
	last   atomic.Pointer[visit]
}

// visit is what the last visit to a host has shown.
type visit struct {
	at     time.Time
	status int    // of the answer; 0: there was none
	why    string // why there was no answer
}

// visited notes what a visit to the host has shown: an answer, or an error of package fetch.
func (h *Host) visited(status int, err error) {
	v := &visit{at: time.Now(), status: status}
	if err != nil {
		v.status, v.why = 0, string(cmp.Or(fetch.KindOf(err), fetch.Local))
	}
	h.last.Store(v)
}

// NoAnswer says why the host did not answer last: it has no address, or the last visit failed.
// Empty: the host answered, or was not visited yet.
func (h *Host) NoAnswer() string {
	v := h.last.Load()
	switch {
	case h.place.unknown.Load():
		return string(fetch.DNS)
	case v == nil:
		return ""
	}
	return v.why
}

// place is where a host's server is.
type place struct {
	addr    atomic.Pointer[netip.AddrPort]
	unknown atomic.Bool  // the host was looked up and has no address
	learned time.Time    // when addr was learned; used in the host's turn
	silent  bool         // nothing answered at the last visit; used in the host's turn
	dead    []netip.Addr // addresses of the host that take no connection; used in the host's turn
}

// memory is what was learned of a host in the crawl. It is used in the host's turn, which the gate
// gives to one worker at a time.
type memory struct {
	rules      []*rules // one for each scheme that was met
	speed      revisit.Speed
	calendars  page.Calendars
	circles    page.Circles
	probed     bool           // the host was asked for a page that cannot exist
	missing    *missing       // its answer, if it looked like a page
	unfinished *frontier.Done // a stored page that could not be noted, since the disk was full; nil: none
}

// rest is the treatment of a host that fails.
type rest struct {
	failures int                    // successive ones; used in the host's turn
	hungUp   []string               // URLs of successive visits at which it hung up, each once; used in the host's turn
	rests    atomic.Bool            // the host has failed too often to be tried again soon
	why      atomic.Pointer[string] // why it waits longer than its address's interval; nil: it does not
}

// manyHungUp is the number of pages in a row at which a server must hang up before the server
// itself counts as failing, and not a program behind these pages.
const manyHungUp = 3

// hangsUp notes that the server took the connection for a URL and closed it without a byte. It
// reports whether the server has done so at manyHungUp pages in a row.
func (r *rest) hangsUp(url string) bool {
	if len(r.hungUp) < manyHungUp && !slices.Contains(r.hungUp, url) {
		r.hungUp = append(r.hungUp, url)
	}
	return len(r.hungUp) == manyHungUp
}

// NewHost returns a host that is not visited until Crawl.start has located it.
func NewHost(front *frontier.Host, share wire.Share, quiet *window.Schedule) *Host {
	h := &Host{Name: front.Name, Front: front, Quiet: quiet}
	h.share.Store(&share)
	h.idle.Store(true)
	return h
}

// Locate notes where the host's server is.
func (h *Host) Locate(addr netip.AddrPort) {
	h.place.addr.Store(&addr)
	h.place.learned, h.place.silent = time.Now(), false
	h.place.unknown.Store(false)
}

func (h *Host) address() netip.AddrPort { return *h.place.addr.Load() }

// Home returns the address of the host's own pages, wherever redirects of its robots.txt lead.
func (h *Host) Home() netip.Addr { return h.address().Addr() }

// IsAt reports whether the host's server has the address.
func (h *Host) IsAt(addr netip.Addr) bool {
	at := h.place.addr.Load()
	return at != nil && at.Addr() == addr
}

// Unreached reports whether the host is idle, for example without an address, or rests because it
// fails.
func (h *Host) Unreached() bool { return h.idle.Load() || h.rest.rests.Load() }

// Share returns which URLs of the host are this robot's.
func (h *Host) Share() wire.Share { return *h.share.Load() }

// Push queues entries, unless the host was dropped. It returns how many are new.
func (h *Host) Push(entries ...frontier.Entry) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return 0, nil
	}
	h.dirty.Store(true)
	return h.Front.Push(entries...)
}

// Checkpoint makes the host's queue durable against loss of power, if it has changed. segment makes
// the host's open segment durable.
func (h *Host) Checkpoint(segment func() error) error {
	if !h.dirty.Swap(false) {
		return nil
	}
	return h.Front.Sync(segment)
}

// recovered notes that the server answers as it should.
func (h *Host) recovered() {
	h.rest.failures = 0
	h.rest.why.Store(nil)
}

// crawlDelay returns the longest Crawl-delay in the host's robots.txt files, as far as they are
// known.
func (h *Host) crawlDelay(agent string) (delay time.Duration) {
	for _, ru := range h.memory.rules {
		if ru.Robots != nil {
			delay = max(delay, ru.CrawlDelay(agent))
		}
	}
	return delay
}

// Progress returns the host's progress, for the manager. The state is empty if nobody has begun the
// host, and it waits or is being visited.
func (h *Host) Progress() wire.HostProgress {
	p := wire.HostProgress{Pages: h.pages.Load(), Bytes: h.bytes.Load(), MS: h.ms.Load(), Left: int64(h.Front.Left())}
	if v := h.last.Load(); v != nil {
		p.Status, p.AgoMS = v.status, max(time.Since(v.at).Milliseconds(), 1)
	}
	begun := h.Front.Begun()
	switch {
	case h.waits.Load() && !begun: // it is not begun
	case h.waits.Load():
		p.State = wire.HostBegun
	case h.idle.Load() || begun && h.Front.Empty():
		p.State = wire.HostDone
	case begun:
		p.State = wire.HostBegun
	}
	return p
}

// WhyWaits says why the host waits longer than its address's interval; empty: it waits no longer.
func (h *Host) WhyWaits() string {
	if why := h.rest.why.Load(); why != nil {
		return *why
	}
	return ""
}

// Describe returns the host's status. p is its place in the gate; nil: it has none.
func (h *Host) Describe(p *polite.Place) HostStatus {
	d := HostStatus{Name: h.Name, State: Done, Pages: h.pages.rate(), Bytes: h.bytes.rate(), Left: int64(h.Front.Left())}
	if addr := h.place.addr.Load(); addr != nil {
		d.Address = addr.Addr().String()
	}
	switch {
	case p != nil && p.Out:
		d.State = Visiting
	case h.Unreached():
		d.State = LeftOut
	case p != nil:
		d.State = Waits
	}
	if p != nil && !p.Out {
		d.Next = p.At
	}
	return d
}

// rules is the robots.txt of one of a host's schemes, and how far its fetching has come. A file
// holds for its scheme and port only (RFC 9309, 2.3).
type rules struct {
	*preference.Robots           // nil: not known
	scheme             string    // "http" or "https"
	until              time.Time // when it must be fetched again
	way                *rulesWay // nil: it is not being fetched
}

// rulesWay is the progress of fetching a robots.txt, over redirects.
type rulesWay struct {
	at   string         // URL to fetch next
	addr netip.AddrPort // where that URL's host is
	dead []netip.Addr   // addresses of that host that take no connection
	hops int            // redirects so far
}

func (ru *rules) fresh(now time.Time) bool { return ru.Robots != nil && now.Before(ru.until) }

// missing is what a host answers to a request for a page that cannot exist, if it looks like a
// page.
type missing struct {
	to     string       // URL to which it redirects; empty: it does not
	sketch *page.Sketch // of its page; nil: none
}
