package balance

import "math"

// Demand is what is to be collected in one night.
type Demand struct {
	Pages     float64 // of all addresses
	KB        float64 // of a page
	MS        float64 // of a page's transfer, at the median robot
	Addresses []Work  // a sample of all addresses, with the transfer times of the median robot; at least one
}

// Sort is one sort of robot in the fleet. All sorts count as equally frequent.
type Sort struct {
	Pace   Pace
	Slow   float64 // ms that it takes where the median robot takes 1 ms
	Window float64 // length of a night, in ms
}

// Need is the fleet that a demand needs.
type Need struct {
	Robots  int
	Nightly float64 // pages that a robot collects in a night, on average
	Binds   Bind    // the limit of most of these pages: ByWidth or ByLine. More robots help against it

	// However many robots there are, some addresses are not through in a night, because the chain
	// of their visits takes longer. LongAddresses is their part of all addresses. LatePages is the
	// part of all pages that come after the night's end.
	LongAddresses, LatePages float64

	Longest float64 // the longest chain of the sample, in ms
	Fitting float64 // the interval, in ms, at which that chain would end with the night; 0: none is short enough
}

// Forecast returns how many robots a demand needs. There must be at least one sort. It assumes that
// the work is shared out evenly. A plan of many small hosts comes near that.
func Forecast(d Demand, sorts []Sort) Need {
	var n Need
	bound := map[Bind]float64{}
	for _, s := range sorts {
		page := Work{Pages: 1, KB: d.KB, MS: d.MS * s.Slow}
		if ms := s.Pace.Time(page); ms > 0 {
			pages := s.Window / ms
			n.Nightly += pages / float64(len(sorts))
			binds := ByWidth
			if atLimit(page.KB*1024*1000, s.Pace.Line) > atLimit(page.MS, s.Pace.Width) {
				binds = ByLine
			}
			bound[binds] += pages
		}
	}
	if n.Binds = ByWidth; bound[ByLine] > bound[ByWidth] {
		n.Binds = ByLine
	}
	if n.Nightly > 0 {
		n.Robots = max(1, int(math.Ceil(d.Pages/n.Nightly)))
	}
	n.chains(d.Addresses, sorts)
	return n
}

// chains compares each address's chain, at a robot of each sort, with this robot's night.
func (n *Need) chains(addresses []Work, sorts []Sort) {
	var pages, late, long float64
	for _, w := range addresses {
		for _, s := range sorts {
			w := w
			w.MS *= s.Slow
			chain := s.Pace.Chain(w)
			pages += w.Pages
			if chain > s.Window {
				long++
				late += w.Pages * (1 - s.Window/chain)
			}
			if chain > n.Longest {
				n.Longest = chain
				transfers := s.Pace.Chain(Work{KB: w.KB, MS: w.MS})
				n.Fitting = max(0, (s.Window-transfers)/(w.Pages*s.Pace.drift()))
			}
		}
	}
	n.LongAddresses = long / float64(len(addresses)*len(sorts))
	if pages > 0 {
		n.LatePages = late / pages
	}
}
