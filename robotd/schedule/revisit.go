package schedule

import (
	"fmt"
	"math"
	"slices"
)

// Rule says by what known pages are chosen where not all of them can be visited.
type Rule string

// The rules.
const (
	Optimal    Rule = "optimal" // so that as many copies as possible are fresh
	SquareRoot Rule = "sqrt"    // by the square roots of the rates of change
	Paper      Rule = "paper"   // by NextVisits
	All        Rule = "all"     // every page, however long it takes
)

// Check tells whether there is such a rule.
func (r Rule) Check() error {
	if !slices.Contains([]Rule{Optimal, SquareRoot, Paper, All}, r) {
		return fmt.Errorf("%q is none of optimal, sqrt, paper, all", r)
	}
	return nil
}

// Page is what is known of a page when it is decided whether it is visited.
type Page struct {
	Changes
	Age   float64 // days since the last visit
	Times int     // visits a day by the paper's rule
}

// Urgency tells how much of the time between two visits to each page is over, where budget visits
// a day are to be divided among them all and each is visited once in a round, which takes so
// many days: those of the highest urgency are to be visited. No interval is longer
// than longest, in days.
func (r Rule) Urgency(pages []Page, budget, round, longest float64) []float64 {
	urgency := make([]float64, len(pages))
	if r == Paper {
		for i := range pages {
			urgency[i] = pages[i].Age * float64(max(pages[i].Times, 1))
		}
		return urgency
	}
	changes := make([]Changes, len(pages))
	for i := range pages {
		changes[i] = pages[i].Changes
	}
	rates := EstimateRates(changes)
	g := group(rates)
	floor, most := 1/longest, 1/round
	var visits []float64
	if r == SquareRoot {
		visits = g.bySquareRoot(budget)
		for i := range visits {
			visits[i] = min(max(visits[i], floor), most)
		}
	} else {
		visits = allocate(g.rates, g.many, budget, floor, most)
	}
	for i := range pages {
		urgency[i] = pages[i].Age * visits[g.of[i]]
	}
	return urgency
}

// groups are pages whose rates are nearly the same: a host may have a million, and what is
// computed for a rate takes long.
type groups struct {
	of          []int // the group of each page
	rates, many []float64
}

const (
	perOctave = 8    // groups; rates within one differ by 9 %
	slowest   = 1e-5 // changes a day; slower ones are alike
)

func group(rates []float64) groups {
	g := groups{of: make([]int, len(rates))}
	index := make(map[int]int)
	for i, rate := range rates {
		step := int(math.Round(perOctave * math.Log2(max(rate, slowest))))
		n, known := index[step]
		if !known {
			n = len(g.rates)
			index[step] = n
			g.rates, g.many = append(g.rates, math.Exp2(float64(step)/perOctave)), append(g.many, 0)
		}
		g.of[i] = n
		g.many[n]++
	}
	return g
}

func (g *groups) bySquareRoot(budget float64) []float64 {
	sum := 0.0
	for i, rate := range g.rates {
		sum += g.many[i] * math.Sqrt(rate)
	}
	visits := make([]float64, len(g.rates))
	for i, rate := range g.rates {
		visits[i] = budget * math.Sqrt(rate) / sum
	}
	return visits
}

// Share divides a capacity among those that want so many each: who wants less than an even share
// leaves the rest to the others. It returns what the largest may have.
func Share(wants []int, capacity float64) float64 {
	wants = slices.Clone(wants)
	slices.Sort(wants)
	for i, n := range wants {
		even := capacity / float64(len(wants)-i)
		if float64(n) > even {
			return even
		}
		capacity -= float64(n)
	}
	return math.Inf(1)
}
