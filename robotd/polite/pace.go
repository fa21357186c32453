package polite

import (
	"math/bits"
	"net/netip"
	"time"
)

// pace is the interval of one address. It adapts to the server, as section 6.2 of the paper of 1999
// asks: it becomes shorter while answers are as fast as usual, and longer when they slow down or
// fail.
type pace struct {
	interval time.Duration
	waits    waits
	late     uint8 // the last visits to pages, the newest in the lowest bit; 1: the answer was late
	steady   int   // successive visits without a reason to slow down
	troubled int   // successive visits with trouble
}

// Parameters of the pace. A server in trouble gets relief at once, and is trusted again slowly.
const (
	steadyRuns = 8    // visits before the interval is made shorter than the usual one
	streak     = 2    // successive troubles that are no accident
	recent     = 0x1f // the bits of late that count: five visits
	slow       = 3    // late answers among them show that the server has slowed down
	slowest    = 2    // times the usual interval, at most, while it is slow
)

// limits are the bounds of an address's interval.
type limits struct {
	usual, min, max time.Duration
}

// limits returns the bounds of the interval at an address.
func (o *GateOptions) limits(addr netip.Addr) limits {
	l := limits{usual: o.Interval, min: o.Min}
	if o.Addresses != nil {
		l.usual, l.min = o.Addresses.Interval(addr)
	}
	if l.min <= 0 || l.min > l.usual {
		l.min = l.usual
	}
	l.max = max(o.Max, l.usual)
	return l
}

// observe adds a visit. A single trouble may be due to one page; several in a row are due to the
// server. Only pages show how fast it is: a robots.txt or an image costs it less.
func (p *pace) observe(l limits, out Outcome) {
	p.interval = p.current(l)
	switch {
	case out.Trouble:
		p.steady = 0
		if p.troubled++; p.troubled >= streak {
			p.interval *= 2
		}
	case out.Wait <= 0: // no request was sent
		return
	default:
		p.troubled = 0
		p.steady++
		if out.Page {
			p.late <<= 1
			if p.waits.late(out.Wait) {
				p.late |= 1
			}
			p.waits.add(out.Wait)
		}
		switch {
		case bits.OnesCount8(p.late&recent) >= slow:
			p.steady = 0
			p.interval = max(p.interval, min(p.interval+l.usual/4, slowest*l.usual))
		case p.interval > l.usual:
			p.interval = max(p.interval-p.interval/4, l.usual)
		case p.steady >= steadyRuns:
			p.steady = 0
			p.interval -= p.interval / 5
		}
	}
	p.interval = p.current(l)
}

// recall takes over the interval that was saved, which may be newer: another robot may have had the
// address since. Only intervals above the usual one are saved.
func (p *pace) recall(l limits, saved time.Duration) {
	if saved > 0 || p.interval > l.usual {
		p.interval = saved
	}
}

// current returns the interval within the limits; the usual one if no visit has set it.
func (p *pace) current(l limits) time.Duration {
	if p.interval == 0 {
		return l.usual
	}
	return min(max(p.interval, l.min), l.max)
}
