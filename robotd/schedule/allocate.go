package schedule

import "math"

// Freshness is the share of time for which the copy of a page is the page, when the
// page changes rate times a day at random and is visited visits times a day at even
// intervals (Cho and Garcia-Molina, "Synchronizing a database to improve freshness", 2000).
func Freshness(rate, visits float64) float64 {
	switch {
	case rate <= 0:
		return 1
	case visits <= 0:
		return 0
	}
	r := rate / visits
	return -math.Expm1(-r) / r
}

// Allocate divides a budget of visits a day among pages by their change rates so that
// as many copies as possible are fresh: the last visit given to each page brings
// as much as that of any other. Pages that change faster than can be followed get
// none, and floor (visits a day) keeps even those from being lost; no page gets more
// than most, 0 being no bound. Rates of zero get the floor. The answer adds up to the budget, or to
// what the bounds allow.
func Allocate(rates []float64, budget, floor, most float64) []float64 {
	return allocate(rates, nil, budget, floor, most)
}

// allocate is Allocate for groups of pages that are alike, so many of each; nil is one of each.
func allocate(rates, many []float64, budget, floor, most float64) []float64 {
	if most <= 0 {
		most = math.Inf(1)
	}
	visits := make([]float64, len(rates))
	spend := func(price float64) float64 {
		total := 0.0
		for i, rate := range rates {
			visits[i] = min(max(bestVisits(rate, price), floor), most)
			if many == nil {
				total += visits[i]
			} else {
				total += many[i] * visits[i]
			}
		}
		return total
	}
	// The price is what the last visit must bring. It falls until the budget is spent.
	low, high := 0.0, 0.0
	for _, rate := range rates {
		if rate > 0 {
			high = max(high, 1/rate)
		}
	}
	if high == 0 || spend(high) >= budget {
		spend(max(high, 1)) // the floor alone
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

// bestVisits is how often to visit a page so that the last visit brings the price: the
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
		if r < 1e-4 { // 1−(1+r)e^−r loses its digits there
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

// AllocateBySquareRoot divides the budget by the square roots of the rates: a little
// staler, and with fewer visits to pages that have changed again by the next.
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
