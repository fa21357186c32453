package levelling_test

import (
	"crypto/ed25519"
	"database/sql"
	"testing"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/assign"
)

// Nights are recorded in both databases: when a cycle began, how long the robot worked, and what
// was learned of its hosts' gaps.
func TestNightsAreRecorded(t *testing.T) {
	for engine, source := range map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(engine, func(t *testing.T) {
			d, err := db.Open(t.Context(), source(t))
			testkit.Must(t, err)
			defer d.Close()
			recordNights(t, d)
		})
	}
}

func recordNights(t *testing.T, d *sql.DB) {
	m := manager.New(d, manager.Options{Key: servicekey.Fixed(ed25519.NewKeyFromSeed(make([]byte, 32))), Dir: t.TempDir()})
	token, _, err := m.Roster.Admit(t.Context(), "r1")
	testkit.Must(t, err)
	_, err = m.Roster.Join(t.Context(), wire.JoinRequest{Token: token, PublicKey: make([]byte, 32)})
	testkit.Must(t, err)
	testkit.Must(t, m.Roster.Subscribe(t.Context(), "r1"))
	_, err = m.Hosts.AddHosts(t.Context(), []string{"http://a.test/", "http://b.test/"}, nil, assign.Replication{})
	testkit.Must(t, err)
	beat := func(hb wire.Heartbeat) {
		t.Helper()
		_, err := m.Levelling.NoteHeartbeat(t.Context(), "r1", hb)
		testkit.Must(t, err)
		_, err = d.ExecContext(t.Context(), `UPDATE heartbeats SET at = at - 600000`) // ten minutes pass
		testkit.Must(t, err)
	}
	begun, done := wire.HostProgress{State: wire.HostBegun}, wire.HostProgress{State: wire.HostDone, Pages: 60, Bytes: 1 << 20, MS: 600_000}
	beat(wire.Heartbeat{Phase: wire.PhaseCollecting, Cycle: 1, Left: 2, All: true, Hosts: map[string]wire.HostProgress{"a.test": begun, "b.test": begun}})
	for n := range int64(7) { // a.test is done after 40 minutes
		hb := wire.Heartbeat{Phase: wire.PhaseCollecting, Cycle: 1, Left: 1, Pages: 20 * n, MS: 200_000 * n}
		if n == 3 {
			hb.Hosts = map[string]wire.HostProgress{"a.test": done}
		}
		beat(hb)
	}
	beat(wire.Heartbeat{Phase: wire.PhaseIdle, Cycle: 1, Pages: 140, MS: 1_400_000, Hosts: map[string]wire.HostProgress{"b.test": done}})
	status, err := m.Levelling.Status(t.Context())
	testkit.Must(t, err)
	if len(status.Nights) != 1 || status.Nights[0].Ended.IsZero() || status.Nights[0].Worked/60_000 < 74.9 || status.Nights[0].Worked/60_000 > 75.1 {
		t.Errorf("nights %+v, want one of 75 minutes", status.Nights)
	}
	beat(wire.Heartbeat{Phase: wire.PhaseCollecting, Cycle: 2, Left: 2})
	var gap float64
	testkit.Must(t, d.QueryRowContext(t.Context(), `SELECT gap FROM hosts WHERE name = 'b.test'`).Scan(&gap))
	if gap/1000 < 64 || gap/1000 > 66 { // (75 min - 10 min) / 60 pages, where a.test has 30 s
		t.Errorf("gap of %.0f ms", gap)
	}
	if status, err = m.Levelling.Status(t.Context()); err != nil || len(status.Nights) != 2 || time.Since(status.Nights[0].Began) > time.Hour {
		t.Errorf("nights %+v, %v", status.Nights, err)
	}
}
