package manager_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/roster"
)

// until returns until when the robot may have visited a host, and whether it ever had it.
func (f *fleet) until(robot, host string) (end time.Time, had bool) {
	f.t.Helper()
	held, err := f.HeldUntil(f.t.Context(), robot, []string{host + ".test", "x.test"})
	testkit.Must(f.t, err)
	end, had = held[host+".test"]
	return end, had
}

// move takes host a from r1, which may be visiting it, and gives it to r2.
func (f *fleet) move() {
	f.t.Helper()
	testkit.Must(f.t, f.Assignments.Change(f.t.Context(), func(tx *assign.Tx) error {
		_, err := tx.Move(f.t.Context(), assign.Transfer{Hosts: []string{"a.test"}, From: "r1", To: "r2"})
		return err
	}))
}

// When a robot's time with a host ended is known: by its own word, by its lease, or by an
// operator's, with the error of its clock.
func TestWhenRobotsHadHosts(t *testing.T) {
	const lease = 6 * time.Hour
	for name, c := range map[string]struct {
		lose func(f *fleet) (want time.Time)
	}{
		"hand-over": {func(f *fleet) time.Time {
			f.move()
			time.Sleep(time.Hour)
			if end, had := f.until("r1", "a"); !had || !end.IsZero() {
				f.t.Errorf("while others wait for it: %s, %t; want that it has not ended", end, had)
			}
			f.fetch("r1")
			now := time.Now()
			time.Sleep(time.Hour)
			return now
		}},
		"a clock 2 h ahead": {func(f *fleet) time.Time {
			hb := wire.Heartbeat{Phase: wire.PhaseResting, Clock: &wire.Clock{OffsetMS: (2 * time.Hour).Milliseconds()}}
			_, err := f.Heartbeat(f.t.Context(), "r1", hb)
			testkit.Must(f.t, err)
			f.move()
			f.fetch("r1")
			hb.Clock.OffsetMS = 0 // a clock that is set right later changes nothing
			_, err = f.Heartbeat(f.t.Context(), "r1", hb)
			testkit.Must(f.t, err)
			return time.Now().Add(2 * time.Hour)
		}},
		"a clock that is not believed": {func(f *fleet) time.Time {
			_, err := f.Heartbeat(f.t.Context(), "r1", wire.Heartbeat{Phase: wire.PhaseResting, Clock: &wire.Clock{OffsetMS: 1 << 62}})
			testkit.Must(f.t, err)
			f.move()
			f.fetch("r1")
			return time.Now().Add(assign.MaxAhead)
		}},
		"cut off for two days": {func(f *fleet) time.Time {
			end := time.Now().Add(lease).Add(wire.LeaseMargin(lease))
			for range 48 {
				f.run(time.Hour)
				f.fetch("r2")
			}
			return end
		}},
		"an operator says that it is dead": {func(f *fleet) time.Time {
			time.Sleep(time.Hour)
			f.fetch("r2")
			testkit.Must(f.t, f.Roster.Dead(f.t.Context(), "r1", "its machine is gone"))
			end := time.Now().Add(wire.LeaseMargin(lease))
			f.run(time.Hour)
			return end
		}},
		"revoked": {func(f *fleet) time.Time {
			testkit.Must(f.t, f.Roster.Revoke(f.t.Context(), "r1", time.Time{}))
			now := time.Now()
			time.Sleep(time.Hour)
			return now
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, lease, "r1", "r2")
				f.add(assign.Replication{}, "a")
				f.fetch("r1", "r2")
				f.want("a", "r1")
				if end, had := f.until("r1", "a"); !had || !end.IsZero() {
					t.Errorf("while it has the host: %s, %t", end, had)
				}
				if _, had := f.until("r2", "a"); had {
					t.Error("r2 never had the host")
				}
				want := c.lose(f)
				if end, had := f.until("r1", "a"); !had || end.Sub(want).Abs() > time.Minute {
					t.Errorf("it had the host until %s, %t; want %s", end, had, want)
				}
				if end, had := f.until("r2", "a"); !had || !end.IsZero() {
					t.Errorf("the next robot has the host until %s, %t", end, had)
				}
			})
		})
	}
}

// A robot that gets a host back speaks for it again.
func TestHostThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, time.Hour, "r1", "r2")
		f.add(assign.Replication{}, "a")
		f.fetch("r1", "r2")
		f.move()
		f.fetch("r1", "r2")
		testkit.Must(t, f.Roster.Unsubscribe(t.Context(), "r2"))
		f.want("a", "r1")
		if end, had := f.until("r1", "a"); !had || !end.IsZero() {
			t.Errorf("its time has ended at %s, %t", end, had)
		}
		if end, had := f.until("r2", "a"); !had || time.Until(end).Abs() > time.Minute {
			t.Errorf("the other's time has ended at %s, %t; want now", end, had)
		}
	})
}

// A robot that is revoked since a time speaks for no host after then, and nobody gets its name.
func TestRevokedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, time.Hour, "r1", "r2")
		f.add(assign.Replication{}, "a")
		f.fetch("r1", "r2")
		f.want("a", "r1")
		stolen := time.Now()
		time.Sleep(30 * time.Minute)
		testkit.Must(t, f.Roster.Revoke(t.Context(), "r1", stolen))
		if end, had := f.until("r1", "a"); !had || !end.Equal(stolen.Truncate(time.Millisecond)) {
			t.Errorf("its time has ended at %s, %t; want %s", end, had, stolen)
		}
		for _, since := range []time.Time{stolen, stolen.Add(time.Minute), stolen.Add(-time.Minute)} { // repeated
			testkit.Must(t, f.Roster.Revoke(t.Context(), "r1", since))
		}
		if since, err := f.StolenSince(t.Context(), "r1"); err != nil || !since.Equal(stolen.Add(-time.Minute).Truncate(time.Millisecond)) {
			t.Errorf("its key was stolen at %s, %v; want the earliest time that was said", since, err)
		}
		if since, err := f.StolenSince(t.Context(), "r2"); err != nil || !since.IsZero() {
			t.Errorf("another's key was stolen at %s, %v", since, err)
		}
		if _, _, err := f.Roster.Admit(t.Context(), "r1"); !errors.Is(err, roster.ErrRobotExists) {
			t.Errorf("its name is admitted again: %v", err)
		}
		if err := f.Roster.Forget(t.Context(), "r1"); !errors.Is(err, roster.ErrRobotExists) {
			t.Errorf("its name is forgotten: %v", err)
		}
	})
}
