package levelling_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/lease"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
)

// planners are managers on one database, each with its own connections.
type planners struct {
	t    *testing.T
	db   *sql.DB
	all  []*manager.Manager
	next int
}

func newPlanners(t *testing.T, source string, leases func(*sql.DB) lease.Locker) *planners {
	t.Helper()
	p := &planners{t: t}
	for range 2 {
		d, err := db.Open(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		p.db = d
		p.all = append(p.all, manager.New(d, manager.Options{
			Key: servicekey.Fixed(ed25519.NewKeyFromSeed(make([]byte, 32))), Dir: t.TempDir(), Leases: leases(d), Log: slog.New(slog.DiscardHandler),
			Policy: hosts.Policy{Accept: []string{"test"}},
		}))
	}
	m := p.all[0]
	for _, robot := range []string{"r1", "r2"} {
		token, _, err := m.Roster.Admit(t.Context(), robot)
		testkit.Must(t, err)
		_, err = m.Roster.Join(t.Context(), wire.JoinRequest{Token: token, PublicKey: make([]byte, 32)})
		testkit.Must(t, err)
		testkit.Must(t, m.Roster.Subscribe(t.Context(), robot))
	}
	var urls []string
	for i := range 8 {
		urls = append(urls, fmt.Sprintf("http://h%d.test/", i))
	}
	_, err := m.Hosts.AddHosts(t.Context(), urls, nil, assign.Replication{})
	testkit.Must(t, err)
	return p
}

// turnCosts lets the robots submit logs by which each host is at the wrong robot, so that a plan
// moves some.
func (p *planners) turnCosts() {
	p.t.Helper()
	p.next++
	ms := []int{500, 16_000}
	for i, robot := range []string{"r1", "r2"} {
		at := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, p.next-400)
		var log bytes.Buffer
		testkit.Must(p.t, wire.WriteLog(&log, fmt.Sprintf("%s.%d", robot, p.next), func(yield func(wire.LogLine) bool) {
			for h := range 8 {
				took := time.Duration(ms[(i+p.next)%2]) * time.Millisecond
				if !yield(wire.LogLine{URL: fmt.Sprintf("http://h%d.test/", h), Sent: 100, Got: 100 << 10, Took: took, At: at}) {
					return
				}
			}
		}))
		_, err := p.db.ExecContext(p.t.Context(), `DELETE FROM costs WHERE robot = ?`, robot) // of former nights
		testkit.Must(p.t, err)
		_, err = p.all[0].Costs.SubmitLog(p.t.Context(), robot, &log)
		testkit.Must(p.t, err)
	}
}

// together lets both plan at once.
func (p *planners) together() (plans []levelling.Plan, fenced int) {
	p.t.Helper()
	var mu sync.Mutex
	var both sync.WaitGroup
	for _, m := range p.all {
		both.Go(func() {
			plan, err := m.Levelling.Rebalance(p.t.Context(), false)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, levelling.ErrFenced):
				fenced++
			case err != nil:
				p.t.Error(err)
			default:
				plans = append(plans, plan)
			}
		})
	}
	both.Wait()
	return plans, fenced
}

// broken is a lease that excludes nobody. Only the tokens are left.
type broken struct{ last *atomic.Int64 }

func (b broken) Do(ctx context.Context, _ string, f func(context.Context, int64) error) error {
	return f(ctx, b.last.Add(1))
}

func (b broken) Raise(context.Context, string, int64) error { return nil }

// Two managers that plan at once never both change one assignment. With a lease they take turns;
// if the lease fails, the database refuses one of them.
func TestTwoPlanners(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	engines := map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres}
	for engine, source := range engines {
		for _, kind := range []string{"lease", "broken lease"} {
			t.Run(engine+"/"+kind, func(t *testing.T) {
				leases := func(d *sql.DB) lease.Locker { return lease.NewDB(d, nil, lease.Options{TTL: time.Minute}) }
				if kind == "broken lease" {
					b := broken{new(atomic.Int64)}
					leases = func(*sql.DB) lease.Locker { return b }
				}
				p := newPlanners(t, source(t), leases)
				made := map[int64]bool{}
				refused := 0
				for range 6 {
					p.turnCosts()
					plans, fenced := p.together()
					refused += fenced
					moved := 0
					for _, plan := range plans {
						if plan.Moved == 0 {
							continue // it finds the other's
						}
						moved++
						if made[plan.Generation] {
							t.Errorf("two plans of generation %d", plan.Generation)
						}
						made[plan.Generation] = true
					}
					if moved != 1 || kind == "lease" && fenced > 0 {
						t.Errorf("%d plans, %d of them with moves, %d refused", len(plans), moved, fenced)
					}
				}
				t.Logf("%d plans, %d refused", len(made), refused)
			})
		}
	}
}

// A planner that stands still while another one plans changes nothing afterwards. Its next plan
// is accepted.
func TestStalePlanner(t *testing.T) {
	testkit.Slow(t)
	for engine, source := range map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(engine, func(t *testing.T) {
			b := broken{new(atomic.Int64)}
			p := newPlanners(t, source(t), func(*sql.DB) lease.Locker { return b })
			p.turnCosts()
			slow, quick := p.all[0], p.all[1]
			release := slow.Levelling.HoldPlanning()
			ended := make(chan error, 1)
			go func() { _, err := slow.Levelling.Rebalance(t.Context(), false); ended <- err }()
			testkit.Until(t, "it has its turn", func() bool { return b.token(t, p.db) > 0 })
			if plan, err := quick.Levelling.Rebalance(t.Context(), false); err != nil || plan.Moved == 0 {
				t.Fatalf("%+v, %v", plan, err)
			}
			p.turnCosts() // now there would be something to move
			before := b.generation(t, p.db)
			release()
			if err := <-ended; !errors.Is(err, levelling.ErrFenced) {
				t.Errorf("the one that stood still gets %v", err)
			}
			if after := b.generation(t, p.db); after != before {
				t.Errorf("it made generation %d of %d", after, before)
			}
			if plan, err := slow.Levelling.Rebalance(t.Context(), false); err != nil || plan.Moved == 0 {
				t.Errorf("its next plan: %+v, %v", plan, err)
			}
		})
	}
}

func (broken) token(t *testing.T, d *sql.DB) (n int64) {
	testkit.Must(t, d.QueryRowContext(t.Context(), `SELECT token FROM plans`).Scan(&n))
	return n
}

func (broken) generation(t *testing.T, d *sql.DB) (n int64) {
	testkit.Must(t, d.QueryRowContext(t.Context(), `SELECT number FROM generation`).Scan(&n))
	return n
}

// If leases begin anew with low tokens, the tokens are raised above the one written down.
func TestPlannerRaisesLeases(t *testing.T) {
	p := newPlanners(t, dbtest.Source(t), func(d *sql.DB) lease.Locker { return lease.NewDB(d, nil, lease.Options{}) })
	_, err := p.db.ExecContext(t.Context(), `UPDATE plans SET token = 1000`)
	testkit.Must(t, err)
	if _, err := p.all[0].Levelling.Rebalance(t.Context(), false); !errors.Is(err, levelling.ErrFenced) {
		t.Errorf("the first: %v", err)
	}
	if _, err := p.all[0].Levelling.Rebalance(t.Context(), false); err != nil {
		t.Errorf("the second: %v", err)
	}
}
