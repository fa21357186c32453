package robotd

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
)

// A robot that runs once for a time ends when the time is over, and seals what it has. The next run
// goes on with what was left.
func TestOnceForATime(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const host, pages = "www.a.test", 100
	cfg := testConfig(t, newService(t), map[string]string{host: "192.0.2.1:80"})
	cfg.Interval, cfg.For = 20*time.Second, 20*time.Minute
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		r := inBubble(t, cfg, network, []string{"http://" + host + "/"})
		defer r.Close()
		var mu sync.Mutex // guards visited
		visited := map[string]bool{}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				http.NotFound(w, r)
				return
			}
			mu.Lock()
			visited[r.URL.Path] = true
			mu.Unlock()
			w.Header().Set("Content-Type", "text/html")
			for i := range pages {
				fmt.Fprintf(w, "<a href=/%d.html>%d</a> of %s\n", i, i, r.URL.Path)
			}
		})}
		go srv.Serve(network)
		defer srv.Close()
		for run := 1; run <= 2; run++ {
			began := time.Now()
			testkit.Must(t, r.Cycle(t.Context()))
			if took := time.Since(began); took > 20*time.Minute+time.Second {
				t.Errorf("run %d took %v", run, took)
			}
			if n := len(visited); n < run*50 || n > run*61 {
				t.Errorf("after run %d: %d pages", run, n)
			}
		}
	})
}
