package polite

import "time"

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

// observe adds the time to an answer's first byte, and whether there was trouble: 429, 5xx or no
// answer. A single trouble may be due to one page; several in a row are due to the server.
func (p *pace) observe(opt *GateOptions, wait time.Duration, trouble bool) {
	if p.interval == 0 {
		p.interval = opt.Interval
	}
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
		case p.interval > opt.Interval:
			p.interval = max(p.interval-p.interval/4, opt.Interval)
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
	p.interval = min(max(p.interval, opt.minimum()), opt.maximum())
}

// current returns the current interval.
func (p *pace) current(opt *GateOptions) time.Duration {
	if p.interval == 0 {
		return opt.Interval
	}
	return p.interval
}

func (o *GateOptions) minimum() time.Duration {
	if o.Min <= 0 {
		return o.Interval
	}
	return min(o.Min, o.Interval)
}

func (o *GateOptions) maximum() time.Duration { return max(o.Max, o.Interval) }
