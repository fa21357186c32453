package robotd

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"sheaf/internal/testkit"
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

// linkTo answers with links to n pages of a host.
func linkTo(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Type", "text/html")
	for i := range n {
		fmt.Fprintf(w, "<a href=/%d.html>%d</a>\n", i, i)
	}
}

// A server that answers 429 or 503 for hours, with or without a word on when to come again, gets
// fewer visits and is not given up: when it has recovered its pages are taken in the same night.
func TestBusyHostIsSlowedNotGivenUp(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, after := range []string{"", "60"} {
		cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80"})
		cfg.Interval, cfg.Window, cfg.Page.Tries = 20*time.Second, "02:00-12:00 UTC", 1000
		var mu sync.Mutex
		refused, taken := 0, 0
		nights(t, cfg, 1, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.URL.Path == "/robots.txt":
				http.NotFound(w, r)
			case r.URL.Path != "/" && time.Now().UTC().Hour() < 10: // eight hours of trouble
				refused++
				if after != "" {
					w.Header().Set("Retry-After", after)
				}
				w.WriteHeader(http.StatusTooManyRequests)
			default:
				taken++
				linkTo(w, 5)
			}
		}, nil)
		if refused < giveUp || refused > 30 || taken != 6 {
			t.Errorf("Retry-After %q: refused %d times, %d pages taken; want at least %d, at most 30, and 6", after, refused, taken, giveUp)
		}
	}
}

// Pages come no faster than limits.bandwidth says, seen from the servers' side.
func TestBandwidth(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const limit, hosts, pages, size = 10_000, 8, 4, 100_000
	names := make(map[string]string)
	for i := range hosts { // each rests for as long as its page took, so that half of the line may idle
		names[fmt.Sprintf("h%d.test", i)] = fmt.Sprintf("192.0.2.%d:80", i+1)
	}
	cfg := testConfig(t, newService(t), names)
	cfg.Interval, cfg.Window, cfg.Limits.Bandwidth = time.Second, "02:00-08:00 UTC", limit
	var mu sync.Mutex
	var sent int64
	var first, last time.Time
	nights(t, cfg, 1, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			http.NotFound(w, r)
			return
		case "/":
			linkTo(w, pages)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		mu.Lock()
		if first.IsZero() {
			first = time.Now()
		}
		mu.Unlock()
		n, _ := w.Write(make([]byte, size))
		mu.Lock()
		defer mu.Unlock()
		sent, last = sent+int64(n), time.Now()
	}, nil)
	took := last.Sub(first).Seconds()
	if sent != hosts*pages*size {
		t.Errorf("%d bytes were sent, want %d", sent, hosts*pages*size)
	}
	// A second's worth may come at once, and the last few bytes lie in buffers.
	if rate := float64(sent-limit) / took; rate > 1.02*limit || rate < 0.4*limit {
		t.Errorf("%.0f bytes a second, want at most %d, and no less than 0.4 of it", rate, limit)
	}
}

// A host with quiet hours of its own is left alone in them, and others are not.
func TestNotBetween(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80", "www.b.test": "192.0.2.2:80"})
	cfg.Interval, cfg.Window = 5*time.Minute, "02:00-08:00 UTC"
	cfg.NotBetween = map[string]string{"www.a.test": "03:00-06:00 UTC"}
	var mu sync.Mutex
	visits := map[string]map[int]int{"www.a.test": {}, "www.b.test": {}}
	nights(t, cfg, 1, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		visits[r.Host][time.Now().UTC().Hour()]++
		mu.Unlock()
		linkTo(w, 100)
	}, nil)
	for hour := 2; hour < 8; hour++ {
		quiet := hour >= 3 && hour < 6
		if n := visits["www.a.test"][hour]; (n > 0) == quiet {
			t.Errorf("%d visits to the host with quiet hours at %d:00", n, hour)
		}
		if visits["www.b.test"][hour] == 0 {
			t.Errorf("no visit to the other host at %d:00", hour)
		}
	}
}
