package robotd

import (
	"net/http"
	"testing"
	"time"
)

// asked is what a host's server saw.
type asked struct {
	at     []time.Time // of the requests for pages
	robots int
}

// watchKills kills a robot again and again, shortly after each of the first answers of a site of
// which says gives them, and returns what the site saw.
func watchKills(t *testing.T, robots string, says func(page int) *answer) asked {
	t.Helper()
	w := newWeb(t, "127.44.0.1", 1, 1, 6)
	var seen asked
	came := make(chan struct{}, 100)
	w.tells = func(_, uri string, _ int) *answer {
		w.mu.Lock()
		defer w.mu.Unlock()
		if uri == "/robots.txt" {
			seen.robots++
			return &answer{http.StatusOK, http.Header{"Content-Type": {"text/plain"}}, []byte(robots)}
		}
		seen.at = append(seen.at, time.Now())
		came <- struct{}{}
		return says(len(seen.at))
	}
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Network.Resolver = w.names.LocalAddr().String()
	for range 3 {
		robot := startRobot(t, cfg)
		select {
		case <-came:
		case <-time.After(time.Minute):
			t.Fatal("nobody came")
		}
		time.Sleep(300 * time.Millisecond) // the robot has the answer, and waits
		if err := robot.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		robot.Wait()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return seen
}

// What a server asked for holds over a kill: Retry-After, Crawl-delay and the patience after a
// failure; and robots.txt is not asked for again.
func TestKilledRobotKeepsItsManners(t *testing.T) {
	for _, tt := range []struct {
		name, robots string
		says         func(page int) *answer
		least        time.Duration
	}{
		{"Retry-After", "", func(int) *answer {
			return &answer{http.StatusServiceUnavailable, http.Header{"Retry-After": {"3"}}, nil}
		}, 3 * time.Second},
		{"Crawl-delay", "User-agent: *\nCrawl-delay: 2\n", func(int) *answer { return nil }, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := watchKills(t, tt.robots, tt.says)
			for i := 1; i < len(seen.at); i++ {
				if gap := seen.at[i].Sub(seen.at[i-1]); gap < tt.least {
					t.Errorf("visit %d came %v after the one before, want at least %v", i+1, gap, tt.least)
				}
			}
			if len(seen.at) < 3 || seen.robots != 1 {
				t.Errorf("%d visits, robots.txt asked for %d times; want 3 and 1", len(seen.at), seen.robots)
			}
		})
	}
}

// Without a word from the server, a robot that was killed waits as long as it would have.
func TestKilledRobotBacksOff(t *testing.T) {
	w := newWeb(t, "127.45.0.1", 1, 1, 1)
	first := make(chan time.Time, 100)
	w.tells = func(_, uri string, _ int) *answer {
		if uri == "/robots.txt" {
			return nil
		}
		first <- time.Now()
		return &answer{http.StatusServiceUnavailable, nil, nil}
	}
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Interval = 100 * time.Millisecond
	cfg.Network.Resolver = w.names.LocalAddr().String()
	robot := startRobot(t, cfg)
	began := <-first
	time.Sleep(300 * time.Millisecond)
	if err := robot.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	robot.Wait()
	robot = startRobot(t, cfg)
	if gap := (<-first).Sub(began); gap < patience*cfg.Interval {
		t.Errorf("the page was asked for again after %v, want at least %v", gap, patience*cfg.Interval)
	}
	if err := robot.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	robot.Wait()
}
