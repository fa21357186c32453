package service

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

// Of two processes with one database, the one whose machine's clock is five minutes off says so at
// its start, at /healthz and in its metrics. Both work: what several processes must agree on goes
// by the database's clock.
func TestClocksApart(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	settings := meteredSettings(t, map[string]any{"database.url": dbtest.Postgres(t)})
	for _, c := range []struct {
		ahead time.Duration
		says  string
	}{{0, ""}, {5 * time.Minute, "5m0s ahead of"}, {-5 * time.Minute, "5m0s behind"}} {
		var log bytes.Buffer
		began := time.Now()
		s, err := New(t.Context(), testConfig(t, settings), slog.New(slog.NewTextHandler(&log, nil)),
			WithClock(func() time.Time { return time.Now().Add(c.ahead).Truncate(100 * time.Millisecond) }))
		testkit.Must(t, err)
		if warned := strings.Contains(log.String(), "the clock is wrong"); warned != (c.says != "") || !strings.Contains(log.String(), c.says) {
			t.Errorf("%v: the log says %s", c.ahead, &log)
		}
		serveUntilEnd(t, s)
		status, h := healthOf(t, s, "")
		if status != http.StatusOK {
			t.Errorf("%v: %d %+v", c.ahead, status, h)
		}
		found := false
		for _, one := range h.Checks {
			if one.Name == checkClock {
				found = (one.Status == healthDown) == (c.says != "") && strings.Contains(one.Detail, c.says)
			}
		}
		if !found {
			t.Errorf("%v: %+v", c.ahead, h.Checks)
		}
		ahead, ok := scrape(t, s).Value("sheaf_clock_ahead_seconds")
		now, seen := s.state.clock.Now(), time.Now()
		near := seen.Sub(began) + time.Second // the database's answers cannot have taken longer
		if !ok || (time.Duration(ahead*float64(time.Second))-c.ahead).Abs() > near {
			t.Errorf("%v: the metric is %v", c.ahead, ahead)
		}
		if seen.Sub(now).Abs() > near {
			t.Errorf("%v: the common time is %v", c.ahead, now)
		}
	}
}
