package manager_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
	"sheaf/manager/levelling"
)

// What robots do is summed up by the hour and by the day of the service's zone: pages and links as
// they come, also after a program or a cycle has begun anew, and the mean of the load.
func TestRobotsSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins on Saturday 2000-01-01 00:00 UTC, 09:00 in Tokyo
		tokyo := time.FixedZone("Asia/Tokyo", 9*3600)
		m, _, _ := bubble(t, levelling.Settings{Zone: tokyo}, "r1", "r2")
		began := time.Now().In(tokyo)
		beat := func(robot string, cycle, pages, links, left int64) {
			t.Helper()
			_, err := m.Heartbeat(t.Context(), robot, wire.Heartbeat{Phase: wire.PhaseCollecting, Cycle: cycle, Pages: pages, Links: links, Left: left})
			testkit.Must(t, err)
		}
		want := func(f transfers.PeriodFilter, want ...string) {
			t.Helper()
			points, err := m.Levelling.Series(t.Context(), f)
			testkit.Must(t, err)
			var got []string
			for _, p := range points {
				got = append(got, fmt.Sprintf("%s %s %d %d %d", p.Begin.In(tokyo).Format("02 15"), p.Robot, p.Pages, p.Links, p.Load))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("by the %s: %q, want %q", f.By, got, want)
			}
		}
		beat("r1", 1, 10, 100, 50)
		beat("r2", 1, 1, 2, 3)
		time.Sleep(30 * time.Minute)
		beat("r1", 1, 15, 160, 30)
		time.Sleep(30 * time.Minute)
		beat("r1", 1, 4, 40, 20) // the program has begun anew
		time.Sleep(14 * time.Hour)
		beat("r1", 2, 7, 70, 10) // and another cycle, on the next day
		want(transfers.PeriodFilter{By: transfers.Hour, Since: began}, "01 09 r1 15 160 40", "01 09 r2 1 2 3", "01 10 r1 4 40 20", "02 00 r1 7 70 10")
		want(transfers.PeriodFilter{By: transfers.Day, Since: began}, "01 00 r1 19 200 33", "01 00 r2 1 2 3", "02 00 r1 7 70 10")
		want(transfers.PeriodFilter{By: transfers.Month, Since: began, Who: "r1"}, "01 00 r1 26 270 27")
		time.Sleep(500 * 24 * time.Hour)
		beat("r1", 3, 1, 1, 1)
		if points, err := m.Levelling.Series(t.Context(), transfers.PeriodFilter{By: transfers.Hour, Since: began, Who: "r1"}); err != nil || len(points) != 1 {
			t.Errorf("after 500 days the hours are %v, %v", points, err)
		}
		if points, err := m.Levelling.Series(t.Context(), transfers.PeriodFilter{By: transfers.Day, Since: began, Who: "r1"}); err != nil || len(points) != 3 {
			t.Errorf("after 500 days the days are %v, %v", points, err)
		}
	})
}

// A robot that claims as much as a heartbeat can have, again and again, adds up to no number that
// cannot be kept: its heartbeats are taken, and the series can be read.
func TestSeriesOfALiar(t *testing.T) {
	s := startWith(t, nil, levelling.Settings{Zone: time.UTC})
	s.join("r1")
	liar := wire.Heartbeat{Phase: wire.PhaseCollecting, Cycle: 1, Pages: 1 << 50, Links: 1 << 50, Left: 1 << 50}
	for n := range int64(3) {
		liar.Cycle = n
		_, err := s.m.Heartbeat(t.Context(), "r1", liar)
		testkit.Must(t, err)
		_, err = s.db.ExecContext(t.Context(), `UPDATE robot_series SET pages = pages * 8191, links = links * 8191, load = load * 8191 WHERE pages < 5000000000000000`)
		testkit.Must(t, err)
	}
	points, err := s.m.Levelling.Series(t.Context(), transfers.PeriodFilter{By: transfers.Month, Since: time.Now().AddDate(0, -1, 0)})
	testkit.Must(t, err)
	if len(points) != 1 || points[0].Pages < 1<<50 || points[0].Links < 1<<50 || points[0].Load < 1<<50 {
		t.Errorf("%+v", points)
	}
}
