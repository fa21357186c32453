package whole

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/robotd"
	"sheaf/test/servicetest"
)

// A page to which only another robot's host links reaches the robot of its host.
func TestLinksIntoAnotherRobotsHost(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards visits
	visits := map[string]int{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		visits[r.Host+r.URL.Path]++
		mu.Unlock()
		switch r.Host + r.URL.Path {
		case "one.test/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<a href=http://two.test/only/from/one.html>two</a>")
		case "two.test/", "two.test/only/from/one.html":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "two has no links")
		default:
			http.NotFound(w, r)
		}
	}))
	defer web.Close()
	at := web.Listener.Addr().String()
	s := servicetest.Start(t, servicetest.Quiet())
	one := s.Robot("r1", "one.test", at)
	two := s.Robot("r2", "two.test", at)
	for _, r := range []*robotd.Robot{two, one, two} {
		testkit.Must(t, r.Cycle(t.Context()))
	}
	if n := visits["two.test/only/from/one.html"]; n != 1 {
		t.Errorf("the page was visited %d times; all visits: %v", n, visits)
	}
}
