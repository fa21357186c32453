package revisit

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sheaf/internal/window"
	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
)

// attend simulates visits to a page by the policy. changes are the days of the page's changes. It
// returns the visits a day, the visits for each change, and the delays of the changes, all in the
// second half.
func attend(a WatchPolicy, changes []float64, days float64) (perDay, perChange float64, delays []time.Duration) {
	var c frontier.Changes
	backoffFactor := Calm
	at, next, visits := 0.0, 0, 0
	for at < days {
		interval := a.Intervals([]Watched{{Changes: c, BackoffFactor: backoffFactor}}, 1e9)[0].Hours() / 24
		at += interval
		met := 0
		for ; next < len(changes) && changes[next] <= at; next++ {
			met++
			if at > days/2 {
				delays = append(delays, time.Duration((at-changes[next])*float64(24*time.Hour)))
			}
		}
		if at > days/2 {
			visits++
		}
		c.Observe(interval, met > 0)
		c.Fade(60)
		backoffFactor = a.BackoffFactor(backoffFactor, met > 0)
	}
	slices.Sort(delays)
	return float64(visits) / (days / 2), float64(visits) / float64(max(len(delays), 1)), delays
}

// TestWatchPolicy: pages that change hourly, daily, weekly, in groups, too fast to follow, or never
// get some visits for each change. A change waits for a small part of the time between two changes.
func TestWatchPolicy(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 4))
	random := func(rate float64) func(days float64) []float64 {
		return func(days float64) (at []float64) {
			for x := rng.ExpFloat64() / rate; x < days; x += rng.ExpFloat64() / rate {
				at = append(at, x)
			}
			return at
		}
	}
	regular := func(every float64) func(days float64) []float64 {
		return func(days float64) (at []float64) {
			for x := rng.Float64() * every; x < days; x += every {
				at = append(at, x)
			}
			return at
		}
	}
	bursts := func(days float64) (at []float64) {
		for _, x := range random(1.0 / 3)(days) {
			for i := range 10 {
				at = append(at, x+float64(i)*20/(24*60))
			}
		}
		slices.Sort(at)
		return at
	}
	a := WatchPolicy{Least: 10 * time.Minute, Most: 24 * time.Hour}
	for _, c := range []struct {
		name    string
		changes func(days float64) []float64
		days    float64
		most    float64       // visits for each change
		perDay  float64       // visits a day, at most
		median  time.Duration // delay, at most
	}{
		{"hourly at random", random(24), 60, 5, 110, 11 * time.Minute},
		{"hourly", regular(1.0 / 24), 60, 5.5, 130, 11 * time.Minute},
		{"daily at random", random(1), 400, 6.5, 6.5, 4 * time.Hour},
		{"daily", regular(1), 400, 7, 7, 4 * time.Hour},
		{"weekly", random(1.0 / 7), 2000, 12, 1.5, 13 * time.Hour},
		{"bursts", bursts, 800, 1.5, 5, 8 * time.Hour},
		{"every ten minutes", random(144), 20, 1.2, 144.5, 6 * time.Minute},
		{"never", random(1e-9), 400, 1e9, 1.1, 0},
	} {
		perDay, perChange, delays := attend(a, c.changes(c.days), c.days)
		var median, late time.Duration
		if len(delays) > 0 {
			median, late = delays[len(delays)/2], delays[len(delays)*9/10]
		}
		t.Logf("%-18s %6.2f visits a day, %5.2f for each change; delay median %v, nine in ten %v", c.name, perDay, perChange, median.Round(time.Minute), late.Round(time.Minute))
		if perDay > c.perDay || perChange > c.most || median > c.median {
			t.Errorf("%s: want at most %.1f a day, %.1f for each change, and a median of %v", c.name, c.perDay, c.most, c.median)
		}
	}
}

// TestWatchPolicyWithoutRoom: if a host has no room for all visits, no page gets more visits than
// with room, the visits fit in total, and pages that change often are not given up.
func TestWatchPolicyWithoutRoom(t *testing.T) {
	a := WatchPolicy{Least: time.Minute, Most: 24 * time.Hour}
	var pages []Watched
	for i := range 100 {
		c := frontier.Changes{Visits: 40, Changed: 20, TimeKept: 10, TimeMoved: 10}
		if i%2 == 0 {
			c = frontier.Changes{Visits: 40, Changed: 39, TimeKept: .02, TimeMoved: .8}
		}
		pages = append(pages, Watched{Changes: c, Times: 20 + i, BackoffFactor: Calm})
	}
	free := a.Intervals(pages, 1e9)
	tight := a.Intervals(pages, 1000)
	sum := 0.0
	for i := range pages {
		sum += 24 / tight[i].Hours()
		if tight[i] < free[i] {
			t.Errorf("page %d is visited every %v without room, and every %v with it", i, tight[i], free[i])
		}
	}
	if sum > 1000.1 || sum < 600 {
		t.Errorf("%.1f visits a day, with room for 1000", sum)
	}
	if tight[0] >= tight[1] || tight[0] > 3*time.Hour {
		t.Errorf("a page that changes often is visited every %v, one that does not every %v", tight[0], tight[1])
	}
	a.By = config.Paper
	free, tight = a.Intervals(pages, 1e9), a.Intervals(pages, 1000)
	sum = 0
	for i := range pages {
		sum += 24 / tight[i].Hours()
		if n := 24 / free[i].Hours(); n < float64(pages[i].Times)-.1 || n > float64(pages[i].Times)+.1 {
			t.Errorf("by the paper's rule %.1f visits a day, want %d", n, pages[i].Times)
		}
	}
	if sum > 1000.1 || sum < 999 {
		t.Errorf("by the paper's rule %.1f visits a day, with room for 1000", sum)
	}
}

// TestNextAtQuickHours: a visit that may come in different hours comes in the faster one.
func TestNextAtQuickHours(t *testing.T) {
	always, err := window.Parse("always")
	if err != nil {
		t.Fatal(err)
	}
	p := config.Plan{Window: always}
	var h ServerHours
	last := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	if at := NextVisit(p, &h, last, 12*time.Hour); !at.Equal(last.Add(12 * time.Hour)) {
		t.Errorf("without observations the visit comes at %v", at)
	}
	for hour := range 24 {
		for range 30 {
			h.Observe(hour, map[bool]float64{true: 1000, false: 100}[hour == 14 || hour == 2])
		}
	}
	if at := NextVisit(p, &h, last, 12*time.Hour); at.Hour() != 14 {
		t.Errorf("the visit comes at %v, want 14:00", at)
	}
	if at := NextVisit(p, &h, last, 20*time.Minute); !at.Equal(last.Add(20 * time.Minute)) {
		t.Errorf("without a choice the visit comes at %v", at)
	}
}

// A page that was visited while the clock was a year ahead is not left alone for a year once the
// clock is right.
func TestVisitOfAClockThatWasAhead(t *testing.T) {
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	past, ahead := now.Add(-time.Hour), now.AddDate(1, 0, 0)
	for _, c := range []struct {
		v    frontier.Visit
		want time.Time
	}{
		{frontier.Visit{Full: past, History: frontier.History{Last: past.Add(time.Minute)}}, past.Add(time.Minute)}, {frontier.Visit{}, time.Time{}},
		{frontier.Visit{Full: past, History: frontier.History{Last: ahead}}, now}, {frontier.Visit{Full: ahead}, now},
	} {
		if at := visited(c.v, now); !at.Equal(c.want) {
			t.Errorf("%+v was visited at %v", c.v, at)
		}
	}
}
