package manager_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/assign"
	"sheaf/manager/levelling"
	"sheaf/manager/roster"
)

// fleet is robots that fetch their lists from a manager, in a synctest bubble.
type fleet struct {
	*manager.Manager
	t       *testing.T
	secrets map[string]string
	works   map[string]int64 // by robot: generation of the list that it works by
}

func newFleet(t *testing.T, lease time.Duration, robots ...string) *fleet {
	m, _, secrets := bubble(t, levelling.Settings{Lease: lease}, robots...)
	return &fleet{m, t, secrets, map[string]int64{}}
}

func (f *fleet) add(want assign.Replication, hosts ...string) {
	f.t.Helper()
	at := map[string][]string{}
	var urls []string
	for _, h := range hosts {
		urls, at[h+".test"] = append(urls, "http://"+h+".test/"), []string{"192.0.2.1"}
	}
	_, err := f.Hosts.AddHosts(f.t.Context(), urls, at, want)
	testkit.Must(f.t, err)
}

// fetch has robots fetch their lists, and work by them.
func (f *fleet) fetch(robots ...string) {
	f.t.Helper()
	for _, robot := range robots {
		testkit.Must(f.t, f.Authenticate(f.t.Context(), robot, f.secrets[robot]))
		generation, err := f.Assignments.ListGeneration(f.t.Context(), robot)
		testkit.Must(f.t, err)
		lease, err := f.Assignments.Renew(f.t.Context(), robot, generation)
		testkit.Must(f.t, err)
		if !lease.Renewed {
			f.t.Fatalf("%s gets no lease with its list", robot)
		}
		f.works[robot] = generation
		testkit.Must(f.t, f.Assignments.Confirm(f.t.Context(), robot, generation))
	}
}

// may returns the robots whose lists let them visit a host now, as they are at the manager.
func (f *fleet) may(host string) (robots []string) {
	f.t.Helper()
	for _, robot := range []string{"r1", "r2", "r3"} {
		if f.secrets[robot] == "" {
			continue
		}
		_, lines, err := f.Assignments.List(f.t.Context(), robot)
		testkit.Must(f.t, err)
		for _, l := range lines {
			if l.URL == "http://"+host+".test/" && !l.Wait {
				robots = append(robots, robot)
			}
		}
	}
	return robots
}

func (f *fleet) want(host string, robots ...string) {
	f.t.Helper()
	got := f.may(host)
	if len(got) != len(robots) {
		f.t.Fatalf("%s may be visited by %v, want %v", host, got, robots)
	}
	for i := range got {
		if got[i] != robots[i] {
			f.t.Fatalf("%s may be visited by %v, want %v", host, got, robots)
		}
	}
}

// run lets the manager do what is due, for so long.
func (f *fleet) run(d time.Duration) {
	ctx, stop := context.WithCancel(f.t.Context())
	ended := make(chan error)
	go func() { ended <- f.Run(ctx) }()
	time.Sleep(d)
	stop()
	<-ended
}

// A process whose machine's clock is five minutes ahead ends no lease before the others would: the
// robot may still be visiting what another would be given.
func TestLeasesEndByOneClock(t *testing.T) {
	testkit.Slow(t)
	source := dbtest.Postgres(t)
	d, err := db.Open(t.Context(), source)
	testkit.Must(t, err)
	defer d.Close()
	wrong := db.NewClock(d, source, func() time.Time { return time.Now().Add(5 * time.Minute) })
	_, err = wrong.Measure(t.Context())
	testkit.Must(t, err)
	const lease = 3 * time.Minute
	process := func(now func() time.Time) *manager.Manager {
		return manager.New(d, manager.Options{Resolver: dns{}, Dir: t.TempDir(), Key: servicekey.Fixed(make([]byte, 64)), Balance: levelling.Settings{Lease: lease}, Now: now})
	}
	right, ahead := process(nil), process(wrong.Now)
	f := &fleet{right, t, joined(t, right, "r1", "r2"), map[string]int64{}}
	f.add(assign.Replication{}, "a")
	f.fetch("r1", "r2")
	f.want("a", "r1")
	testkit.Must(t, right.Assignments.Change(t.Context(), func(tx *assign.Tx) error {
		_, err := tx.Move(t.Context(), assign.Transfer{Hosts: []string{"a.test"}, From: "r1", To: "r2"})
		return err
	}))
	testkit.Must(t, ahead.Roster.Lapse(t.Context(), ahead.Assignments.Now()))
	f.want("a")
	testkit.Must(t, ahead.Roster.Lapse(t.Context(), ahead.Assignments.Now().Add(lease+2*wire.LeaseMargin(lease))))
	f.want("a", "r2")

	f.Manager = ahead // a lease that it gives lasts as long for the others
	f.fetch("r1", "r2")
	f.want("a", "r2")
	testkit.Must(t, ahead.Assignments.Change(t.Context(), func(tx *assign.Tx) error {
		_, err := tx.Move(t.Context(), assign.Transfer{Hosts: []string{"a.test"}, From: "r2", To: "r1"})
		return err
	}))
	testkit.Must(t, right.Roster.Lapse(t.Context(), right.Assignments.Now().Add(lease-10*time.Second)))
	f.want("a")
	testkit.Must(t, right.Roster.Lapse(t.Context(), right.Assignments.Now().Add(lease+2*wire.LeaseMargin(lease))))
	f.want("a", "r1")
}

const lease = 4 * time.Hour

// However a robot loses a host, no other may visit its address before the first has stopped: says
// so, or cannot be visiting it any more.
func TestAddressIsGivenOnWhenItsRobotHasStopped(t *testing.T) {
	testkit.Slow(t)
	for name, stops := range map[string]func(*fleet){
		"confirmed": func(f *fleet) { f.fetch("r1") },
		"stopped":   func(f *fleet) { testkit.Must(f.t, f.Roster.Unsubscribe(f.t.Context(), "r1")) },
		"lease over": func(f *fleet) {
			f.run(lease)
			f.want("a")
			f.run(wire.LeaseMargin(lease) + 2*time.Minute)
		},
		"dead": func(f *fleet) {
			testkit.Must(f.t, f.Roster.Dead(f.t.Context(), "r1", "its disk is lost"))
			f.want("a") // it may have visited the address just before
			f.run(wire.LeaseMargin(lease) + 2*time.Minute)
		},
		"revoked, lease over": func(f *fleet) {
			testkit.Must(f.t, f.Roster.Revoke(f.t.Context(), "r1", time.Time{}))
			f.run(lease)
			f.want("a")
			f.run(wire.LeaseMargin(lease) + 2*time.Minute)
		},
		"revoked, dead": func(f *fleet) {
			testkit.Must(f.t, f.Roster.Revoke(f.t.Context(), "r1", time.Time{}))
			f.want("a")
			testkit.Must(f.t, f.Roster.Dead(f.t.Context(), "r1", "it is switched off"))
			f.run(wire.LeaseMargin(lease) + 2*time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, lease, "r1", "r2")
				f.add(assign.Replication{}, "a", "b")
				if first := f.may("a"); len(first) != 1 || first[0] != "r1" {
					t.Fatalf("at first a is with %v", first)
				}
				f.fetch("r1", "r2")
				f.want("a", "r1")
				moved := 0
				testkit.Must(t, f.Assignments.Change(t.Context(), func(tx *assign.Tx) (err error) {
					moved, err = tx.Move(t.Context(), assign.Transfer{Hosts: []string{"a.test"}, From: "r1", To: "r2"})
					return err
				}))
				if moved != 1 {
					t.Fatal("not moved")
				}
				f.want("a")
				f.fetch("r2") // the taker's own word changes nothing
				f.want("a")
				stops(f)
				f.want("a", "r2")
			})
		})
	}
}

// What a robot has never been told of, it cannot be visiting.
func TestUntoldRobotIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, lease, "r1", "r2")
		f.add(assign.Replication{}, "a")
		testkit.Must(t, f.Roster.Revoke(t.Context(), "r1", time.Time{}))
		f.want("a", "r2")
	})
}

// A machine that joins under the name of a revoked robot waits for that robot, too.
func TestNamesakeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, lease, "r1")
		f.add(assign.Replication{}, "a")
		f.fetch("r1")
		testkit.Must(t, f.Roster.Revoke(t.Context(), "r1", time.Time{}))
		token, _, err := f.Roster.Admit(t.Context(), "r1")
		testkit.Must(t, err)
		answer, err := f.Roster.Join(t.Context(), wire.JoinRequest{Token: token, PublicKey: make([]byte, 32)})
		testkit.Must(t, err)
		f.secrets["r1"] = answer.Secret
		testkit.Must(t, f.Roster.Subscribe(t.Context(), "r1"))
		f.fetch("r1")
		f.want("a")
		f.run(lease + wire.LeaseMargin(lease) + 2*time.Minute)
		f.want("a", "r1")
	})
}

// A host that moves to another robot's address waits until its robot has stopped; and so does a new
// host at the old address.
func TestChangedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, lease, "r1", "r2")
		_, err := f.Hosts.AddHosts(t.Context(), []string{"http://a.test/", "http://b.test/"},
			map[string][]string{"a.test": {"192.0.2.1"}, "b.test": {"192.0.2.2"}}, assign.Replication{})
		testkit.Must(t, err)
		f.fetch("r1", "r2")
		f.want("a", "r1")
		f.want("b", "r2")
		testkit.Must(t, f.Hosts.ReportAddresses(t.Context(), "r1", map[string][]string{"a.test": {"192.0.2.2"}}))
		f.want("a")
		f.want("b", "r2")                // it goes on
		f.add(assign.Replication{}, "c") // at a's old address
		if got := f.may("c"); len(got) > 1 || len(got) == 1 && got[0] != "r1" {
			t.Errorf("c may be visited by %v, and r1 may still be there", got)
		}
		f.fetch("r2")
		f.want("a")
		f.fetch("r1")
		f.want("a", "r2")
		if got := f.may("c"); len(got) != 1 {
			t.Errorf("c may be visited by %v", got)
		}
	})
}

// Robots that share a host change their shares one after another: none goes by a new share before
// the others have left off the old ones.
func TestSharesChangeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, lease, "r1", "r2", "r3")
		for _, robot := range []string{"r1", "r2", "r3"} {
			testkit.Must(t, f.Assignments.SetShares(t.Context(), robot, true))
		}
		f.add(assign.Replication{Parts: 2}, "a")
		f.fetch("r1", "r2", "r3")
		had := f.may("a")
		if len(had) != 2 {
			t.Fatalf("two robots were to share it, not %v", had)
		}
		f.add(assign.Replication{Parts: 3}, "a")
		f.want("a")
		f.fetch(had[0])
		if got := f.may("a"); len(got) != 1 || got[0] != had[1] { // nobody but the one itself can be in its way
			t.Fatalf("only %s has the new share, and %v may visit", had[0], got)
		}
		f.fetch(had[1])
		f.want("a", "r1", "r2", "r3")
	})
}

// A lease is renewed only for the list that the robot works by, and shown until when.
func TestLeaseOfAnOldListIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, lease, "r1", "r2")
		f.add(assign.Replication{}, "a")
		f.fetch("r1")
		end := time.Now().Add(lease)
		time.Sleep(time.Hour)
		testkit.Must(t, f.Hosts.RemoveHost(t.Context(), "a.test"))
		if l, err := f.Assignments.Renew(t.Context(), "r1", f.works["r1"]); err != nil || l.Renewed {
			t.Errorf("renewed %+v, %v", l, err)
		}
		robots, err := f.Roster.Robots(t.Context())
		if err != nil || !robots[0].Leased.Equal(end.Truncate(time.Millisecond)) || robots[0].Waits != 1 {
			t.Errorf("shown as %+v, %v, want a lease until %v", robots[0], err, end)
		}
		f.fetch("r1")
		if l, err := f.Assignments.Renew(t.Context(), "r1", f.works["r1"]); err != nil || l.For != lease {
			t.Errorf("renewed %+v, %v", l, err)
		}
	})
}

// A robot whose heartbeats stay away is shown as late soon.
func TestHeartbeatsAreMissedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, lease, "r1")
		_, err := f.Heartbeat(t.Context(), "r1", wire.Heartbeat{Phase: wire.PhaseIdle})
		testkit.Must(t, err)
		late := func() time.Time {
			robots, err := f.Roster.Robots(t.Context())
			testkit.Must(t, err)
			return robots[0].Late
		}
		beat := time.Now()
		time.Sleep(5 * time.Minute)
		if !late().IsZero() {
			t.Error("late after five minutes")
		}
		time.Sleep(time.Minute)
		if since := late(); !since.Equal(beat.Add(5 * time.Minute).Truncate(time.Millisecond)) {
			t.Errorf("late since %v after six minutes", since)
		}
		beat = time.Now()
		_, err = f.Heartbeat(t.Context(), "r1", wire.Heartbeat{Phase: wire.PhaseIdle, EveryMS: 60_000})
		testkit.Must(t, err)
		time.Sleep(2 * time.Minute)
		if since := late(); !since.Equal(beat.Add(time.Minute).Truncate(time.Millisecond)) {
			t.Errorf("late since %v, although it says that it sends one every minute", since)
		}
	})
}

// Of two robots that are to measure hosts of one address, one comes after the other.
func TestProbesOfOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, lease, "r1", "r2", "r3")
		f.add(assign.Replication{}, "a", "b")
		f.fetch("r1", "r2", "r3")
		hold := func(robot, host string) (may, tooLong bool) {
			t.Helper()
			may, tooLong, _, err := f.Assignments.HoldForProbe(t.Context(), robot, host)
			testkit.Must(t, err)
			return may, tooLong
		}
		if may, busy := hold("r2", "a.test"); may || busy {
			t.Errorf("the first prober may begin at once: %t; another is first: %t", may, busy)
		}
		if may, busy := hold("r3", "b.test"); may || !busy {
			t.Errorf("the second prober may begin: %t; knows that another is first: %t", may, busy)
		}
		f.fetch("r1", "r3")
		if may, _ := hold("r2", "a.test"); !may {
			t.Error("the first prober may not begin when the host's robot has stopped")
		}
		testkit.Must(t, f.Assignments.EndProbes(t.Context(), "r2", []string{"a.test"}))
		hold("r3", "b.test")
		f.fetch("r1", "r2")
		if may, _ := hold("r3", "b.test"); !may {
			t.Error("the second prober may not begin after the first")
		}
	})
}

// A robot that measures another's host has its address for itself: it begins when the other has
// stopped, and the other goes on when it has answered, or when its time is over.
func TestProbeHasTheAddressForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, lease, "r1", "r2")
		f.add(assign.Replication{}, "a", "b")
		f.fetch("r1", "r2")
		f.want("a", "r1")
		may := func() bool {
			t.Helper()
			may, tooLong, address, err := f.Assignments.HoldForProbe(t.Context(), "r2", "a.test")
			testkit.Must(t, err)
			if address != "192.0.2.1" || tooLong {
				t.Errorf("the probe is at %s; it has waited too long: %t", address, tooLong)
			}
			return may
		}
		if may() {
			t.Error("a probe begins while the other robot visits the host")
		}
		f.want("a")
		f.want("b") // at the same address
		f.fetch("r2")
		if may() {
			t.Error("the prober's own word counts as the other's")
		}
		f.fetch("r1")
		if !may() {
			t.Error("the other robot has stopped, and no probe begins")
		}
		f.want("a")
		testkit.Must(t, f.Assignments.EndProbes(t.Context(), "r2", []string{"a.test"}))
		f.want("a", "r1")
		f.want("b", "r1")
		f.fetch("r1")
		if may() {
			t.Error("a probe begins while the other robot has begun again")
		}
		f.fetch("r1")
		if !may() {
			t.Error("the other robot has stopped again, and no probe begins")
		}
		f.run(assign.ProbeTime) // it does not answer
		f.want("a")
		f.run(wire.LeaseMargin(lease) + 2*time.Minute)
		f.want("a", "r1")
	})
}

// A clock that was a year ahead for a while and is right again makes no lease last for a year: a
// robot that stops then is noticed, and so are holds, after the time of a lease, and not before.
func TestClockThatWasAYearAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "sheaf.db"))
		testkit.Must(t, err)
		defer d.Close()
		ahead := time.Duration(0)
		now := func() time.Time { return time.Now().Add(ahead) }
		m := manager.New(d, manager.Options{Resolver: dns{}, Dir: t.TempDir(), Key: servicekey.Fixed(make([]byte, 64)), Balance: levelling.Settings{Lease: lease}, Now: now})
		f := &fleet{m, t, joined(t, m, "r1", "r2"), map[string]int64{}}
		f.add(assign.Replication{}, "a")
		f.fetch("r1", "r2")
		f.want("a", "r1")
		ahead = year
		f.fetch("r1", "r2")
		testkit.Must(t, m.Assignments.Change(t.Context(), func(tx *assign.Tx) error {
			_, err := tx.Move(t.Context(), assign.Transfer{Hosts: []string{"a.test"}, From: "r1", To: "r2"})
			return err
		}))
		ahead = 0
		generation, err := m.Assignments.ListGeneration(t.Context(), "r2")
		testkit.Must(t, err)
		if got, err := m.Assignments.Renew(t.Context(), "r2", generation); err != nil || got.For > lease {
			t.Errorf("the robot may go on for %s, %v; want %s at most", got.For, err, lease)
		}
		pass := func(d time.Duration) {
			t.Helper()
			time.Sleep(d)
			testkit.Must(t, m.Roster.Lapse(t.Context(), m.Assignments.Now()))
		}
		pass(0)
		pass(lease - time.Minute)
		f.want("a") // r1 may be visiting it
		pass(wire.LeaseMargin(lease) + 3*time.Minute)
		f.want("a", "r2")
	})
}

// A token for joining that was made by a clock that was ahead is good no longer than others.
func TestTokenOfAClockThatWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "sheaf.db"))
		testkit.Must(t, err)
		defer d.Close()
		ahead := 365 * 24 * time.Hour
		now := func() time.Time { return time.Now().Add(ahead) }
		m := manager.New(d, manager.Options{Resolver: dns{}, Dir: t.TempDir(), Key: servicekey.Fixed(make([]byte, 64)), Now: now})
		join := func(token string) error {
			_, err := m.Roster.Join(t.Context(), wire.JoinRequest{Token: token, PublicKey: make([]byte, 32)})
			return err
		}
		first, _, err := m.Roster.Admit(t.Context(), "r1")
		testkit.Must(t, err)
		ahead = 0
		if err := join(first); !errors.Is(err, roster.ErrToken) {
			t.Errorf("a token that expires in a year: %v", err)
		}
		again, _, err := m.Roster.Admit(t.Context(), "r1")
		testkit.Must(t, err)
		testkit.Must(t, join(again))
	})
}

// A manager that starts with a clock that is a day ahead ends no hold before its time: the robot
// may still be visiting. When the clock is right again, the hold of a robot whose credentials were
// revoked meanwhile lasts no longer than its lease, and no robot has had a host until a time that
// is still to come.
func TestStartWithAClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "sheaf.db"))
		testkit.Must(t, err)
		defer d.Close()
		ahead := time.Duration(0)
		start := func() *manager.Manager {
			return manager.New(d, manager.Options{Resolver: dns{}, Dir: t.TempDir(), Key: servicekey.Fixed(make([]byte, 64)), Balance: levelling.Settings{Lease: lease},
				Now: func() time.Time { return time.Now().Add(ahead) }})
		}
		m := start()
		f := &fleet{m, t, joined(t, m, "r1", "r2"), map[string]int64{}}
		f.add(assign.Replication{}, "a")
		f.fetch("r1", "r2")
		f.want("a", "r1")
		move := func(from, to string) {
			t.Helper()
			testkit.Must(t, f.Assignments.Change(t.Context(), func(tx *assign.Tx) error {
				_, err := tx.Move(t.Context(), assign.Transfer{Hosts: []string{"a.test"}, From: from, To: to})
				return err
			}))
		}
		move("r1", "r2")
		ahead = 24 * time.Hour
		f.Manager = start()
		lapse := func(after time.Duration) {
			t.Helper()
			time.Sleep(after)
			testkit.Must(t, f.Roster.Lapse(t.Context(), f.Assignments.Now()))
		}
		lapse(0)
		f.want("a")
		lapse(lease + 2*wire.LeaseMargin(lease))
		f.want("a", "r2")

		f.fetch("r1", "r2")
		ahead = 72 * time.Hour
		f.fetch("r1", "r2")
		move("r2", "r1")
		f.fetch("r2", "r1") // r2 has stopped, and r1 begun
		testkit.Must(t, f.Roster.Revoke(t.Context(), "r1", time.Time{}))
		delete(f.secrets, "r1")
		f.want("a")
		ahead = 0
		f.Manager = start()
		lapse(0)
		var ended int64
		testkit.Must(t, d.QueryRow(`SELECT MAX(ended) FROM assignments WHERE robot = 'r2'`).Scan(&ended))
		if end := time.UnixMilli(ended); end.After(time.Now()) {
			t.Errorf("r2 is taken to have had the host until %v; now it is %v", end, time.Now())
		}
		lapse(lease - time.Minute)
		f.want("a")
		lapse(5 * wire.LeaseMargin(lease))
		f.want("a", "r2")
	})
}
