package revisit

import (
	"math"
	"math/rand/v2"
	"testing"

	"sheaf/robotd/frontier"
)

// The reference knows how rates are spread over the pages and every single interval. It returns
// the expected logarithm of the rate given these, which has the least error possible.
func reference(intervals []float64, changed []bool, middle, width float64) float64 {
	const steps = 200
	logs, most := [steps]float64{}, math.Inf(-1)
	at := func(n int) float64 { return middle + width*(float64(n)/steps*10-5) }
	for n := range logs {
		rate := math.Exp(at(n))
		far := (at(n) - middle) / width
		logs[n] = -far * far / 2
		for k, t := range intervals {
			if changed[k] {
				logs[n] += math.Log(-math.Expm1(-rate * t))
			} else {
				logs[n] -= rate * t
			}
		}
		most = max(most, logs[n])
	}
	sum, mean := 0.0, 0.0
	for n := range logs {
		p := math.Exp(logs[n] - most)
		sum, mean = sum+p, mean+p*at(n)
	}
	return mean / sum
}

// Estimates of the rates of change are nearly as good as the best that the visits allow: of many
// pages that learn from each other, and of a page alone. Intervals are irregular. The error is the
// root of the mean square of the logarithm of estimate over truth.
func TestEstimatesAgainstTheBest(t *testing.T) {
	const middle, width, pages = -1.609, 1.5, 1500 // rates as in randomRates
	for _, visits := range []int{5, 15, 40} {
		rng := rand.New(rand.NewPCG(uint64(visits), 77))
		seen, rates := make([]frontier.Changes, pages), randomRates(rng, pages)
		best, old := 0.0, 0.0
		square := func(got, rate float64) float64 { d := got - math.Log(rate); return d * d / pages }
		for i, rate := range rates {
			intervals, changed := make([]float64, visits), make([]bool, visits)
			usual := math.Exp(0.7 * rng.NormFloat64())
			for k := range intervals {
				intervals[k] = usual * (0.3 + 1.4*rng.Float64())
				changed[k] = rng.Float64() < -math.Expm1(-rate*intervals[k])
				seen[i].Observe(intervals[k], changed[k])
			}
			best += square(reference(intervals, changed, middle, width), rate)
			r, _ := seen[i].Rate()
			old += square(math.Log(r), rate)
		}
		pooled, alone := 0.0, 0.0
		for i, got := range frontier.EstimateRates(seen) {
			pooled += square(math.Log(got), rates[i])
			alone += square(math.Log(frontier.EstimateRates(seen[i : i+1])[0]), rates[i])
		}
		ratio := func(x float64) float64 { return math.Sqrt(x / best) }
		t.Logf("%d visits: pooled %.3f, alone %.3f, by the formula %.3f of the best possible error %.3f", visits, ratio(pooled), ratio(alone), ratio(old), math.Sqrt(best))
		if ratio(pooled) > 1.10 || ratio(alone) > 1.4 {
			t.Errorf("%d visits: %.3f pooled and %.3f alone, want at most 1.10 and 1.4", visits, ratio(pooled), ratio(alone))
		}
	}
}
