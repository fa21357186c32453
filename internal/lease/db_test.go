package lease_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/lease"
	"sheaf/internal/testkit"
)

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
