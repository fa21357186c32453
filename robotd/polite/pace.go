package polite

import (
	"net/netip"
	"time"
)

// pace is the interval of one address. It adapts to the server, as section 6.2 of the paper of 1999
// asks: it becomes shorter while answers are as fast as usual, and longer when they slow down or
// fail.
type pace struct {
	interval time.Duration
	usual    time.Duration // mean time to the answer's first byte, over many visits
	recent   time.Duration // the same over the last few visits
	steady   int           // successive visits without a reason to slow down
	troubled int           // successive visits with trouble
}

// Parameters of the pace. Steps up are larger than steps down: a server in trouble gets relief at
// once, and is trusted again slowly.
const (
	steadyRuns = 8                     // visits before the interval is made shorter than the usual one
	streak     = 2                     // successive troubles that are no accident
	slowFactor = 2                     // slower than this factor times the usual is slow
	slowSlack  = 50 * time.Millisecond // noise that says nothing about the server
)

// limits are what the interval of an address keeps within.
type limits struct {
	usual, min, max time.Duration
}

// limits returns what the interval at an address keeps within.
func (o *GateOptions) limits(addr netip.Addr) limits {
	l := limits{usual: o.Interval}
	if o.Set != nil {
		l.usual = o.Set(addr)
	}
	shortest := o.Min
	if o.Shortest != nil {
		shortest = o.Shortest(addr)
	}
	if l.min = l.usual; shortest > 0 {
		l.min = min(shortest, l.usual)
	}
	l.max = max(o.Max, l.usual)
	return l
}

// observe adds the time to an answer's first byte, and whether there was trouble: 429, 5xx or no
// answer. A single trouble may be due to one page; several in a row are due to the server.
func (p *pace) observe(l limits, wait time.Duration, trouble bool) {
	p.interval = p.current(l)
	switch {
	case trouble:
		p.steady = 0
		if p.troubled++; p.troubled >= streak {
			p.interval *= 2
		}
	case wait <= 0: // no request was sent
		return
	case p.usual == 0:
		p.usual, p.recent = wait, wait
	default:
		p.troubled = 0
		p.recent += (wait - p.recent) / 4
		p.steady++
		switch {
		case p.recent > slowFactor*p.usual+slowSlack:
			p.steady = 0
			p.interval += p.interval / 4
		case p.interval > l.usual:
			p.interval = max(p.interval-p.interval/4, l.usual)
		case p.steady >= steadyRuns:
			p.steady = 0
			p.interval -= p.interval / 5
		}
		// The usual time rises slowly; otherwise a server that slows down would always seem as
		// usual.
		weight := time.Duration(64)
		if wait < p.usual {
			weight = 8
		}
		p.usual += (wait - p.usual) / weight
	}
	p.interval = p.current(l)
}

// current returns the current interval.
func (p *pace) current(l limits) time.Duration {
	if p.interval == 0 {
		return l.usual
	}
	return min(max(p.interval, l.min), l.max)
}
