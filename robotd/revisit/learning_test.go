package revisit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/window"
	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
)

// simulated is a server whose speed depends on the hour: slow at noon for companies, in the evening
// for providers (paper 2000, 1), with noise for each day and each transfer.
type simulated struct {
	rng  *rand.Rand
	mean [24]float64
	day  float64
}

func newSimulated(seed uint64) *simulated {
	s := &simulated{rng: rand.New(rand.NewPCG(seed, 2000)), day: 1}
	base := 1e5 * math.Exp(s.rng.NormFloat64())
	peak := 13 + 2*s.rng.NormFloat64()
	if s.rng.IntN(2) == 0 {
		peak = 22.5 + 1.5*s.rng.NormFloat64()
	}
	depth, width := 0.2+0.4*s.rng.Float64(), 2+2*s.rng.Float64()
	for h := range s.mean {
		far := math.Abs(math.Remainder(float64(h)-peak, 24))
		s.mean[h] = base * (1 - depth*math.Exp(-far*far/(2*width*width))) * (1 + 0.03*s.rng.NormFloat64())
	}
	return s
}

func (s *simulated) nextDay() { s.day = math.Exp(0.1 * s.rng.NormFloat64()) }

func (s *simulated) speed(hour int) float64 {
	return s.mean[hour] * s.day * math.Exp(0.25*s.rng.NormFloat64())
}

// learned simulates servers for some weeks. It returns the speed in the chosen hours as a share of
// the speed in the best hours.
func learned(observe func(h *ServerHours, s *simulated), may func(int) bool) float64 {
	const servers, weeks = 150, 4
	got, best := 0.0, 0.0
	for seed := range uint64(servers) {
		s, h := newSimulated(seed), new(ServerHours)
		oracle := 0.0
		for hour, mean := range s.mean {
			if may == nil || may(hour) {
				oracle = max(oracle, mean)
			}
		}
		for day := range 7 * weeks {
			s.nextDay()
			observe(h, s)
			h.Forget()
			if day >= 7*weeks/2 {
				hours, _ := h.Spread(1, may)
				got += s.mean[hours[0]] / oracle
				best++
			}
		}
	}
	return got / best
}

// leastKnown returns the hour about which least is known, among those that may allows.
func leastKnown(h *ServerHours, may func(hour int) bool) (at int) {
	least := math.Inf(1)
	for hour := range 24 {
		if may != nil && !may(hour) {
			continue
		}
		known := 0.0
		for _, w := range h.weights(hour) {
			known += w
		}
		if known < least {
			least, at = known, hour
		}
	}
	return at
}

func TestHoursAgainstTheOracle(t *testing.T) {
	if share := learned(func(h *ServerHours, s *simulated) {
		for hour := range 24 {
			h.Observe(hour, s.speed(hour))
		}
	}, nil); share < 0.97 {
		t.Errorf("with every hour: %.4f of the oracle, want 0.97", share)
	} else {
		t.Logf("with every hour: %.4f of the oracle", share)
	}
	probes := func(may func(int) bool) func(h *ServerHours, s *simulated) {
		return func(h *ServerHours, s *simulated) {
			best, _ := h.Spread(1, may)
			h.Observe(best[0], s.speed(best[0]))
			other := leastKnown(h, may)
			h.Observe(other, s.speed(other))
		}
	}
	if share := learned(probes(nil), nil); share < 0.94 {
		t.Errorf("with two probes a day: %.4f of the oracle, want 0.94", share)
	} else {
		t.Logf("with two probes a day: %.4f of the oracle", share)
	}
	night := func(hour int) bool { return 2 <= hour && hour < 8 }
	if share := learned(probes(night), night); share < 0.94 {
		t.Errorf("with two probes a night: %.4f of the night's oracle, want 0.94", share)
	}
}

func TestSpread(t *testing.T) {
	var h ServerHours
	if hours, ok := h.Spread(3, nil); !ok || !slices.Equal(hours, []int{0, 8, 16}) {
		t.Errorf("knowing nothing: %v", hours)
	}
	for hour := range 24 {
		h.Observe(hour, map[bool]float64{true: 1000, false: 100}[hour%8 == 5])
	}
	if hours, _ := h.Spread(3, nil); !slices.Equal(hours, []int{5, 13, 21}) {
		t.Errorf("three visits: %v, want 5, 13, 21", hours)
	}
	if hours, _ := h.Spread(5, nil); len(hours) != 5 || !slices.Contains(hours, 5) && !slices.Contains(hours, 13) && !slices.Contains(hours, 21) {
		t.Errorf("five visits: %v", hours)
	}
	if hours, ok := h.Spread(1, func(hour int) bool { return hour == 3 }); !ok || !slices.Equal(hours, []int{3}) {
		t.Errorf("one hour allowed: %v", hours)
	}
	if _, ok := h.Spread(1, func(int) bool { return false }); ok {
		t.Error("an hour was found where none is allowed")
	}
	w, err := window.Parse("Mon-Fri 02:00-08:00; Sat,Sun 02:00-22:00 Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	monday := time.Date(2026, 11, 23, 12, 0, 0, 0, w.Location())
	may := Within(config.Plan{Window: w}, monday)
	for hour := range 24 {
		if want := 2 <= hour && hour < 8; may(hour) != want {
			t.Errorf("Monday %d:00: %t", hour, may(hour))
		}
	}
}

// The estimator is right where naive counting loses a third (rate × interval = 1).
func TestChangeRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, rate := range []float64{0.1, 0.5, 1, 1.5} {
		var naive, ours float64
		const pages = 3000
		for range pages {
			var c frontier.Changes
			for range 40 {
				days := 0.5 + rng.Float64() // irregular
				c.Observe(days, rng.Float64() < -math.Expm1(-rate*days))
			}
			r, _ := c.Rate()
			naive, ours = naive+float64(c.Changed)/(c.TimeKept+c.TimeMoved)/pages, ours+r/pages
		}
		t.Logf("rate %.1f: naive %.3f, estimated %.3f of the truth", rate, naive/rate, ours/rate)
		if ours/rate < 0.95 || ours/rate > 1.05 {
			t.Errorf("rate %v is estimated as %v", rate, ours)
		}
		if rate == 1 && (naive > 0.68 || naive < 0.58) {
			t.Errorf("naive counting gives %v, want about 0.63", naive)
		}
	}
	if _, ok := new(frontier.Changes).Rate(); ok {
		t.Error("a page that was never visited again has a rate")
	}
}

func TestPaperRule(t *testing.T) {
	for _, tt := range []struct{ n, hits, floor, want int }{
		{4, 1, 1, 3}, {4, 2, 1, 4}, {4, 3, 1, 4}, {4, 4, 1, 5}, {3, 1, 1, 2}, {3, 2, 1, 3}, {1, 1, 1, 2}, {1, 0, 1, 1}, {2, 0, 2, 2}, {0, 0, 0, 1},
	} {
		if got := frontier.NextVisits(tt.n, tt.hits, tt.floor); got != tt.want {
			t.Errorf("%d visits, %d hits, floor %d: %d, want %d", tt.n, tt.hits, tt.floor, got, tt.want)
		}
	}
}

func randomRates(rng *rand.Rand, n int) []float64 {
	rates := make([]float64, n)
	for i := range rates {
		rates[i] = 0.2 * math.Exp(1.5*rng.NormFloat64())
	}
	return rates
}

// freshness is the share of time during which the copy of a page is up to date.
func freshness(rate, visits float64) float64 {
	switch {
	case rate <= 0:
		return 1
	case visits <= 0:
		return 0
	}
	r := rate / visits
	return -math.Expm1(-r) / r
}

// single returns a group for each rate, with one page of weight 1.
func single(rates []float64) []Group {
	groups := make([]Group, len(rates))
	for i, rate := range rates {
		groups[i] = Group{Rate: rate, Weight: 1, Pages: 1}
	}
	return groups
}

func totalFreshness(rates, visits []float64) (f float64) {
	for i := range rates {
		f += freshness(rates[i], visits[i])
	}
	return f
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

// TestAllocateIsOptimal compares the allocation with another method: moving visits in small steps
// from the page where the last gains least to the page where one more gains most.
func TestAllocateIsOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 20 {
		groups := single(randomRates(rng, 40))
		for i := range groups {
			if n%2 == 1 {
				groups[i].Weight = math.Exp(rng.NormFloat64())
			}
		}
		fresh := func(visits []float64) (f float64) {
			for i, g := range groups {
				f += g.Weight * freshness(g.Rate, visits[i])
			}
			return f
		}
		budget := 40 * (0.1 + rng.Float64())
		got := Allocate(groups, budget, 0, 0)
		if math.Abs(sum(got)-budget) > 1e-6*budget {
			t.Fatalf("%v visits of %v are given out", sum(got), budget)
		}
		steps := 4000
		step := budget / float64(steps)
		greedy := make([]float64, len(groups))
		for range steps {
			best, gain := 0, -1.0
			for i, g := range groups {
				if more := g.Weight * (freshness(g.Rate, greedy[i]+step) - freshness(g.Rate, greedy[i])); more > gain {
					best, gain = i, more
				}
			}
			greedy[best] += step
		}
		ours, other := fresh(got), fresh(greedy)
		if ours < 0.999*other {
			t.Errorf("freshness %v, by small steps %v", ours, other)
		}
		if even := fresh(slices.Repeat([]float64{budget / 40}, 40)); ours < even {
			t.Errorf("freshness %v, with even visits %v", ours, even)
		}
	}
	if got := Allocate(single([]float64{1, 100, 0}), 2, 0.1, 1.5); got[1] < 0.1 || got[2] != 0.1 || got[0] > 1.5 {
		t.Errorf("bounds: %v", got)
	}
	if got := Allocate([]Group{{Rate: 1, Weight: 4, Pages: 1}, {Rate: 1, Weight: 1, Pages: 1}, {Rate: 1, Pages: 1}}, 2, 0, 0); got[0] <= got[1] || got[2] != 0 {
		t.Errorf("by weight: %v", got)
	}
	if got := AllocateBySquareRoot([]float64{1, 4}, 3); got[0] != 1 || got[1] != 2 {
		t.Errorf("by square root: %v", got)
	}
}

// A robot that knows nothing at first is nearly as fresh after 60 days as one that knows every
// rate.
func TestLearnedFreshness(t *testing.T) {
	testkit.Slow(t)
	rng := rand.New(rand.NewPCG(5, 6))
	const pages, days = 500, 60
	rates := randomRates(rng, pages)
	budget := 0.5 * pages
	seen := make([]frontier.Changes, pages)
	since := make([]float64, pages) // days since the last visit
	visits := slices.Repeat([]float64{budget / pages}, pages)
	for range days {
		for i := range pages {
			// A visit every 1/visits days, or several on one day if that is less than one.
			since[i]++
			for every := 1 / visits[i]; since[i] >= every; since[i] -= every {
				seen[i].Observe(every, rng.Float64() < -math.Expm1(-rates[i]*every))
			}
		}
		visits = Allocate(single(frontier.EstimateRates(seen)), budget, 1.0/30, 0)
	}
	known := totalFreshness(rates, Allocate(single(rates), budget, 1.0/30, 0))
	got := totalFreshness(rates, visits)
	t.Logf("freshness %.4f learned, %.4f with known rates: %.4f", got/pages, known/pages, got/known)
	if got < 0.99*known {
		t.Errorf("learned freshness is %.4f of that with known rates, want 0.99", got/known)
	}
}
