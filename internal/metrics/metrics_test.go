package metrics

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// What fails or hangs is missing, is said to be, and takes nothing else with it.
func TestOneSourceDoesNotSpoilTheScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		release := make(chan struct{})
		hangs := func(context.Context, *Out) error {
			asked.Add(1)
			<-release
			return nil
		}
		s := newSources("x", time.Second, []Source{
			{"good", func(_ context.Context, out *Out) error {
				out.Gauge("things", "Things.", 3, "kind", "round")
				return nil
			}},
			{"bad", func(_ context.Context, out *Out) error { out.Gauge("half", "Half.", 1); return errors.New("away") }},
			{"hangs", hangs},
		})
		const want = `
# HELP x_source_up 1 if this part of the program could tell its metrics at this scrape.
# TYPE x_source_up gauge
x_source_up{source="bad"} 0
x_source_up{source="good"} 1
x_source_up{source="hangs"} 0
# HELP x_things Things.
# TYPE x_things gauge
x_things{kind="round"} 3
`
		for range 2 {
			begun := time.Now()
			if err := testutil.CollectAndCompare(s, strings.NewReader(want), "x_source_up", "x_things", "x_half"); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("a scrape took %v", took)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the source that hangs was asked %d times", n)
		}
		close(release)
	})
}

func TestHandlerServesEverything(t *testing.T) {
	h := Handler(Sources("x", Source{"one", func(_ context.Context, out *Out) error { out.Counter("done_total", "Done.", 2); return nil }}),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "x_more", Help: "More."}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path, nil))
	for _, name := range []string{"x_done_total 2", "x_more 0", "go_goroutines", "process_open_fds"} {
		if !strings.Contains(w.Body.String(), name) {
			t.Errorf("no %s", name)
		}
	}
}
