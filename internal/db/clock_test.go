package db_test

import (
	"testing"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

// A process whose machine's clock is wrong has the time of the database's server.
func TestClock(t *testing.T) {
	testkit.Slow(t)
	source := dbtest.Postgres(t)
	d, err := db.Open(t.Context(), source)
	testkit.Must(t, err)
	defer d.Close()
	for _, wrong := range []time.Duration{0, 5 * time.Minute, -36 * time.Hour} {
		c := db.NewClock(d, source, func() time.Time { return time.Now().Add(wrong) })
		asked := time.Now()
		ahead, err := c.Measure(t.Context())
		testkit.Must(t, err)
		now, answered := c.Now(), time.Now()
		near := answered.Sub(asked) + time.Millisecond // it cannot be told closer than the answer takes
		if (ahead-wrong).Abs() > near || now.Before(asked.Add(-near)) || now.After(answered.Add(near)) {
			t.Errorf("a clock that is %v ahead: measured %v in %v, and it is %v", wrong, ahead, near, now)
		}
	}
	c := db.NewClock(d, "sheaf.db", func() time.Time { return time.Unix(1, 0) })
	if ahead, err := c.Measure(t.Context()); err != nil || ahead != 0 || !c.Now().Equal(time.Unix(1, 0)) {
		t.Errorf("SQLite's clock: %v ahead, %v, %v", ahead, c.Now(), err)
	}
}
