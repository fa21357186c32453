package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
	"sheaf/robotd/revisit"
)

// load is how busy the network is in each hour of the day in Japan: highest from 21 to 23, lowest
// before dawn (after the curves of the Ministry of Internal Affairs and Communications, 2011 to
// 2017).
var load = [24]float64{0.80, 0.60, 0.40, 0.28, 0.22, 0.20, 0.24, 0.33, 0.42, 0.48, 0.52, 0.55, 0.60, 0.58, 0.56, 0.57, 0.60, 0.65, 0.72, 0.82, 0.90, 0.98, 1.00, 0.94}

// hours compares the speed at an hour that was learnt in a week with the speed at midnight, as
// Table 1 of paper 004 does.
func hours(testing.TB) []row {
	const servers, week = 9, 7
	random := rand.New(rand.NewPCG(4, 2000))
	anyHour := func(int) bool { return true }
	var learnt, midnight float64
	for range servers {
		base := 150_000 * math.Exp(0.5*random.NormFloat64())
		busy := random.Float64() // how much the server feels the load
		speed := func(hour int) float64 {
			return base / (1 + busy*load[hour]) * math.Exp(0.3*random.NormFloat64())
		}
		var known revisit.ServerHours
		for range week {
			for hour := range 24 {
				known.Observe(hour, speed(hour))
			}
			known.Forget()
		}
		best, _ := known.Spread(1, anyHour)
		for range week {
			learnt += speed(best[0]) / (servers * week)
			midnight += speed(0) / (servers * week)
		}
	}
	return []row{{"004", "T1", "bytes a second at the hour learnt, and at midnight", "139,380 and 125,679 (+10.9 %)",
		fmt.Sprintf("%s and %s (%+.1f %%)", thousands(learnt), thousands(midnight), 100*(learnt/midnight-1)),
		"nine servers with drawn speeds that follow the load of Japan's networks by the hour"}}
}

// kame says when the pages of www.kame.net were added (A), modified (M) and deleted (D), in seconds
// since 1970: facts from the history of the site's sources, without content.
//
//go:embed testdata/kame.tsv.gz
var kame []byte

// tracked is a page of the trace and what its visits have shown.
type tracked struct {
	changes []int // the days on which it changed; the first is the day on which it began
	last    int   // day of the last visit; -1: none
	revisit.Page
	daily frontier.Daily
}

// current reports whether the copy of the last visit is still current on a day.
func (p *tracked) current(day int) bool {
	return p.last >= 0 && !p.changed(p.last, day)
}

// changed reports whether the page changed after one day and until another.
func (p *tracked) changed(after, until int) bool {
	n, _ := slices.BinarySearch(p.changes, after+1)
	return n < len(p.changes) && p.changes[n] <= until
}

func (p *tracked) visit(day int) {
	if p.last >= 0 {
		changed := p.changed(p.last, day)
		p.Observe(float64(day-p.last), changed)
		p.daily.Observe(true, changed)
	}
	p.last, p.Times = day, p.daily.Times
}

// trace returns the pages that www.kame.net had in the first days of its history, with the days on
// which they changed.
func trace(t testing.TB, days int) []*tracked {
	r, err := gzip.NewReader(bytes.NewReader(kame))
	testkit.Must(t, err)
	var pages []*tracked
	byPath := map[string]*tracked{}
	first := 0
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		second, err := strconv.Atoi(fields[0])
		if err != nil || len(fields) != 3 { // the first line has the names of the columns
			continue
		}
		first = cmp.Or(first, second)
		day := (second - first) / 86400
		if day >= days || fields[1] == "D" {
			continue
		}
		p := byPath[fields[2]]
		if p == nil {
			p = &tracked{last: -1}
			byPath[fields[2]] = p
			pages = append(pages, p)
		}
		p.changes = append(p.changes, day)
	}
	for _, p := range pages {
		slices.Sort(p.changes)
	}
	testkit.Must(t, lines.Err())
	return pages
}

// staleness plays visits to the pages of a real site, each day to one page in thirty, by each
// policy.
func staleness(t testing.TB) []row {
	const days, from, longest = 1000, 100, 60
	var rows []row
	for _, policy := range []struct {
		name string
		rule config.Rule // "": in turn
	}{{"in turn", ""}, {"n−1, n, n+1 (2.2)", config.Paper}, {"square roots of the rates", config.SquareRoot}, {"as Sheaf does by default", config.Optimal}} {
		pages := trace(t, days)
		var stale, seen float64
		for day := range days {
			var there []*tracked
			for _, p := range pages {
				if p.changes[0] <= day {
					there = append(there, p)
				}
			}
			for _, p := range choose(there, day, policy.rule, longest) {
				p.visit(day)
			}
			if day < from {
				continue
			}
			for _, p := range there {
				seen++
				if !p.current(day) {
					stale++
				}
			}
		}
		rows = append(rows, row{"004", "2.2", "stale copies, visits " + policy.name, "", fmt.Sprintf("%.1f %%", 100*stale/seen),
			"the changes of www.kame.net, 2001 to 2003; a page in thirty is visited a day, each once at most"})
	}
	return rows
}

// choose returns the pages to visit on a day: new ones first, then by urgency.
func choose(pages []*tracked, day int, rule config.Rule, longest float64) []*tracked {
	budget := max(len(pages)/30, 1)
	known := make([]revisit.Page, len(pages))
	for i, p := range pages {
		p.Age = float64(day - p.last)
		known[i] = p.Page
	}
	var urgency []float64
	if rule != "" {
		urgency = revisit.Urgency(rule, known, float64(budget), 1, longest)
	}
	order := make([]int, len(pages))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if isNew := cmp.Compare(min(pages[a].last, 0), min(pages[b].last, 0)); isNew != 0 || rule == "" {
			return cmp.Or(isNew, cmp.Compare(pages[a].last, pages[b].last))
		}
		return cmp.Compare(urgency[b], urgency[a])
	})
	var chosen []*tracked
	for _, i := range order[:min(budget, len(order))] {
		chosen = append(chosen, pages[i])
	}
	return chosen
}
