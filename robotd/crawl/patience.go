package crawl

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Bounds of the patience with a host that fails.
const (
	firstBackOff = 15            // intervals after a failure, doubled with each further one
	maxBackOff   = time.Hour     // at most
	giveUp       = 8             // successive failures, after which the host rests
	longRest     = 2 * time.Hour // a rest, at most
)

// backOff counts a failure and returns the time when the host may be tried again. status is zero if
// nothing answered; asked is the time of a Retry-After, or zero.
//
// A Retry-After is obeyed, until the host has failed too often. A server that only asks for fewer
// visits (429, 503) gets fewer and fewer until the next cycle is due. Any other host rests after
// many failures. It is tried again if the cycle still goes on then, but the cycle does not wait for
// it.
func (t *turn) backOff(status int, asked time.Time) time.Time {
	c, h := t.crawl, t.host
	h.rest.failures++
	failures := h.rest.failures
	longest, reason := maxBackOff, fmt.Sprintf("retry, %d failed", failures)
	often := failures >= giveUp
	if often {
		longest = longRest
	}
	wait := min(firstBackOff*c.parts.Settings.Interval<<min(failures-1, giveUp), longest)
	next := time.Now().Add(wait + time.Duration(rand.Int64N(int64(wait)/4+1)))
	if !asked.IsZero() && (!often || asked.After(next)) {
		next, reason = asked, "Retry-After"
	}
	if often && !(Overloaded(status) && next.Before(c.hours.Round.Due)) {
		reason = fmt.Sprintf("rests, %d failed", failures)
		c.setResting(h, true)
	}
	h.rest.why.Store(&reason)
	return next
}
