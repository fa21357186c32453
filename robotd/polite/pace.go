package polite

import (
	"math"
	"math/bits"
	"net/netip"
	"slices"
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

// waits has the times to the first byte of the last pages at an address, in a byte each.
type waits struct {
	scales []uint8 // see scale
	next   int     // place of the oldest, once there are mostWaits
}

// A page's answer is late if it took more than twice the median of the last pages, and few of the
// pages before took as long. So a site whose pages differ much, or come in sections, has hardly any
// late answers. A server that stays slow changes the median: once half of the pages that count were
// slow, a slow answer is the usual one.
const (
	mostWaits   = 512
	medianWaits = 32                    // last pages whose median counts
	leastWaits  = 8                     // before which no answer is late
	lateSlack   = 20 * time.Millisecond // an answer that is later only by this says nothing about the server
	fewPages    = 4                     // of many pages, a twentieth counts as few
	octave      = 16                    // steps of a scale in which a time doubles
)

// scale returns the logarithm of a time: 0 for a millisecond or less, 255 for a minute or more.
func scale(wait time.Duration) uint8 {
	return uint8(min(max(octave*math.Log2(float64(wait)/float64(time.Millisecond)), 0), math.MaxUint8))
}

// late reports whether an answer is late, compared with earlier answers.
func (w *waits) late(wait time.Duration) bool {
	n := len(w.scales)
	if n < leastWaits {
		return false
	}
	last := make([]uint8, 0, medianWaits)
	for i := range min(n, medianWaits) {
		last = append(last, w.scales[(w.next-1-i+2*n)%n])
	}
	slices.Sort(last)
	median, this := last[len(last)/2], scale(wait)
	if int(this) <= int(median)+octave || this <= scale(lateSlack+time.Duration(float64(time.Millisecond)*math.Exp2(float64(median)/octave))) {
		return false
	}
	asLate := 0
	for _, s := range w.scales {
		if s >= this {
			asLate++
		}
	}
	return asLate <= max(fewPages, n/20)
}

// add adds the time of an answer, in place of the oldest if there are mostWaits.
func (w *waits) add(wait time.Duration) {
	if len(w.scales) < mostWaits {
		w.scales = append(w.scales, scale(wait))
		return
	}
	w.scales[w.next] = scale(wait)
	w.next = (w.next + 1) % mostWaits
}
