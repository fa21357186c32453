package balance

import "math"

// Demand is what is to be collected in one night.
type Demand struct {
	Pages     float64 // of all addresses
	KB        float64 // of a page
	MS        float64 // of a page's transfer, at the median robot
	Addresses []Work  // a sample that stands for all, with the transfers of the median robot; at least one
}

// Sort is a sort of robot that the fleet consists of. All sorts are thought equally frequent.
type Sort struct {
	Pace   Pace
	Slow   float64 // ms that it takes for what takes the median robot 1 ms
	Window float64 // ms of a night
}

// Need is what a demand needs.
type Need struct {
	Robots  int
	Nightly float64 // pages that a robot collects in a night, on the mean
	Binds   Bind    // what binds most of that: ByWidth or ByLine. More robots help against it

	// Some addresses are not through in a night, however many robots there are: the chain of their
	// visits is longer than that. These are shares of all addresses and of all pages.
	LongAddresses, LatePages float64

	Longest float64 // ms: the longest chain of the sample
	Fitting float64 // ms: the interval at which that chain would end with the night; 0: none is short enough
}

// Forecast returns how many robots a demand needs if they are of the given sorts, of which there is
// at least one. The work is thought to be shared out evenly, which a plan of many small hosts comes
// near.
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

// chains compares the chains of the addresses, at a robot of each sort, with its night.
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
