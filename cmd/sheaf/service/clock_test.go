package service

import (
	"bytes"
	"log/slog"
	"net/http"
	"regexp"
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
	for _, ahead := range []time.Duration{0, 5 * time.Minute, -5 * time.Minute} {
		var log bytes.Buffer
		began := time.Now()
		near := func() time.Duration { // the database's answers cannot have taken longer
			now := time.Now()
			return now.Sub(began) + time.Second
		}
		says := func(text string) bool {
			m := regexp.MustCompile(`clock is (\S+) (ahead of|behind) the`).FindStringSubmatch(text)
			if m == nil {
				return false
			}
			told, err := time.ParseDuration(m[1])
			return err == nil && (m[2] == "behind") == (ahead < 0) && (told-ahead.Abs()).Abs() <= near()
		}
		s, err := New(t.Context(), testConfig(t, settings), slog.New(slog.NewTextHandler(&log, nil)),
			WithClock(func() time.Time { return time.Now().Add(ahead).Truncate(100 * time.Millisecond) }))
		testkit.Must(t, err)
		if warned := strings.Contains(log.String(), "the clock is wrong"); warned != (ahead != 0) || warned && !says(log.String()) {
			t.Errorf("%v: the log says %s", ahead, &log)
		}
		serveUntilEnd(t, s)
		status, h := healthOf(t, s, "")
		if status != http.StatusOK {
			t.Errorf("%v: %d %+v", ahead, status, h)
		}
		found := false
		for _, one := range h.Checks {
			if one.Name == checkClock {
				found = (one.Status == healthDown) == (ahead != 0) && (ahead == 0 || says(one.Detail))
			}
		}
		if !found {
			t.Errorf("%v: %+v", ahead, h.Checks)
		}
		metric, ok := scrape(t, s).Value("sheaf_clock_ahead_seconds")
		now, seen := s.state.clock.Now(), time.Now()
		if !ok || (time.Duration(metric*float64(time.Second))-ahead).Abs() > near() {
			t.Errorf("%v: the metric is %v", ahead, metric)
		}
		if seen.Sub(now).Abs() > near() {
			t.Errorf("%v: the common time is %v", ahead, now)
		}
	}
}
