package db

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"
)

// Clock tells the time of a PostgreSQL server, so that processes on machines with different clocks
// agree on what has expired. It corrects the machine's clock by the result of the last Measure, so
// it costs no query. For a SQLite file, which one process uses, it is the machine's clock.
type Clock struct {
	db     *sql.DB
	ask    bool             // the database is PostgreSQL
	local  func() time.Time // the machine's clock
	offset atomic.Int64     // by how much the server is ahead of local; a time.Duration
}

// NewClock returns the clock of d, which Open has opened from source. local is the machine's clock;
// nil: time.Now. Until the first Measure both clocks count as equal.
func NewClock(d *sql.DB, source string, local func() time.Time) *Clock {
	if local == nil {
		local = time.Now
	}
	return &Clock{db: d, ask: IsPostgres(source), local: local}
}

// Now returns the machine's time, corrected by the last Measure.
func (c *Clock) Now() time.Time { return c.local().Add(time.Duration(c.offset.Load())) }

// Ahead returns by how much the machine's clock was ahead at the last Measure.
func (c *Clock) Ahead() time.Duration { return -time.Duration(c.offset.Load()) }

// Measure compares the machine's clock with the server's and returns by how much the machine's is
// ahead. It is exact to half the time that the server took to answer.
func (c *Clock) Measure(ctx context.Context) (ahead time.Duration, err error) {
	if !c.ask {
		return 0, nil
	}
	var ms int64
	asked := c.local()
	if err := c.db.QueryRowContext(ctx, `SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)`).Scan(&ms); err != nil {
		return 0, fmt.Errorf("the database's time: %w", err)
	}
	took := c.local().Sub(asked)
	ahead = asked.Add(took / 2).Sub(Time(ms))
	c.offset.Store(int64(-ahead))
	return ahead, nil
}
