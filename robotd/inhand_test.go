package robotd

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// A cycle whose time is over waits for the answers that are under way: a server that is still busy
// with one page is not asked for another, and the interval counts from the end of its answer.
func TestPagesInHandAtTheEndOfACycle(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const slow = 50 * time.Second // an answer
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80"})
	cfg.Interval, cfg.Heartbeat, cfg.Cycle = 5*time.Second, 0, 6*time.Hour
	cfg.Window = "00:00-24:00 UTC"
	var mu sync.Mutex // guards the rest
	var asked, answered int
	var last time.Time // end of the last answer
	cycles := 0
	nights(t, cfg, 1, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if asked++; asked-1 > answered {
			t.Errorf("%s is asked for while another answer is under way", r.URL.Path)
		}
		if gap := time.Since(last); gap < cfg.Interval {
			t.Errorf("%s is asked for %v after the last answer, want %v", r.URL.Path, gap, cfg.Interval)
		}
		mu.Unlock()
		time.Sleep(slow)
		mu.Lock()
		last = time.Now() // before the robot can have the answer
		answered++
		mu.Unlock()
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			for n := range 1000 {
				fmt.Fprintf(w, "<a href=/%d.html>%d</a>", n, n)
			}
		}
	}, func(*Robot, int) { cycles++ })
	mu.Lock()
	defer mu.Unlock()
	if cycles < 3 || asked < 20 || asked > 1000*cycles {
		t.Errorf("%d cycles with %d requests: want some whose time was over", cycles, asked)
	}
}
