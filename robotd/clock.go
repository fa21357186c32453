package robotd

import (
	"net/http"
	"sync"
	"time"

	"sheaf/internal/wire"
)

// clock measures how far this machine's clock is ahead of the manager's, by the Date
// of its answers. A Date tells whole seconds, so that one answer tells little; the
// bounds that several set overlap in a much smaller span (Marzullo and Owicki,
// "Maintaining the time in a distributed system", 1983).
type clock struct {
	mu       sync.Mutex // guards all below
	known    bool
	low, top time.Duration // the offset lies between them
	at       time.Time     // of the last answer
}

// drift is how far two clocks may part in a second: 100 ppm, five times a bad quartz's.
const drift = 10_000

// sample takes an answer to a request that was sent and answered at these times.
func (c *clock) sample(sent, got time.Time, h http.Header) {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil || h.Get("Age") != "" { // a cache's copy tells of an earlier time
		return
	}
	// The manager's clock showed a time in [date, date+1s) between the two.
	low, top := sent.Sub(date)-time.Second, got.Sub(date)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known {
		parted := got.Sub(c.at) / drift
		overlapLow, overlapTop := max(low, c.low-parted), min(top, c.top+parted)
		if overlapLow <= overlapTop { // else one of the clocks was set: only the new bounds hold
			low, top = overlapLow, overlapTop
		}
	}
	c.known, c.low, c.top, c.at = true, low, top, got
}

// measured returns what is known; nil: nothing.
func (c *clock) measured() *wire.Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return nil
	}
	return &wire.Clock{
		OffsetMS: ((c.low + c.top) / 2).Milliseconds(),
		ErrorMS:  ((c.top - c.low) / 2).Milliseconds() + 1,
	}
}
