package robotd

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/robotd/config"
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

// A cycle that ran while the machine's clock was a year ahead does not keep the robot waiting for a
// year once the clock is right, nor has a cycle that was broken off a year of time.
func TestCycleOfAClockThatWasAhead(t *testing.T) {
	ahead := time.Now().AddDate(1, 0, 0)
	for name, r := range map[string]record{
		"ended":      {Number: 7, Began: ahead, Ended: ahead.Add(time.Hour)},
		"set right":  {Number: 7, Began: ahead, Ended: time.Now()},
		"broken off": {Number: 7, Began: ahead},
	} {
		path := filepath.Join(t.TempDir(), "cycle.json")
		testkit.Must(t, config.SaveJSON(path, r))
		s, err := OpenState(path)
		testkit.Must(t, err)
		got := s.get()
		next, ok := config.Plan{Every: 24 * time.Hour}.NextCycle(got.Began, got.Ended)
		if latest := time.Now().Add(24 * time.Hour); !ok || next.After(latest) || got.Number != 7 || got.Ended.IsZero() != r.Ended.IsZero() {
			t.Errorf("%s: %+v, the next cycle begins at %v", name, got, next)
		}
		if again := s.get(); !again.Began.Equal(got.Began) {
			t.Errorf("%s: the cycle began at %v, and then at %v", name, got.Began, again.Began)
		}
	}
}

// A robot that is paused while its cycle begins visits all of its hosts when the pause ends.
func TestPausedWhileItBegins(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const hosts = 210 // more than are visited at once
	at, seeds := map[string]string{}, []string{}
	for n := range hosts {
		host := fmt.Sprintf("h%d.test", n)
		at[host] = fmt.Sprintf("192.0.%d.%d:80", n/200, n%200+1)
		seeds = append(seeds, "http://"+host+"/")
	}
	cfg := testConfig(t, newService(t), at)
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		r := inBubble(t, cfg, network, seeds)
		defer r.Close()
		srv := &http.Server{Handler: http.NotFoundHandler()}
		go srv.Serve(network)
		defer srv.Close()
		testkit.Must(t, r.manners.Admission.SetPaused(true))
		done := make(chan error, 1)
		go func() { done <- r.Cycle(t.Context()) }()
		time.Sleep(time.Hour)
		testkit.Must(t, r.manners.Admission.SetPaused(false))
		began := time.Now()
		testkit.Must(t, <-done)
		if took := time.Since(began); took > time.Hour {
			t.Errorf("the cycle ended %v after the pause", took)
		}
	})
}

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
