package polite

import "time"

// pace is the interval of one address. It follows how the server bears the visits
// (the adaptive interval that section 6.2 of the paper of 1999 asks for): down while
// answers come as quickly as ever, up when they slow down or fail.
type pace struct {
	interval time.Duration
	usual    time.Duration // until the answer's first byte, over many visits
	recent   time.Duration // the same, over the last few
	steady   int           // visits in a row that gave no reason to slow down
	troubled int           // visits in a row that met trouble
}

// Bounds of the pace. Steps up are larger than steps down, so that a server in trouble
// is relieved at once and is trusted again slowly.
const (
	steadyRuns = 8                     // before the interval is made shorter than the usual one
	streak     = 2                     // troubles in a row that are no accident
	slowFactor = 2                     // slower than this times the usual is slow
	slowSlack  = 50 * time.Millisecond // noise that says nothing of the server
)

// observe takes in how long an answer was waited for, and whether the server was in
// trouble: 429, 5xx, no answer. One trouble may be one page's; a streak is the server's.
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
	case wait <= 0: // nothing was asked of the server
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
		// The usual follows slowly upwards, or a server that is slowing down
		// would always look as usual.
		weight := time.Duration(64)
		if wait < p.usual {
			weight = 8
		}
		p.usual += (wait - p.usual) / weight
	}
	p.interval = min(max(p.interval, opt.minimum()), opt.maximum())
}

// current is the interval that holds now.
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
