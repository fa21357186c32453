package revisit

import "math"

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
