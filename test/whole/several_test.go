package whole

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/config"
	"sheaf/test/servicetest"
)

// sharedSite is one host. It records when each page was requested, and by which robot.
type sharedSite struct {
	pages int
	body  func(path string, n int) string // nil: a title and links

	mu    sync.Mutex // guards all below
	begun []time.Time
	hits  map[string]int
}

func (s *sharedSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.begun = append(s.begun, time.Now())
	if s.hits == nil {
		s.hits = map[string]int{}
	}
	s.hits[r.URL.Path]++
	s.mu.Unlock()
	var n int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d.html", &n); r.URL.Path != "/" && (err != nil || n < 1 || n >= s.pages) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<title>page %d</title>", n)
	if s.body != nil {
		fmt.Fprint(w, s.body(r.URL.Path, n))
	}
	for i := 3*n + 1; i <= 3*n+3 && i < s.pages; i++ {
		fmt.Fprintf(w, "<a href=/%d.html>%d</a>", i, i)
	}
}

// pagePath returns the path of a page.
func pagePath(n int) string {
	if n == 0 {
		return "/"
	}
	return fmt.Sprintf("/%d.html", n)
}

// visits returns how many pages were visited once and how many more often.
func (s *sharedSite) visits() (once, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.pages {
		switch hits := s.hits[pagePath(n)]; {
		case hits == 1:
			once++
		case hits > 1:
			more++
		}
	}
	return once, more
}

// took returns the number of requests, and the time from the first to the last.
func (s *sharedSite) took() (requests int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.begun), s.begun[len(s.begun)-1].Sub(s.begun[0])
}

// sharing is a service and its robots.
type sharing struct{ *servicetest.Service }

func newSharing(t *testing.T) *sharing {
	t.Helper()
	settings := servicetest.Quiet()
	settings["publish.window"] = "always"
	return &sharing{servicetest.Start(t, settings)}
}

// robot joins a robot, and returns its settings.
func (h *sharing) robot(name string, web map[string]string) config.Config {
	cfg := h.Join(name, web)
	cfg.Page.Probe = false
	cfg.Poll, cfg.Heartbeat = time.Second, 200*time.Millisecond
	return cfg
}

// quarantined returns the batches that were refused.
func (h *sharing) quarantined() (refused []string) {
	var list struct {
		Batches []struct {
			ID    string
			State wire.State
		}
	}
	h.Operate(http.MethodGet, "/v1/admin/batches", nil, &list)
	for _, b := range list.Batches {
		if b.State == wire.StateQuarantined {
			refused = append(refused, b.ID)
		}
	}
	return refused
}
