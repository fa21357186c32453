package balance_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sheaf/manager/balance"
)

// tenNodes is the tree of the ten machines in paper 000.
var tenNodes = balance.Tree{{1, 2, 3}, {0, 4, 5}, {0, 6, 7}, {0, 8, 9}, {1}, {1}, {2}, {2}, {3}, {3}}

// ship carries out the ships and returns the sum of load times hops.
func ship(t *testing.T, ships []balance.Ship, loads []float64) (hops float64) {
	t.Helper()
	for _, s := range ships {
		if loads[s.From] < s.Load-1e-6 {
			t.Fatalf("robot %d ships %v of %v", s.From, s.Load, loads[s.From])
		}
		loads[s.From] -= s.Load
		loads[s.To] += s.Load
		hops += s.Load
	}
	return hops
}

func TestShippingIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		loads, rates := make([]float64, 10), make([]float64, 10)
		total, speed := 0.0, 0.0
		for i := range loads {
			loads[i], rates[i] = float64(r.IntN(50_000)), 0.5+r.Float64()
			if r.IntN(3) == 0 {
				loads[i] = 0
			}
			total += loads[i]
			speed += rates[i]
		}
		ship(t, balance.Shipping(tenNodes, loads, rates), loads)
		for i := range loads {
			if want := total * rates[i] / speed; math.Abs(loads[i]-want) > 1e-6*total {
				t.Errorf("robot %d has %v, its due is %v", i, loads[i], want)
			}
		}
	}
	if got := balance.Shipping(nil, nil, nil); got != nil {
		t.Errorf("no robots ship %v", got)
	}
}

// run lets ten robots find and collect URLs for 90 minutes, and levels when fire says so. It
// returns the mean over time of the loads' standard deviation, and the number of URLs in all.
func run(t *testing.T, grow func(r *rand.Rand, minute int, loads []float64), fire func(minute int, loads []float64) bool) (sd float64, fired int, hops, total float64) {
	r := rand.New(rand.NewPCG(3, 5))
	loads := make([]float64, 10)
	for i := range loads {
		loads[i] = 20_000 + 10_000*r.Float64()
		total += loads[i]
	}
	for minute := range 90 {
		before := append([]float64(nil), loads...)
		grow(r, minute, loads)
		for i := range loads {
			total += max(0, loads[i]-before[i])
		}
		if fire != nil && fire(minute, loads) {
			fired++
			hops += ship(t, balance.Shipping(tenNodes, loads, nil), loads)
		}
		mean, sq := 0.0, 0.0
		for _, l := range loads {
			mean += l / 10
		}
		for _, l := range loads {
			sq += (l - mean) * (l - mean) / 10
		}
		sd += math.Sqrt(sq) / 90
	}
	return sd, fired, hops, total
}

// growth is the trigger of paper 000, 4.3: every five minutes it fires if a load has grown by
// 10,000 since the last time.
func growth() func(minute int, loads []float64) bool {
	last := make([]float64, 10)
	return func(minute int, loads []float64) bool {
		if minute%5 != 0 {
			return false
		}
		hot := false
		for i, l := range loads {
			hot = hot || minute > 0 && l-last[i] >= 10_000
		}
		copy(last, loads)
		return hot
	}
}

func ratio() func(minute int, loads []float64) bool {
	trigger, start := new(balance.Trigger), time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	return func(minute int, loads []float64) bool {
		return trigger.Fire(start.Add(time.Duration(minute)*time.Minute), loads, nil)
	}
}

func TestTriggerAgainstThePapers(t *testing.T) {
	for _, kind := range []struct {
		name  string
		grow  func(r *rand.Rand, minute int, loads []float64)
		reach float64 // of the paper's standard deviation
	}{
		{"normal", func(r *rand.Rand, _ int, loads []float64) {
			for i := range loads {
				loads[i] = max(0, loads[i]+float64(i)*400*r.Float64()-400)
			}
		}, 0.50},
		{"just under the threshold", func(_ *rand.Rand, _ int, loads []float64) {
			loads[4] += 9_900.0 / 5
		}, 0.15},
		{"bursts", func(r *rand.Rand, _ int, loads []float64) {
			for i := range loads {
				loads[i] = max(0, loads[i]-300)
			}
			if r.IntN(8) == 0 {
				loads[r.IntN(10)] += 15_000 + 30_000*r.Float64()
			}
		}, 1.05},
	} {
		paper, _, _, _ := run(t, kind.grow, growth())
		ours, fired, hops, total := run(t, kind.grow, ratio())
		t.Logf("%s: sd %.0f against the paper's %.0f (%.2f), fired %d times, %.2f URL-hops of the total", kind.name, ours, paper, ours/paper, fired, hops/total)
		if ours > kind.reach*paper || fired > 25 || hops > 1.5*total {
			t.Errorf("%s: sd %.2f of the paper's (want %.2f), fired %d times (want 25), %.2f URL-hops (want 1.5)", kind.name, ours/paper, kind.reach, fired, hops/total)
		}
	}
}

func TestTriggerIsArmedAgain(t *testing.T) {
	trigger, now := new(balance.Trigger), time.Now()
	uneven, even, between := []float64{30, 10}, []float64{20, 20}, []float64{23, 17}
	for n, step := range []struct {
		after time.Duration
		loads []float64
		want  bool
	}{
		{0, uneven, true}, {time.Minute, uneven, false}, {time.Minute, between, false}, {time.Minute, uneven, false},
		{time.Minute, even, false}, {time.Minute, uneven, true}, {5 * time.Minute, uneven, true},
	} {
		now = now.Add(step.after)
		if got := trigger.Fire(now, step.loads, nil); got != step.want {
			t.Errorf("step %d: fired %v, want %v", n, got, step.want)
		}
	}
}
