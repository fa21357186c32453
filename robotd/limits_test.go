package robotd

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

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
