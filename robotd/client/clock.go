package client

import (
	"net/http"
	"sync"
	"time"

	"sheaf/internal/wire"
)

// clock measures how far this machine's clock is ahead of the manager's, by the Date of the
// answers. A Date has whole seconds, so each answer gives only an interval for the offset. The
// intervals of several answers overlap in a much smaller one (Marzullo and Owicki, "Maintaining the
// time in a distributed system", 1983).
type clock struct {
	mu       sync.Mutex // guards all below
	known    bool
	low, top time.Duration // the offset lies between them
	at       time.Time     // of the last answer
}

// drift bounds the drift of two clocks: one second in this many. That is 100 ppm, five times the
// drift of a bad quartz.
const drift = 10_000

// sample takes in the header of an answer. sent is the time of the request, and got that of the
// answer.
func (c *clock) sample(sent, got time.Time, h http.Header) {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil || h.Get("Age") != "" { // a cache's copy has the Date of an earlier time
		return
	}
	// The manager's clock showed a time in [date, date+1s) between the two.
	low, top := sent.Sub(date)-time.Second, got.Sub(date)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known {
		parted := got.Sub(c.at) / drift
		overlapLow, overlapTop := max(low, c.low-parted), min(top, c.top+parted)
		if overlapLow <= overlapTop { // else one of the clocks was set, and only the new bounds hold
			low, top = overlapLow, overlapTop
		}
	}
	c.known, c.low, c.top, c.at = true, low, top, got
}

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
