package robotd

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestEndlessCalendarIsLeft: a calendar whose every page links to the next month, to the month a
// year before and to a day takes a few visits of its host, and is counted.
func TestEndlessCalendarIsLeft(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80"})
	cfg.Interval, cfg.Window = time.Second, "02:00-08:00 UTC"
	var mu sync.Mutex
	calendar, pages := 0, 0
	nights(t, cfg, 1, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		var year, month int
		switch n, _ := fmt.Sscanf(r.URL.Path, "/cal/%d/%d", &year, &month); {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case n == 2:
			calendar++
			fmt.Fprintf(w, "<title>%d/%d</title><a href=/cal/%d/%d/>x</a><a href=/cal/%d/%d/>x</a><a href=/cal/%d/%d/%d>x</a>",
				year, month, year+month/12, month%12+1, year-1, month, year, month, 1+month)
		case r.URL.Path == "/":
			fmt.Fprint(w, "<a href=/cal/2004/1/>calendar</a>")
			fallthrough
		default:
			pages++
			linkTo(w, 5)
		}
	}, nil)
	if calendar > 30 || pages != 6 {
		t.Errorf("%d visits to the calendar, want at most 30; %d pages, want 6", calendar, pages)
	}
	t.Logf("%d visits to the calendar", calendar)
}
