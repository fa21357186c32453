package robotd

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/robotd/config"
)

// asked is what a host's server saw.
type asked struct {
	at     []time.Time // of the requests for pages
	robots int
}

// watchKills kills a robot again and again, each time once it has noted what the answer that says
// gave asks for, and returns what the site saw.
func watchKills(t *testing.T, first, robots string, says func(body int) *answer) asked {
	t.Helper()
	w := newWeb(t, first, 1, 1, 6)
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Network.Resolver = w.names.LocalAddr().String()
	var seen asked
	came := make(chan int64, 100)
	w.tell(func(_, uri string, _ int) *answer {
		w.mu.Lock()
		defer w.mu.Unlock()
		if uri == "/robots.txt" {
			seen.robots++
			return &answer{http.StatusOK, http.Header{"Content-Type": {"text/plain"}}, []byte(robots)}
		}
		seen.at = append(seen.at, time.Now())
		came <- noted(cfg)
		return says(len(seen.at))
	})
	for range 3 {
		robot := startRobot(t, cfg)
		before := testkit.Receive(t, "a visit", came)
		testkit.Until(t, "a note of what was asked for", func() bool { return noted(cfg) > before })
		robot.Kill()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return seen
}

// What a server asked for holds over a kill: Retry-After, Crawl-delay and the patience after a
// failure; and robots.txt is not asked for again.
func TestKilledRobotKeepsItsManners(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, addr, robots string
		says               func(body int) *answer
		least              time.Duration
	}{
		{"Retry-After", "127.44.0.1", "", func(int) *answer {
			return &answer{http.StatusServiceUnavailable, http.Header{"Retry-After": {"2"}}, nil}
		}, 2 * time.Second},
		{"Crawl-delay", "127.44.0.2", "User-agent: *\nCrawl-delay: 1.5\n", func(int) *answer { return nil }, 1500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seen := watchKills(t, tt.addr, tt.robots, tt.says)
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
	testkit.Slow(t)
	t.Parallel()
	w := newWeb(t, "127.45.0.1", 1, 1, 1)
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Interval = 40 * time.Millisecond
	cfg.Network.Resolver = w.names.LocalAddr().String()
	came, before := make(chan time.Time, 100), make(chan int64, 100)
	w.tell(func(_, uri string, _ int) *answer {
		if uri == "/robots.txt" {
			return nil
		}
		before <- noted(cfg)
		came <- time.Now()
		return &answer{http.StatusServiceUnavailable, nil, nil}
	})
	robot := startRobot(t, cfg)
	began := testkit.Receive(t, "a visit", came)
	was := testkit.Receive(t, "the notes before it", before)
	testkit.Until(t, "a note of the failure", func() bool { return noted(cfg) > was })
	robot.Kill()
	startRobot(t, cfg)
	if gap := testkit.Receive(t, "another visit", came).Sub(began); gap < 15*cfg.Interval {
		t.Errorf("the page was asked for again after %v, want at least %v", gap, 15*cfg.Interval)
	}
}

// noted is the length of the file in which a robot keeps when it may come again; it grows with
// each note.
func noted(cfg config.Config) int64 {
	file, err := os.Stat(filepath.Join(cfg.DataDir, "restraints"))
	if err != nil {
		return 0
	}
	return file.Size()
}
