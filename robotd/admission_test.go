package robotd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"sheaf/robotd/config"
	"sheaf/robotd/polite"
)

// robotInBubble opens a robot within a bubble of testing/synctest, watches its window
// and visits one host as often as the gate lets it. It returns when each visit began.
func robotInBubble(t *testing.T, cfg config.Config, from time.Time, days int, visit func(*Robot)) (began []time.Time) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(from))
		r, err := New(cfg, testLog(t))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(days)*24*time.Hour)
		defer cancel()
		done := make(chan error)
		go func() { done <- r.manners.Admission.Watch(ctx, r.seal) }()
		addr := address("192.0.2.1")
		r.manners.Gate.Add(addr, "h")
		for {
			if _, _, err := r.manners.Gate.Next(ctx); err != nil {
				break
			}
			began = append(began, time.Now())
			time.Sleep(3 * time.Second)
			visit(r)
			r.manners.Gate.Done(addr, "h", polite.Outcome{More: true})
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return began
}

// Visits begin only while the window is open, at once when it opens and until it
// closes, through weekends, over midnight and when clocks change.
func TestVisitsKeepToTheWindow(t *testing.T) {
	hours := func(from, to int) func(time.Time) bool {
		return func(t time.Time) bool { return from <= t.Hour() && t.Hour() < to }
	}
	weekend := func(t time.Time) bool { return t.Weekday() == time.Saturday || t.Weekday() == time.Sunday }
	for _, tt := range []struct {
		name, window, zone, from string
		open                     func(time.Time) bool
	}{
		{"the default", "", "Asia/Tokyo", "2000-01-06", func(t time.Time) bool {
			if weekend(t) {
				return hours(2, 22)(t)
			}
			return hours(2, 8)(t)
		}},
		{"clocks go forward", "02:00-08:00 Europe/Berlin", "Europe/Berlin", "2000-03-24", hours(2, 8)},
		{"clocks go back", "02:00-08:00 Europe/Berlin", "Europe/Berlin", "2000-10-27", hours(2, 8)},
		{"over midnight", "Sat 22:00-04:00 America/New_York", "America/New_York", "2000-01-06", func(t time.Time) bool {
			return t.Weekday() == time.Saturday && t.Hour() >= 22 || t.Weekday() == time.Sunday && t.Hour() < 4
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const days = 5
			cfg := testConfig(t, newService(t), nil)
			cfg.Interval, cfg.Window = 20*time.Second, DefaultConfig().Window
			if tt.window != "" {
				cfg.Window = tt.window
			}
			zone, err := time.LoadLocation(tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			from, err := time.ParseInLocation(time.DateOnly, tt.from, zone)
			if err != nil {
				t.Fatal(err)
			}
			visited := make(map[int64]bool)
			for _, at := range robotInBubble(t, cfg, from, days, func(*Robot) {}) {
				if !tt.open(at.In(zone)) {
					t.Errorf("a visit began at %v", at.In(zone))
				}
				visited[at.Unix()/60] = true
			}
			for at := from.Add(time.Minute); at.Before(from.Add(days * 24 * time.Hour)); at = at.Add(time.Minute) {
				if tt.open(at.In(zone)) != visited[at.Unix()/60] {
					t.Errorf("in the minute of %v: open %t, visited %t", at.In(zone), tt.open(at.In(zone)), visited[at.Unix()/60])
				}
			}
		})
	}
}

// A day's bytes end the day, a month's the month, a restart forgets neither.
func TestByteLimits(t *testing.T) {
	cfg := testConfig(t, newService(t), nil)
	cfg.Interval, cfg.Window = time.Minute, "00:00-24:00 Asia/Tokyo"
	cfg.Limits.Daily, cfg.Limits.Monthly = 100, 350
	zone := time.FixedZone("JST", 9*3600)
	perDay, perMonth := make(map[string]int), make(map[time.Month]int)
	count := func(from time.Time, days int) {
		for _, at := range robotInBubble(t, cfg, from, days, func(r *Robot) { r.manners.Admission.Spend(10) }) {
			perDay[at.In(zone).Format(time.DateOnly)]++
			perMonth[at.In(zone).Month()]++
		}
	}
	start := time.Date(2000, 1, 25, 12, 0, 0, 0, zone)
	count(start, 1)
	count(start.Add(24*time.Hour), 10) // a restart in the middle of a day that is used up
	for day, n := range perDay {
		if n > 10 {
			t.Errorf("%d visits on %s, want 10 of 10 bytes", n, day)
		}
	}
	if perDay["2000-01-25"] != 10 || perDay["2000-01-26"] != 10 || perDay["2000-02-01"] != 10 || perMonth[time.January] != 35 {
		t.Errorf("visits by day: %v, in January: %d, want 35", perDay, perMonth[time.January])
	}
}
