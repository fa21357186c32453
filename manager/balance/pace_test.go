package balance_test

import (
	"math"
	"testing"

	"sheaf/manager/balance"
)

// A robot ends when its longest chain ends, or when its transfers or its bytes are through.
func TestWhatBindsARobot(t *testing.T) {
	work := []balance.Work{{Pages: 100, KB: 1000, MS: 50_000}, {Pages: 10, KB: 9000, MS: 450_000}}
	width := func(n float64) balance.Limit { return balance.Limit{Most: n, Binds: true} }
	for _, want := range []struct {
		pace balance.Pace
		end  balance.End
	}{
		{balance.Pace{Gap: 20_000, Width: width(10)}, balance.End{MS: 2_050_000, Binds: balance.ByInterval, Item: 0}},
		{balance.Pace{Gap: 1000, Width: width(1)}, balance.End{MS: 500_000, Binds: balance.ByWidth, Item: 1}},
		{balance.Pace{Gap: 1000, Width: width(10), Line: width(10 << 10)}, balance.End{MS: 1_000_000, Binds: balance.ByLine, Item: 1}},
		{balance.Pace{Gap: 20_000, Width: width(10), Drift: 1.5}, balance.End{MS: 3_075_000, Binds: balance.ByInterval, Item: 0}},
	} {
		if got := want.pace.End(work); math.Abs(got.MS-want.end.MS) > 1 || got.Binds != want.end.Binds || got.Item != want.end.Item {
			t.Errorf("%+v ends %+v, want %+v", want.pace, got, want.end)
		}
	}
	if got := (balance.Pace{}).End(nil); got.MS != 0 || got.Binds != "" {
		t.Errorf("a robot without hosts ends %+v", got)
	}
}

// A night teaches which limit bound the robot.
func TestLearnFromANight(t *testing.T) {
	night := func(transfers, worked, gap float64, far func(n int) float64) balance.Seen {
		s := balance.Seen{Worked: worked, Transfers: transfers, Flow: 5000}
		for n := range 12 {
			ms := 100 * far(n) * 30
			s.Addresses = append(s.Addresses, balance.SeenAddress{Ended: 100*gap + ms, Pages: 100, KB: 3000, MS: ms})
		}
		return s
	}
	uneven := func(n int) float64 { return 10 * float64(1+n) }
	even := func(int) float64 { return 60 }
	const fleet = 20_000 // the least gap of other robots
	for name, want := range map[string]struct {
		seen  balance.Seen
		width bool
		line  bool
	}{
		"interval": {night(1.2, 2_360_000, 20_000, uneven), false, false},
		"width":    {night(2, 4_800_000, 44_000, uneven), true, false},
		"line":     {night(6, 4_800_000, 44_000, even), false, true},
	} {
		p := want.seen.Learn(balance.Pace{}, fleet)
		if p.Width.Binds != want.width || p.Line.Binds != want.line || math.Abs(p.Gap-fleet) > 200 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A host whose visits take longer than the night of all others together determines the bound, and
// robots that would be even slower with it do not get it.
func TestChainsAreABound(t *testing.T) {
	c := costsOf(t, [][]float64{{10, 10, 10, 10}, {10, 10, 10, 10}})
	chained, err := c.WithChains(func(i, j int) float64 {
		if j == 0 {
			return []float64{500, 100}[i]
		}
		return 1
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := balance.Replan(chained, balance.Plan{0, 0, 0, 1})
	if err != nil || got.Bound < 100 || got.Plan[0] != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if moved := got.Plan.Moved(balance.Plan{0, 0, 0, 1}); moved != 1 {
		t.Errorf("%d hosts moved, want only the one with the chain", moved)
	}
}

// A robot that is bound by the interval at one address ends sooner by a shorter one there, until
// its second longest chain or its width binds. Parts keep the interval together, so they save no
// more than their transfers.
func TestQuicker(t *testing.T) {
	p := balance.Pace{Gap: 2000, Width: balance.Limit{Most: 10, Binds: true}}
	large, small := balance.Work{Pages: 100, MS: 10_000}, balance.Work{Pages: 10, MS: 1000}
	half, parts := p.Quicker([]balance.Work{small, large}, 1)
	if half != 100*1000+10_000 || parts != 100*2000+5000 {
		t.Errorf("%v ms at half the interval, %v in parts", half, parts)
	}
	medium := balance.Work{Pages: 80, MS: 8000}
	if half, _ := p.Quicker([]balance.Work{medium, large}, 1); half != 80*2000+8000 {
		t.Errorf("%v ms beside another long chain", half)
	}
	set := balance.Work{Pages: 100, MS: 10_000, Set: 500}
	if ms := p.Chain(set); ms != 100*500+10_000 {
		t.Errorf("%v ms where an interval is set", ms)
	}
	if half, _ := p.Quicker([]balance.Work{set}, 0); half != 100*250+10_000 {
		t.Errorf("%v ms at half of what is set", half)
	}
	if w := set.Join(balance.Work{Pages: 1}); p.Chain(w) != 101*2000+10_000 {
		t.Errorf("%v ms beside a host for which nothing is set", p.Chain(w))
	}
	if w := set.Join(balance.Work{Pages: 1, Set: 3000}); p.Chain(w) != 101*3000+10_000 {
		t.Errorf("%v ms beside a host for which more is set", p.Chain(w))
	}
}
