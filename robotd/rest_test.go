package robotd

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestFailingHostIsTriedAgain: a host that fails for hours rests, and its pages are taken in the same night once it
// has recovered. Meanwhile the status says why its visit waits, and why another's does.
func TestFailingHostIsTriedAgain(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80", "www.b.test": "192.0.2.2:80"})
	cfg.Interval, cfg.Window, cfg.Page.Tries = time.Minute, "02:00-16:00 UTC", 1000
	var mu sync.Mutex
	failed, taken := 0, make(map[string]bool)
	var robot *Robot
	said := make(map[string]string)
	nights(t, cfg, 2, func(w http.ResponseWriter, r *http.Request) {
		now := time.Now().UTC()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case robot == nil: // the first night is short
			linkTo(w, 0)
		case r.Host == "www.b.test": // its pages last all of the second night
			if now.Hour() == 11 && len(said) == 0 {
				s, err := robot.status(-1)
				if err != nil {
					t.Error(err)
				}
				for _, h := range s.PerHost {
					said[h.Name] = string(h.State) + ": " + h.Why
				}
				if s.LeftOut != 1 {
					t.Errorf("%d hosts are told to be left out, want the one that rests", s.LeftOut)
				}
			}
			if r.URL.Path == "/" {
				linkTo(w, 1000)
			}
		case now.Hour() < 12 && r.URL.Path != "/": // ten hours of trouble, and no word when to come again
			failed++
			w.WriteHeader(http.StatusInternalServerError)
		default:
			taken[r.URL.Path] = true
			linkTo(w, 5)
		}
	}, func(r *Robot, _ int) {
		mu.Lock()
		defer mu.Unlock()
		robot = r
	})
	if failed < giveUp || failed > 20 || len(taken) != 6 {
		t.Errorf("%d visits failed and %d pages were taken, want at least %d, at most 20, and 6", failed, len(taken), giveUp)
	}
	if !strings.HasPrefix(said["www.a.test"], "left out: rests, ") {
		t.Errorf("the status says of the host that fails: %q", said["www.a.test"])
	}
}
