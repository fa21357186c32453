package schedule

import "math"

// Freshness returns the share of time during which the copy of a page is up to date, if the page
// changes rate times a day at random and is visited visits times a day at even intervals (Cho and
// Garcia-Molina, "Synchronizing a database to improve freshness", 2000).
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

// Allocate divides a budget of visits a day among pages so that as many copies as possible are up
// to date: the last visit to each page gains as much as that of any other. rates are the pages'
// changes a day. Pages that change too fast to follow get no visits beyond floor, the least number
// of visits a day for any page. most is the limit for a page; 0 means none. Pages with rate 0 get
// floor. The visits add up to the budget, or to what the limits allow.
func Allocate(rates []float64, budget, floor, most float64) []float64 {
	return allocate(rates, nil, budget, floor, most)
}

// allocate is Allocate for groups of equal pages. many has the number of pages in each; nil means
// one.
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
	// price is what the last visit must gain. It falls until the budget is used up.
	low, high := 0.0, 0.0
	for _, rate := range rates {
		if rate > 0 {
			high = max(high, 1/rate)
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
