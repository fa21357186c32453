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
