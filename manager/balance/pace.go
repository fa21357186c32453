package balance

import (
	"math"
	"slices"
)

// Limit is the most that a robot can do at once, such as its transfers.
type Limit struct {
	Most  float64 // what it can do; if Binds is false, the most that was seen
	Binds bool    // a night was limited by it
}

// Assumed returns what the robot is assumed to be able to do: twice the most that was seen, unless
// it has come to its limit.
func (l Limit) Assumed() float64 {
	if l.Binds {
		return l.Most
	}
	return 2 * l.Most
}

// Pace is what limits a robot's speed.
type Pace struct {
	Gap   float64 // ms between the end of a request and the next one at the same address; below 0: not known
	Width Limit   // transfers at once
	Line  Limit   // bytes a second
	Drift float64 // actual length of its nights as a multiple of the expected length; 0: not known
}

// drift returns Drift, or 1 if it is not known.
func (p Pace) drift() float64 {
	if p.Drift <= 0 {
		return 1
	}
	return p.Drift
}

// Work is what a robot has to do in a night for the hosts of one address.
type Work struct {
	Pages float64
	KB    float64
	MS    float64 // of transfer
	Gap   float64 // ms; replaces Pace.Gap if it is longer
	Set   float64 // ms; replaces Pace.Gap: the interval that was set for all hosts of the address; 0: none
}

// Join returns the sum of two works at one address. An interval that was set for only one of them
// holds if it is longer than the usual one.
func (w Work) Join(o Work) Work {
	sum := Work{Pages: w.Pages + o.Pages, KB: w.KB + o.KB, MS: w.MS + o.MS, Gap: max(w.Gap, o.Gap)}
	if longest := max(w.Set, o.Set); w.Set > 0 && o.Set > 0 {
		sum.Set = longest
	} else {
		sum.Gap = max(sum.Gap, longest)
	}
	return sum
}

// Chain returns the time in ms that the visits to one address take, one after the other. If the
// line is the limit, it assumes transfers at full speed: the measured transfers shared the line
// with others.
func (p Pace) Chain(w Work) float64 {
	ms := w.MS
	if p.Line.Binds {
		ms = min(ms, atLimit(w.KB*1024*1000, p.Line))
	}
	return (w.Pages*p.gap(w) + ms) * p.drift()
}

// gap returns the time in ms between two requests at the address of the work.
func (p Pace) gap(w Work) float64 {
	if w.Set > 0 {
		return max(w.Set, w.Gap)
	}
	return max(p.Gap, w.Gap, 0)
}

// Quicker returns two times in ms at which the robot would end if work[n], its longest chain, were
// shorter: at half the interval, and split into two parts for two robots. Together the two parts
// keep the interval.
func (p Pace) Quicker(work []Work, n int) (halfInterval, inParts float64) {
	w, all := work[n], slices.Clone(work)
	gap := p.gap(w)
	all[n] = Work{Pages: w.Pages, KB: w.KB, MS: w.MS, Set: gap / 2}
	halfInterval = p.End(all).MS
	all[n] = Work{Pages: w.Pages / 2, KB: w.KB / 2, MS: w.MS / 2, Set: 2 * gap}
	return halfInterval, p.End(all).MS
}

// Time returns by how many ms the work lengthens the night of a robot that is always busy: the time
// that the work takes at the robot's scarcer limit.
func (p Pace) Time(w Work) float64 {
	return max(atLimit(w.MS, p.Width), atLimit(w.KB*1024*1000, p.Line)) * p.drift()
}

// atLimit returns the time in ms that an amount takes at a limit. A limit about which nothing is
// known does not bind.
func atLimit(amount float64, l Limit) float64 {
	if most := l.Assumed(); most > 0 {
		return amount / most
	}
	return 0
}

// Bind names the limit that keeps a robot from ending sooner.
type Bind string

const (
	ByInterval Bind = "interval" // the intervals between the visits to one address
	ByWidth    Bind = "width"    // the number of transfers that the robot makes at once
	ByLine     Bind = "line"     // the bytes a second of its line
)

// End says when a robot ends, and why not sooner.
type End struct {
	MS    float64 // after it began to collect
	Binds Bind    // empty: it has nothing to do
	Item  int     // index of the work with the longest chain; -1: none
}

// End returns the end of the robot's night with this work: the end of its longest chain, of all
// transfers or of all bytes, whichever is last.
func (p Pace) End(work []Work) End {
	e := End{Item: -1}
	ms, kb, longest := 0.0, 0.0, 0.0
	for n, w := range work {
		if chain := p.Chain(w); chain >= longest {
			longest, e.Item = chain, n
		}
		ms, kb = ms+w.MS, kb+w.KB
	}
	e.MS, e.Binds = longest, ByInterval
	if t := atLimit(ms, p.Width) * p.drift(); t > e.MS {
		e.MS, e.Binds = t, ByWidth
	}
	if t := atLimit(kb*1024*1000, p.Line) * p.drift(); t > e.MS {
		e.MS, e.Binds = t, ByLine
	}
	if e.MS == 0 {
		e.Binds = ""
	}
	return e
}

// Seen is what a robot's heartbeats have shown of one cycle. Times are in ms of collecting.
type Seen struct {
	Worked    float64 // until it had nothing left, or until now
	Transfers float64 // highest mean of transfers at once since the beginning
	Flow      float64 // highest mean of bytes a second since the beginning
	Addresses []SeenAddress
}

// SeenAddress is what a robot's visits to one address have taken.
type SeenAddress struct {
	Began, Ended  float64
	Pages, KB, MS float64
	Set           bool // an interval was set for a host at it
}

// Add adds the visits to another host at the same address.
func (a *SeenAddress) Add(o SeenAddress) {
	a.Began, a.Ended = min(a.Began, o.Began), max(a.Ended, o.Ended)
	a.Pages, a.KB, a.MS, a.Set = a.Pages+o.Pages, a.KB+o.KB, a.MS+o.MS, a.Set || o.Set
}

// Gap returns the ms between the end of a request and the next one. This includes the time for
// which the address waited because all transfers of the robot were in use.
func (a SeenAddress) Gap() float64 {
	if a.Pages < 1 {
		return 0
	}
	return max(0, a.Ended-a.Began-a.MS) / a.Pages
}

// FewPages is the number of pages below which an address says nothing of the gap, because
// heartbeats tell times only roughly.
const FewPages = 5

// LeastGap returns the gap that all addresses keep at least, except the quickest tenth and those
// with an interval of their own. It returns +Inf if nothing is known.
func (s Seen) LeastGap() float64 {
	gaps := s.gaps(s.Worked / 4)
	if len(gaps) == 0 {
		gaps = s.gaps(0)
	}
	if len(gaps) == 0 {
		return math.Inf(1)
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/10]
}

// gaps returns the gaps at the addresses that were visited for at least the given ms.
func (s Seen) gaps(least float64) (gaps []float64) {
	for _, a := range s.Addresses {
		if !a.Set && a.Pages >= FewPages && a.Ended-a.Began >= least {
			gaps = append(gaps, a.Gap())
		}
	}
	return gaps
}

// Learn returns the robot's pace after a cycle. before is the pace that was known. gap is the least
// gap that any other robot was seen to keep, or +Inf. It is needed because a robot at the limit of
// its width or its line shows longer gaps: its addresses wait for their turns.
func (s Seen) Learn(before Pace, gap float64) Pace {
	p := before
	if busy := s.Busy(); !busy {
		gap = min(gap, s.LeastGap())
	}
	switch {
	case !math.IsInf(gap, 1):
		p.Gap = gap
	case before.Width.Most == 0:
		p.Gap = -1
	}
	longest := 0.0
	for _, a := range s.Addresses {
		gap := max(p.Gap, 0)
		if a.Set {
			gap = a.Gap()
		}
		longest = max(longest, a.Pages*gap+a.MS)
	}
	const clear = 1.1 // a night not longer than this multiple of its longest chain was limited by that chain
	bound := s.Worked > clear*longest && len(s.Addresses) > 1
	full := s.Transfers >= shared && s.alike()
	p.Width = p.Width.learn(s.Transfers, bound && !full)
	p.Line = p.Line.learn(s.Flow, full)
	p.Drift = s.drift(p)
	return p
}

const leastDrift, mostDrift = 0.8, 3.0

// drift returns the length of the night as a multiple of the length that the pace predicts for the
// robot's work, averaged with the nights before.
func (s Seen) drift(p Pace) float64 {
	before := p.Drift
	p.Drift = 0
	work := make([]Work, len(s.Addresses))
	for n, a := range s.Addresses {
		work[n] = Work{Pages: a.Pages, KB: a.KB, MS: a.MS}
		switch gap := a.Gap(); {
		case a.Set:
			work[n].Set = gap
		case !s.Busy() && a.Pages >= FewPages:
			work[n].Gap = gap
		}
	}
	end := p.End(work).MS
	if end <= 0 {
		return before
	}
	now := min(max(s.Worked/end, leastDrift), mostDrift)
	if before > 0 {
		now = math.Sqrt(before * now)
	}
	return now
}

// Busy reports whether the robot was at a limit of its own: it made about equally many transfers at
// once all the time, although fewer and fewer addresses were left. If about all addresses were left
// to the end, that says nothing, and a robot that was never without a transfer counts as busy.
func (s Seen) Busy() bool {
	if s.Worked <= 0 || s.Transfers <= 0 || len(s.Addresses) < 2 {
		return false
	}
	ms, active := 0.0, 0.0
	for _, a := range s.Addresses {
		ms, active = ms+a.MS, active+a.Ended-a.Began
	}
	steady := ms / s.Worked / s.Transfers
	left := active / s.Worked / float64(len(s.Addresses))
	const alone, most = 0.95, 0.85
	if left > most {
		return steady > most && s.Transfers > alone
	}
	return s.Transfers > alone && steady > (1+left)/2
}

// shared is the least number of transfers at once that may fill the line together.
const shared = 2

// learn returns the limit after a night in which seen was the highest value. binds says whether it
// limited that night.
func (l Limit) learn(seen float64, binds bool) Limit {
	switch {
	case binds:
		return Limit{seen, true}
	case seen > l.Most:
		return Limit{seen, l.Binds && seen < 1.1*l.Most}
	}
	return l
}

// alike reports whether all addresses had about the same distance. That is so if they share a full
// line: each transfer then gets the same part of it, however fast its server is.
func (s Seen) alike() bool {
	var far []float64
	for _, a := range s.Addresses {
		if a.KB > 0 && a.MS > 0 {
			far = append(far, math.Log(a.MS/a.KB))
		}
	}
	if len(far) < 4 {
		return false
	}
	slices.Sort(far)
	const spread = 0.35 // of the logarithms, between the first and third quartile
	return far[len(far)*3/4]-far[len(far)/4] < spread
}
