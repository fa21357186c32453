package balance_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"sheaf/manager/balance"
)

// A fleet of as many robots as the forecast says ends in the night, and one with a tenth less does
// not. The fleet is simulated: its robots differ in width, line and speed, and get the hosts one by
// one, each the robot that ends first.
func TestForecastAgainstASimulatedFleet(t *testing.T) {
	const hours, hosts = 6 * 3600e3, 60_000
	rng := rand.New(rand.NewPCG(3, 4))
	limit := func(n float64) balance.Limit { return balance.Limit{Most: n, Binds: true} }
	for name, sorts := range map[string][]balance.Sort{
		"width": {
			{Pace: balance.Pace{Gap: 20_000, Width: limit(10)}, Slow: 1, Window: hours},
			{Pace: balance.Pace{Gap: 20_000, Width: limit(20), Drift: 1.2}, Slow: 1.6, Window: hours},
		},
		"line": {{Pace: balance.Pace{Gap: 20_000, Width: limit(1000), Line: limit(300 << 10)}, Slow: 1, Window: hours}},
	} {
		t.Run(name, func(t *testing.T) {
			var d balance.Demand
			for range hosts {
				w := balance.Work{Pages: 1 + rng.ExpFloat64()*50}
				w.KB, w.MS = 30*w.Pages, 900*w.Pages
				d.Addresses, d.Pages = append(d.Addresses, w), d.Pages+w.Pages
			}
			d.KB, d.MS = 30, 900
			need := balance.Forecast(d, sorts)
			if string(need.Binds) != name || need.LongAddresses > 0 {
				t.Errorf("%+v, want robots bound by %s and no long address", need, name)
			}
			if end := lastEnd(d, sorts, need.Robots); end > hours*1.02 {
				t.Errorf("%d robots end after %.2f nights", need.Robots, end/hours)
			}
			if end := lastEnd(d, sorts, need.Robots*9/10); end < hours {
				t.Errorf("%d robots would be enough: %d are forecast", need.Robots*9/10, need.Robots)
			}
		})
	}
}

// lastEnd returns when the last of n robots ends, in ms.
func lastEnd(d balance.Demand, sorts []balance.Sort, n int) (last float64) {
	work, ends := make([][]balance.Work, n), make([]float64, n)
	for _, w := range d.Addresses {
		first, end := 0, math.Inf(1)
		for i := range ends {
			s := sorts[i%len(sorts)]
			own := w
			own.MS *= s.Slow
			if e := ends[i] + s.Pace.Time(own); e < end {
				first, end = i, e
			}
		}
		w.MS *= sorts[first%len(sorts)].Slow
		work[first], ends[first] = append(work[first], w), end
	}
	for i, list := range work {
		last = max(last, sorts[i%len(sorts)].Pace.End(list).MS)
	}
	return last
}

// What a large host has beyond its night stays, with any number of robots, until its interval is
// shorter.
func TestForecastOfLargeHosts(t *testing.T) {
	pace := balance.Pace{Gap: 20_000, Width: balance.Limit{Most: 100, Binds: true}}
	d := balance.Demand{Pages: 2300, KB: 10, MS: 1000, Addresses: []balance.Work{{Pages: 300, KB: 3000, MS: 300_000}, {Pages: 2000, KB: 20_000, MS: 2_000_000}}}
	night := 6 * 3600e3
	need := balance.Forecast(d, []balance.Sort{{Pace: pace, Slow: 1, Window: night}})
	if need.Robots != 1 || need.LongAddresses != 0.5 || need.Longest != 42_000_000 || need.Fitting != 9800 {
		t.Errorf("%+v", need)
	}
	late := 2000 * (1 - night/42e6) / 2300
	if math.Abs(need.LatePages-late) > 1e-9 {
		t.Errorf("%.4f of the pages are late, want %.4f", need.LatePages, late)
	}
	pace.Gap = need.Fitting
	if need = balance.Forecast(d, []balance.Sort{{Pace: pace, Slow: 1, Window: night}}); need.LongAddresses != 0 || need.Longest != night {
		t.Errorf("at an interval of %.0f ms: %+v", pace.Gap, need)
	}
}
