// Package revisit decides which pages are visited again, and when.
//
// A Chooser decides which of a host's known pages a cycle visits. Learn learns from each visit how
// the page changes. Hours learns how fast the server is at each hour, and decides when a host's
// visit begins. Servers keeps that in a file.
//
// # Watched pages and orders
//
// Pages has the pages that consumers watch (paper 004). Orders has the hosts whose visit an
// operator has ordered. Both are visited between and within cycles, before all other pages.
package revisit

import (
	"math"
	"slices"

	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
)

// Page is what is known about a page when the choice is made.
type Page struct {
	frontier.Changes
	Age   float64 // days since the last visit
	Times int     // visits a day by NextVisits
	Depth int     // links from a seed
	Links int     // to a page that was never visited, about
}

// Importance ranks pages that were never visited: by the links to them, as Cho, Garcia-Molina and
// Page do ("Efficient Crawling Through URL Ordering", WWW7, 1998), and by how near the start of
// their host they are, since a visit in breadth finds important pages early (Najork and Wiener,
// "Breadth-First Search Crawling Yields High-Quality Pages", WWW10, 2001).
func (p *Page) Importance() float64 { return float64(1+p.Links) / float64(1+max(p.Depth, 0)) }

// weight returns how much an up-to-date copy of the page counts. Pages near the start of a host
// lead to more of its pages, and are the ones that most readers ask for.
func (p *Page) weight() float64 { return 1 / float64(1+min(max(p.Depth, 0), deepest)) }

// deepest is the depth beyond which pages count the same.
const deepest = 3

// Urgency returns, for each page, the time since its last visit as a share of the interval that the
// rule gives it. The pages with the highest urgency should be visited. budget is the visits a day
// for all pages; round is the length of a cycle in days, in which each page is visited at most
// once; longest is the longest interval, in days.
func Urgency(r config.Rule, pages []Page, budget, round, longest float64) []float64 {
	urgency := make([]float64, len(pages))
	if r == config.Paper {
		for i := range pages {
			urgency[i] = pages[i].Age * float64(max(pages[i].Times, 1))
		}
		return urgency
	}
	changes := make([]frontier.Changes, len(pages))
	for i := range pages {
		changes[i] = pages[i].Changes
	}
	rates, floor, most := frontier.EstimateRates(changes), 1/longest, 1/round
	if r == config.SquareRoot {
		for i, n := range AllocateBySquareRoot(rates, budget) {
			urgency[i] = pages[i].Age * min(max(n, floor), most)
		}
		return urgency
	}
	g := group(pages, rates)
	visits := Allocate(g.list, budget, floor, most)
	for i := range pages {
		urgency[i] = pages[i].Age * visits[g.of[i]]
	}
	return urgency
}

// groups are pages with nearly equal rates and equal weights. A host may have a million pages, and
// the computation for each rate is slow.
type groups struct {
	of   []int // group of each page
	list []Group
}

const (
	perOctave = 8    // groups; the rates in one differ by 9 %
	slowest   = 1e-5 // changes a day; slower pages are in one group
)

func group(pages []Page, rates []float64) groups {
	type key struct {
		step   int
		weight float64
	}
	g := groups{of: make([]int, len(rates))}
	index := make(map[key]int)
	for i, rate := range rates {
		k := key{int(math.Round(perOctave * math.Log2(max(rate, slowest)))), pages[i].weight()}
		n, known := index[k]
		if !known {
			n = len(g.list)
			index[k] = n
			g.list = append(g.list, Group{Rate: math.Exp2(float64(k.step) / perOctave), Weight: k.weight})
		}
		g.of[i] = n
		g.list[n].Pages++
	}
	return g
}

// Share divides a capacity among users that want the given amounts. Users that want less than an
// even share leave the rest to the others. It returns the most that any user may get: infinity if
// all get what they want.
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

// Group is a number of pages that change equally often and count equally.
type Group struct {
	Rate   float64 // changes a day
	Weight float64 // how much an up-to-date copy of such a page counts
	Pages  float64
}

// Allocate divides a budget of visits a day among pages so that the up-to-date copies count as much
// as possible: then the last visit to one page gains as much as the last visit to any other page. A
// page that changes Rate times a day at random and is visited f times a day at even intervals is up
// to date for the share (1−e^−r)/r of the time, with r = Rate/f (Cho and Garcia-Molina,
// "Synchronizing a database to improve freshness", 2000). Allocate returns the visits a day to one
// page of each group. Pages that change too fast to follow get no visits beyond floor, the least
// number of visits a day for any page. most is the limit for a page; 0 means none. Pages with rate
// 0 get floor. The visits add up to the budget, or to what the limits allow.
func Allocate(groups []Group, budget, floor, most float64) []float64 {
	if most <= 0 {
		most = math.Inf(1)
	}
	visits := make([]float64, len(groups))
	spend := func(price float64) float64 {
		total := 0.0
		for i, g := range groups {
			visits[i] = floor
			if g.Weight > 0 {
				visits[i] = min(max(bestVisits(g.Rate, price/g.Weight), floor), most)
			}
			total += g.Pages * visits[i]
		}
		return total
	}
	// price is what the last visit must gain. It falls until the budget is used up.
	low, high := 0.0, 0.0
	for _, g := range groups {
		if g.Rate > 0 {
			high = max(high, g.Weight/g.Rate)
		}
	}
	if high == 0 || spend(high) >= budget {
		spend(max(high, 1)) // only the floor
		return visits
	}
	for range 60 {
		price := (low + high) / 2
		if spend(price) > budget {
			low = price
		} else {
			high = price
		}
	}
	spend(high)
	return visits
}

// bestVisits returns the number of visits a day at which the last visit gains the price: the
// solution f of (1−(1+r)e^−r)/rate = price with r = rate/f.
func bestVisits(rate, price float64) float64 {
	want := price * rate
	if rate <= 0 || want >= 1 {
		return 0
	}
	if want <= 0 {
		return math.Inf(1)
	}
	low, high := 0.0, 1.0
	gain := func(r float64) float64 {
		if r < 1e-4 { // 1−(1+r)e^−r loses precision there
			return r*r/2 - r*r*r/3
		}
		return 1 - (1+r)*math.Exp(-r)
	}
	for gain(high) < want {
		high *= 2
	}
	for range 45 {
		if r := (low + high) / 2; gain(r) < want {
			low = r
		} else {
			high = r
		}
	}
	return rate / high
}

// AllocateBySquareRoot divides the budget in proportion to the square roots of the rates. Copies
// are slightly less fresh, but fewer visits go to pages that have changed again by the next visit.
func AllocateBySquareRoot(rates []float64, budget float64) []float64 {
	visits := make([]float64, len(rates))
	sum := 0.0
	for _, rate := range rates {
		sum += math.Sqrt(max(rate, 0))
	}
	for i, rate := range rates {
		if sum > 0 {
			visits[i] = budget * math.Sqrt(max(rate, 0)) / sum
		}
	}
	return visits
}
