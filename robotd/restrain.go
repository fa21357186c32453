package robotd

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"time"

	"sheaf/robotd/hoststate"
	"sheaf/robotd/polite"
)

// Bounds of patience with a host that fails.
const (
	patience   = 15            // intervals, doubled with each failure
	maxBackOff = time.Hour     // and no longer than this
	giveUp     = 8             // failures in a row, after which the host rests
	longRest   = 2 * time.Hour // so long at most
)

// backOff counts a failure and returns when the host may be tried again. A server that says how
// long to wait is believed, until it has said so too often; one that only asks for fewer visits (429, 503)
// gets ever fewer before the next cycle is due. Any other host rests after many failures, and is tried
// again if the cycle still goes on then: a cycle ends without waiting for hosts that rest. Status is 0 where
// nothing answered.
func (c *crawl) backOff(h *host, status int, asked time.Time) time.Time {
	h.failures++
	longest, reason := maxBackOff, fmt.Sprintf("retry, %d failed", h.failures)
	often := h.failures >= giveUp
	if often {
		longest = longRest
	}
	wait := min(patience*c.cfg.Interval<<min(h.failures-1, giveUp), longest)
	next := time.Now().Add(wait + time.Duration(rand.Int64N(int64(wait)/4+1)))
	if !asked.IsZero() && (!often || asked.After(next)) {
		next, reason = asked, "Retry-After"
	}
	busy := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	if often && !(busy && next.Before(c.round.due)) {
		reason = fmt.Sprintf("rests, %d failed", h.failures)
		c.setResting(h, true)
	}
	h.waits.Store(&reason)
	return next
}

// setResting notes that a host rests after many failures, or does so no longer.
func (c *crawl) setResting(h *host, rests bool) {
	if h.rests.Swap(rests) == rests {
		return
	}
	if rests {
		c.atRest.Add(1)
	} else {
		c.atRest.Add(-1)
	}
}

// recovered notes that a host's server answers as it should.
func (h *host) recovered() {
	h.failures = 0
	h.waits.Store(nil)
}

// unreached reports whether the host has no address, or rests because it fails.
func (h *host) unreached() bool { return h.idle.Load() || h.rests.Load() }

// addressKey is the name of an address among the restraints; no host is called so.
func addressKey(addr netip.Addr) string { return "@" + addr.String() }

// recall tells the gate what an earlier run left of an address.
func (r *Robot) recall(addr netip.Addr) (until time.Time, interval time.Duration) {
	s := r.restraints.Get(addressKey(addr))
	return s.Until, s.Every
}

// crawlDelay is what the host's robots.txt files ask for, as far as they are known. The host's
// turn must be the caller's.
func (c *crawl) crawlDelay(h *host) (delay time.Duration) {
	if h == nil {
		return 0
	}
	for _, ru := range h.rules {
		if ru.Robots != nil {
			delay = max(delay, ru.CrawlDelay(c.cfg.UserAgent(Version)))
		}
	}
	return delay
}

// remember keeps, over a kill, what a run leaves for the next where that is more than the
// usual interval, which every start waits for anyway.
func (r *Robot) remember(host string, st polite.Standing, delay time.Duration) error {
	if err := r.restrain(addressKey(st.Slot), hoststate.Restraint{Until: st.Rest, Every: st.Interval}); err != nil {
		return err
	}
	return r.restrain(host, hoststate.Restraint{Until: st.Host, Every: delay})
}

func (r *Robot) restrain(name string, s hoststate.Restraint) error {
	if s.Every <= r.cfg.Interval {
		s.Every = 0
	}
	usual := s.Every == 0 && !s.Until.After(time.Now().Add(r.cfg.Interval))
	if usual && r.restraints.Get(name).Every == 0 {
		return nil
	}
	return r.restraints.Set(name, s)
}
