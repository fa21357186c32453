package lease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/lease"
	"sheaf/internal/testkit"
)

func TestMain(m *testing.M) { testkit.InMemory(m) }

// suite is the tests that every Locker must pass. open returns the Locker of one more process;
// asked returns how many clients hold a name or wait for it.
func suite(t *testing.T, asked func(name string) int, open func(*testing.T) lease.Locker) {
	t.Run("turns", func(t *testing.T) {
		j := &judge{t: t, random: testkit.Random(t)}
		var all sync.WaitGroup
		const clients, each = 4, 5
		for n := range clients {
			l := open(t)
			all.Go(func() { j.contend(t.Context(), fmt.Sprint("client ", n), l, each) })
		}
		all.Wait()
		if n := j.count(); n != clients*each {
			t.Errorf("%d turns, want %d", n, clients*each)
		}
		// A client that asks again is behind all who wait: at most three, and one more may ask
		// before it does.
		if n := j.starved(); n > 2*clients {
			t.Errorf("one client waited for %d turns of others", n)
		}
	})
	t.Run("error", func(t *testing.T) {
		bad := errors.New("bad")
		if err := open(t).Do(t.Context(), "error", func(context.Context, int64) error { return bad }); err != bad {
			t.Errorf("got %v, want the work's own error", err)
		}
	})
	t.Run("order", func(t *testing.T) { testOrder(t, asked, open) })
	t.Run("names", func(t *testing.T) {
		l := open(t)
		err := l.Do(t.Context(), "one", func(ctx context.Context, _ int64) error {
			return l.Do(ctx, "two", func(context.Context, int64) error { return nil })
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("cancel", func(t *testing.T) { testCancel(t, asked, open) })
	t.Run("raise", func(t *testing.T) {
		l := open(t)
		var last int64
		take := func() (token int64) {
			testkit.Must(t, l.Do(t.Context(), "raise", func(_ context.Context, n int64) error { token = n; return nil }))
			if token <= last {
				t.Errorf("token %d after %d", token, last)
			}
			last = token
			return token
		}
		take()
		for _, least := range []int64{1_000_000, 10, 2_000_000} { // 10 has no effect
			testkit.Must(t, l.Raise(t.Context(), "raise", least))
			if n := take(); n <= least {
				t.Errorf("token %d, raised to %d", n, least)
			}
		}
	})
}

// testOrder: waiters get the name in the order in which they asked.
func testOrder(t *testing.T, asked func(name string) int, open func(*testing.T) lease.Locker) {
	var mu sync.Mutex // guards order
	var order []int
	var all sync.WaitGroup
	go1 := make(chan struct{})
	holding := make(chan struct{})
	first := open(t)
	all.Go(func() {
		testkit.Must(t, first.Do(t.Context(), "order", func(context.Context, int64) error { close(holding); <-go1; return nil }))
	})
	<-holding
	for n := range 4 {
		l := open(t)
		all.Go(func() {
			testkit.Must(t, l.Do(t.Context(), "order", func(context.Context, int64) error {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, n)
				return nil
			}))
		})
		testkit.Until(t, "the next has asked", func() bool { return asked("order") == n+2 })
	}
	close(go1)
	all.Wait()
	if fmt.Sprint(order) != "[0 1 2 3]" {
		t.Errorf("came in the order %v", order)
	}
}

// testCancel: a waiter whose context ends does not delay the others.
func testCancel(t *testing.T, asked func(name string) int, open func(*testing.T) lease.Locker) {
	holder, quitter, next := open(t), open(t), open(t)
	err := holder.Do(t.Context(), "cancel", func(ctx context.Context, _ int64) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		quit := make(chan error, 1)
		go func() {
			quit <- quitter.Do(ctx, "cancel", func(context.Context, int64) error {
				t.Error("two clients hold the lease")
				return nil
			})
		}()
		testkit.Until(t, "the other waits", func() bool { return asked("cancel") == 2 })
		cancel()
		if err := testkit.Receive(t, "the waiter's end", quit); !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter gets %v", err)
		}
		return nil
	})
	testkit.Must(t, err)
	testkit.Must(t, next.Do(t.Context(), "cancel", func(context.Context, int64) error { return nil }))
}

func openDB(t *testing.T, source string) *sql.DB {
	t.Helper()
	d, err := db.Open(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestDB(t *testing.T) {
	for name, source := range map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testDB(t, source(t))
		})
	}
}

func testDB(t *testing.T, source string) {
	d := openDB(t, source)
	asked := func(name string) (n int) {
		testkit.Must(t, d.QueryRowContext(t.Context(), `SELECT count(*) FROM lease_queue WHERE name = ?`, name).Scan(&n))
		return n
	}
	suite(t, asked, func(t *testing.T) lease.Locker {
		return lease.NewDB(openDB(t, source), nil, lease.Options{TTL: 5 * time.Second})
	})
}

// still enters a queue without counting its beat, like a process that is suspended. It returns the
// token, with which the test later writes.
func still(t *testing.T, d *sql.DB, name, holder string) (token int64) {
	t.Helper()
	err := d.QueryRow(`INSERT INTO leases (name, token) VALUES (?, 1)
		ON CONFLICT (name) DO UPDATE SET token = leases.token + 1 RETURNING token`, name).Scan(&token)
	if err == nil {
		_, err = d.Exec(`INSERT INTO lease_queue (name, token, holder) VALUES (?, ?, ?)`, name, token, holder)
	}
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// A suspended holder loses its lease after the TTL, and the guarded resource refuses its later
// write.
func TestDBPassesOverWhoStandsStill(t *testing.T) {
	t.Parallel()
	source := dbtest.Source(t)
	synctest.Test(t, func(t *testing.T) {
		d := openDB(t, source)
		j := &judge{t: t, random: testkit.Random(t)}
		stale := still(t, d, "publish", "still")
		testkit.Must(t, j.write("still", stale))
		still(t, d, "publish", "waits, and stands still too")
		began := time.Now()
		const ttl = 500 * time.Millisecond
		j.contend(t.Context(), "next", lease.NewDB(d, nil, lease.Options{TTL: ttl}), 1)
		if took := time.Since(began); took < ttl {
			t.Errorf("lease passed on after %v", took)
		}
		if err := j.write("still", stale); !errors.Is(err, errRefused) {
			t.Errorf("a write of the suspended holder returned %v", err)
		}
	})
}

// Processes that share a directory do not wait for a dead holder. A holder that is alive, or that
// uses another directory, keeps its lease.
func TestDBKnowsTheDead(t *testing.T) {
	t.Parallel()
	source := dbtest.Source(t)
	synctest.Test(t, func(t *testing.T) {
		d := openDB(t, source)
		dir := t.TempDir()
		here, err := lease.Appear(dir)
		testkit.Must(t, err)
		dead, err := lease.Appear(dir)
		testkit.Must(t, err)
		alive, err := lease.Appear(dir)
		testkit.Must(t, err)
		elsewhere, err := lease.Appear(t.TempDir())
		testkit.Must(t, err)
		l := lease.NewDB(d, here, lease.Options{TTL: time.Hour})
		take := func(name string) error {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			if name == "of-the-dead" {
				ctx, cancel = context.WithTimeout(t.Context(), 2*time.Minute)
			}
			defer cancel()
			return l.Do(ctx, name, func(context.Context, int64) error { return nil })
		}
		still(t, d, "of-the-dead", dead.Name())
		still(t, d, "of-the-living", alive.Name())
		still(t, d, "of-another-place", elsewhere.Name())
		testkit.Must(t, dead.Close())
		testkit.Must(t, elsewhere.Close())
		testkit.Must(t, take("of-the-dead"))
		for _, name := range []string{"of-the-living", "of-another-place"} {
			if err := take(name); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A holder learns when others have removed its row and when its database is gone.
func TestDBTellsOfLoss(t *testing.T) {
	for name, lose := range map[string]func(*sql.DB) error{
		"row removed": func(d *sql.DB) error { _, err := d.Exec(`DELETE FROM lease_queue`); return err },
		"no database": func(d *sql.DB) error { return d.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			source := dbtest.Source(t)
			synctest.Test(t, func(t *testing.T) {
				d := openDB(t, source)
				l := lease.NewDB(d, nil, lease.Options{TTL: 300 * time.Millisecond})
				err := l.Do(t.Context(), "publish", func(ctx context.Context, _ int64) error {
					testkit.Must(t, lose(d))
					<-ctx.Done()
					if cause := context.Cause(ctx); !errors.Is(cause, lease.ErrLost) {
						t.Errorf("the context ended with cause %v", cause)
					}
					return ctx.Err()
				})
				if !errors.Is(err, lease.ErrLost) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// A holder at work keeps its lease, however long the work takes.
func TestDBPutsOff(t *testing.T) {
	t.Parallel()
	source := dbtest.Source(t)
	synctest.Test(t, func(t *testing.T) {
		d := openDB(t, source)
		l := lease.NewDB(d, nil, lease.Options{TTL: 10 * time.Second})
		testkit.Must(t, l.Do(t.Context(), "publish", func(ctx context.Context, _ int64) error {
			beat := func() (n int64) {
				testkit.Must(t, d.QueryRowContext(ctx, `SELECT beat FROM lease_queue`).Scan(&n))
				return n
			}
			for beat() < 3 && ctx.Err() == nil {
				time.Sleep(20 * time.Millisecond)
			}
			return ctx.Err()
		}))
	})
}

// judge is the resource that a lease guards. It accepts writes in the order of tokens, and records
// the turns.
type judge struct {
	t      *testing.T
	random *rand.Rand
	mu     sync.Mutex // guards what follows

	highest int64
	holder  string
	turns   []turn
}

// turn is one holder's time, from its first accepted write.
type turn struct {
	who   string
	token int64
}

var errRefused = errors.New("refused: a later holder has written")

// write writes to the guarded resource.
func (j *judge) write(who string, token int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case token < j.highest:
		return fmt.Errorf("token %d after %d: %w", token, j.highest, errRefused)
	case token > j.highest:
		j.highest, j.holder = token, who
		j.turns = append(j.turns, turn{who, token})
	case who != j.holder:
		j.t.Errorf("%s and %s are both accepted with token %d", j.holder, who, token)
	}
	return nil
}

// count returns the number of turns.
func (j *judge) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.turns)
}

// starved returns the largest number of others' turns between two turns of one client.
func (j *judge) starved() (most int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := make(map[string]int)
	for n, t := range j.turns {
		if before, ok := last[t.who]; ok {
			most = max(most, n-before-1)
		}
		last[t.who] = n
	}
	return most
}

// contend takes turns until ctx ends or, if turns is not 0, until it has had that many. A write
// that is refused although the lease is valid reveals a second holder.
func (j *judge) contend(ctx context.Context, who string, l lease.Locker, turns int) {
	for n := 0; ctx.Err() == nil && (turns == 0 || n < turns); n++ {
		err := l.Do(ctx, "publish", func(ctx context.Context, token int64) error {
			for range 3 {
				err := j.write(who, token)
				if err != nil && ctx.Err() == nil {
					j.t.Errorf("%s: %v, with a lease that it may be sure of", who, err)
				}
				if err != nil {
					return err
				}
				testkit.Moment(j.random, 4*time.Millisecond) // in which nobody else may write
			}
			return nil
		})
		if err != nil && ctx.Err() == nil && !errors.Is(err, lease.ErrLost) {
			j.t.Errorf("%s: %v", who, err)
		}
	}
}
