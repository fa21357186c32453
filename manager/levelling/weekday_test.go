package levelling

import (
	"testing"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// The plan of a night goes by how long transfers take on its weekday, once a robot has had enough
// nights, and by no more than a factor of two.
func TestWeekdaysInThePlan(t *testing.T) {
	testkit.Slow(t)
	for engine, source := range map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(engine, func(t *testing.T) {
			d, err := db.Open(t.Context(), source(t))
			testkit.Must(t, err)
			defer d.Close()
			exec := func(query string, args ...any) {
				t.Helper()
				_, err := d.ExecContext(t.Context(), query, args...)
				testkit.Must(t, err)
			}
			s := &snapshot{robots: []string{"new", "r1", "r2"}}
			for _, robot := range s.robots {
				for night := range weekdayNights {
					if robot != "new" || night > 0 {
						exec(`INSERT INTO nights (robot, cycle, began, ended, worked, predicted, binds) VALUES (?, ?, 0, 0, 0, 0, '')`, robot, night+1)
					}
				}
				for day := range 7 {
					ms := 1000
					switch {
					case day == 1 && robot == "r2":
						ms = 100_000
					case day == 1: // 3 s where the mean is 9 s / 7
						ms = 3000
					}
					exec(`INSERT INTO rates (robot, hour, requests, bytes, ms) VALUES (?, ?, 1, 1000, ?)`, robot, day*24+2, ms)
				}
			}
			tx, err := d.BeginTx(t.Context(), nil)
			testkit.Must(t, err)
			monday := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
			testkit.Must(t, s.readWeekday(t.Context(), tx, monday))
			if s.weekday[0] != 1 || s.weekday[1] < 0.77 || s.weekday[1] > 0.79 || s.weekday[2] != 0.5 {
				t.Errorf("Monday %v, want 1, 7/9 and the least", s.weekday)
			}
			testkit.Must(t, s.readWeekday(t.Context(), tx, monday.AddDate(0, 0, 1)))
			if s.weekday[0] != 1 || s.weekday[1] != 2 || s.weekday[2] != 2 {
				t.Errorf("Tuesday %v, want 1 and the most, twice", s.weekday)
			}
			testkit.Must(t, tx.Rollback())
			// On Monday, after its night, a robot is to begin the next one on Tuesday.
			hours := week("")
			for hour := range hoursOfWeek {
				phase := wire.PhaseClosed
				if hour%24 == 2 {
					phase = wire.PhaseCollecting
				}
				hours = week(hours.note(monday.Add(time.Duration(hour)*time.Hour), wire.Heartbeat{Phase: phase}))
			}
			exec(`INSERT INTO heartbeats (robot, at, generation, phase, cycle, left_urls, pages, bytes, ms, spool, rate, week) VALUES ('r1', 0, 0, ?, 0, 0, 0, 0, 0, 0, 0, ?)`,
				wire.PhaseResting, string(hours))
			again, err := d.BeginTx(t.Context(), nil)
			testkit.Must(t, err)
			defer again.Rollback()
			testkit.Must(t, s.readWeekday(t.Context(), again, monday.Add(12*time.Hour)))
			if s.weekday[1] != 2 || s.weekday[2] != 0.5 {
				t.Errorf("Monday noon %v, want for r1 that of Tuesday", s.weekday)
			}
			testkit.Must(t, s.readWeekday(t.Context(), again, monday.AddDate(0, 0, 1)))
			s.hosts, s.kb, s.pages, s.gap, s.weight, s.parts = []string{"h.test"}, []float64{1}, []float64{1}, []gap{{}}, []float64{100}, []int{1}
			s.measured, s.slow = make([][]distance, 1), []float64{1, 1, 1}
			if quick, slow := s.work(0, 0), s.work(1, 0); slow.MS != 2*quick.MS {
				t.Errorf("transfers of %.0f and %.0f ms, want twice as long", quick.MS, slow.MS)
			}
		})
	}
}
