package balance_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"sheaf/manager/balance"
)

func TestDistanceOfPairsNobodyMeasured(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	robot, host := make([]float64, 8), make([]float64, 300)
	for i := range robot {
		robot[i] = math.Exp(0.7 * r.NormFloat64())
	}
	for j := range host {
		host[j] = math.Exp(r.NormFloat64())
	}
	var seen []balance.Measured
	known := map[balance.Pair]bool{}
	for j := range host {
		for range 2 {
			i := r.IntN(len(robot))
			ms := robot[i] * host[j] * math.Exp(0.2*r.NormFloat64())
			if r.IntN(25) == 0 {
				ms *= 10 // an outlier
			}
			seen = append(seen, balance.Measured{Robot: i, Host: j, MsPerKB: ms})
			known[balance.Pair{Robot: i, Host: j}] = true
		}
	}
	seen = append(seen, balance.Measured{Robot: 0, Host: 0, MsPerKB: 0}, balance.Measured{Robot: 0, Host: 0, MsPerKB: math.NaN()}) // of no use
	d, own := balance.Distance(len(robot), len(host), seen)
	within, n := 0, 0
	for i := range robot {
		for j := range host {
			if known[balance.Pair{Robot: i, Host: j}] {
				continue
			}
			n++
			if off := d(i, j) / (robot[i] * host[j]); off > 0.5 && off < 2 {
				within++
			}
		}
	}
	t.Logf("%d of %d pairs that nobody measured are estimated within a factor of 2", within, n)
	if own < 0.05 || own > 0.4 {
		t.Errorf("pairs are said to differ by %.2f, want about 0.2", own)
	}
	if within < n*9/10 {
		t.Errorf("%d of %d pairs within a factor of 2, want 9 of 10", within, n)
	}
}

func TestProbesAskWhereItWouldChangeThePlan(t *testing.T) {
	c := costsOf(t, [][]float64{{10, 10, 50}, {11, 500, 10}})
	r := balance.Optimal(c)
	known := func(i, _ int) bool { return i == 0 }
	got := balance.Probes(c, r, known, 4, 0, 0, 10)
	for _, p := range got {
		if known(p.Robot, p.Host) || p.Host == 1 {
			t.Errorf("asks to measure %v", p)
		}
	}
	if len(got) == 0 || len(balance.Probes(c, r, known, 4, 0, 0, 0)) != 0 || len(balance.Probes(c, r, known, 4, 1, 0, 10)) != 0 {
		t.Errorf("asks for %v", got)
	}
}

func TestGroupedGoTogether(t *testing.T) {
	address := func(j int) string { return string(rune('a' + j%7)) }
	of, members := balance.Groups(30, address)
	if len(members) != 7 || of[3] != of[10] || of[3] == of[4] {
		t.Fatalf("%d groups, %v", len(members), of)
	}
	for n, hosts := range members {
		for _, j := range hosts {
			if of[j] != n || address(j) != address(hosts[0]) {
				t.Errorf("host %d is in group %d, and of group %d", j, n, of[j])
			}
		}
	}
}

func TestSplitFitsTheWindow(t *testing.T) {
	cost := func(i, _ int) float64 { return []float64{100, 80}[i] }
	for _, want := range []struct {
		window float64
		most   int
		parts  int
	}{{90, 8, 1}, {50, 8, 2}, {10, 8, 2}, {10, 1, 1}, {0, 8, 1}} {
		if got := balance.Split(cost, 2, 0, want.window, want.most); got != want.parts {
			t.Errorf("window %v, at most %d: %d parts, want %d", want.window, want.most, got, want.parts)
		}
	}
}
