package main

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/manager/balance"
)

// flows computes the example of Figure 10 of paper 001: six robots level once.
func flows(testing.TB) []row {
	tree := balance.Tree{{2}, {2}, {0, 1, 3}, {2, 4, 5}, {3}, {3}}
	cost := []float64{10, 10, 6, 4, 12, 8}
	after := slices.Clone(cost)
	for u, out := range balance.Flows(tree, cost) {
		for _, flow := range out {
			after[u] -= flow
		}
	}
	return []row{{"001", "Fig. 10", "costs after one round", "8 8 8 10.5 8 7.5", fmt.Sprint(after), ""}}
}

// alone is Table 2 of paper 001: the ms in which each of seven robots collects 103 hosts alone.
var alone = []float64{604516, 1641665, 2413969, 807949, 1823025, 600810, 798720}

const (
	paperHosts  = 103
	paperRounds = 20
	instances   = 11
)

// paperCosts draws the cost of each host at each robot, so that the robots' sums are those of Table
// 2. The spread of sizes and distances is that of the paper's random assignment: its dearest robot
// has about 15 times the cost of its cheapest.
func paperCosts(t testing.TB, seed uint64) *balance.Costs {
	random := rand.New(rand.NewPCG(seed, 1999))
	ms := make([][]float64, len(alone))
	size := make([]float64, paperHosts)
	for j := range size {
		size[j] = math.Exp(1.2 * random.NormFloat64())
	}
	for i := range ms {
		sum := 0.0
		for j := range size {
			ms[i] = append(ms[i], size[j]*math.Exp(0.8*random.NormFloat64()))
			sum += ms[i][j]
		}
		for j := range ms[i] {
			ms[i][j] *= alone[i] / sum
		}
	}
	costs, err := balance.Matrix(ms)
	testkit.Must(t, err)
	return costs
}

// levelling deals the hosts at random, levels them as the paper does, and plans them as Sheaf does.
func levelling(t testing.TB) []row {
	var dealtLow, dealtHigh, lowest, highest, settled, ours, bound []float64
	for seed := range uint64(instances) {
		costs := paperCosts(t, seed)
		tree := balance.Prim(balance.Distances(costs))
		dealt, err := balance.Paper(costs, tree, nil, 0)
		testkit.Must(t, err)
		loads := dealt.Plan.Loads(costs)
		dealtLow, dealtHigh = append(dealtLow, slices.Min(loads)), append(dealtHigh, slices.Max(loads))
		plan := dealt.Plan
		ends := make([]float64, paperRounds)
		for n := range ends {
			plan = balance.Level(costs, tree, plan)
			ends[n] = plan.Makespan(costs)
		}
		loads = plan.Loads(costs)
		lowest, highest = append(lowest, slices.Min(loads)), append(highest, slices.Max(loads))
		round := paperRounds
		for round > 1 && ends[round-2] <= 1.1*ends[paperRounds-1] {
			round--
		}
		settled = append(settled, float64(round))
		best := balance.Optimal(costs)
		ours, bound = append(ours, best.Makespan), append(bound, best.Makespan/best.Bound)
	}
	drawn := fmt.Sprintf("costs of single hosts are drawn, with the sums of T2; medians of %d draws", instances)
	speedup := func(ms float64) string {
		return fmt.Sprintf("%.2g–%.2g ×", slices.Min(alone)/ms, slices.Max(alone)/ms)
	}
	return []row{
		{"001", "T2", "each robot alone, ms", "600,810–2,413,969", thousands(slices.Min(alone)) + "–" + thousands(slices.Max(alone)), "as drawn: the sums are the paper's"},
		{"001", "T3", "hosts dealt at random, ms of a robot", "54,636–797,352", thousands(median(dealtLow)) + "–" + thousands(median(dealtHigh)), drawn},
		{"001", "T4", "levelled by the paper's method, 20 rounds", "110,835–117,841", thousands(median(lowest)) + "–" + thousands(median(highest)), "the same; the paper's method as far as it is described"},
		{"001", "Fig. 18", "rounds until within a tenth of the end", "about 5", fmt.Sprintf("%.0f", median(settled)), "the same"},
		{"001", "T4", "the plan of Sheaf, ms of the last robot", "", fmt.Sprintf("%s, %.3f × the bound", thousands(median(ours)), median(bound)), "the same costs, all known"},
		{"001", "4.4", "quicker than alone, random", "0.76–3.0 ×", speedup(median(dealtHigh)), "the same; predicted, as in the paper"},
		{"001", "4.4", "quicker than alone, levelled", "5.1–20.5 ×", speedup(median(highest)), "the same"},
		{"001", "4.4", "quicker than alone, the plan of Sheaf", "", speedup(median(ours)), "the same"},
	}
}

const (
	machines   = 8
	webSites   = 110_000 // of uk-2007-05, which paper 003 crawled
	webAddress = 4       // sites of an address, in the mean
)

// imbalance divides the URLs of a drawn web among eight machines in four ways, as Figures 11 and 12
// of paper 003 do in two ways.
func imbalance(t testing.TB) []row {
	random := rand.New(rand.NewPCG(3, 2007))
	var byURL, bySite, byAddress, sites [machines]float64
	address := make([]float64, webSites/webAddress)
	for site := range webSites {
		name := "s" + strconv.Itoa(site)
		pages := int(min(10_000, 8/math.Pow(1-random.Float64(), 1/1.1))) // a heavy tail, as hosts have
		at := hash(name)
		sites[at]++
		bySite[at] += float64(pages)
		where := random.IntN(len(address))
		address[where] += float64(pages)
		byAddress[hash("a"+strconv.Itoa(where))] += float64(pages)
		for n := range pages {
			byURL[hash(name+"/"+strconv.Itoa(n))]++
		}
	}
	costs, err := balance.NewCosts(machines, len(address), func(_, j int) float64 { return address[j] })
	testkit.Must(t, err)
	planned := balance.Optimal(costs).Plan.Loads(costs)
	drawn := "a web of 110,000 sites with drawn sizes; the share that the machine with least has less than that with most"
	return []row{
		{"003", "Fig. 11", "URLs by hash of the URL", "0.30 %", unlike(byURL[:]), drawn},
		{"003", "Fig. 11", "sites by hash of the site", "3.0 %", unlike(sites[:]), "the same"},
		{"003", "Fig. 12", "URLs by hash of the site", "12.4 %", unlike(bySite[:]), "the same"},
		{"003", "", "URLs by hash of the address", "", unlike(byAddress[:]), "the same; four sites to an address"},
		{"003", "", "URLs by the plan of Sheaf, whole addresses", "", unlike(planned), "the same; robots of one speed"},
	}
}

// hash returns a machine by the hash of a text.
func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	sum := h.Sum64()
	sum = (sum ^ sum>>30) * 0xbf58476d1ce4e5b9 // else the texts, which are alike, would be dealt too evenly
	return (sum ^ sum>>31) % machines
}

func unlike(loads []float64) string {
	return fmt.Sprintf("%.2g %%", 100*(1-slices.Min(loads)/slices.Max(loads)))
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// thousands formats a number as the papers do.
func thousands(n float64) string {
	text := strconv.Itoa(int(math.Round(n)))
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
