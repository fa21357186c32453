package transfers

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/loop"
)

// Besides the single transfers the database has sums: by the hour in which a transfer began or, for
// old hours, by the day. So years of rates take little room, and are kept longer than the
// transfers' own rows.

// Period sums up the transfers that began in one hour, day or month.
type Period struct {
	Begin     time.Time
	Who       string // empty: everybody together
	Direction string
	Count     int64
	Aborted   int64 // number of aborted transfers in Count
	Bytes     int64
	Timed     int64         // bytes of the transfers with a time: all but redirected ones
	Took      time.Duration // sum over all transfers
}

// Rate returns the mean rate of a transfer in bytes per second, or 0 if no time is known.
func (p Period) Rate() float64 { return rateOf(p.Timed, p.Took.Seconds()) }

// Lengths of periods.
const (
	Hour  = "hour"
	Day   = "day"
	Month = "month"
)

// PeriodFilter selects periods.
type PeriodFilter struct {
	By        string    // Hour, Day or Month, in Since's time zone
	Since     time.Time // transfers from the beginning of this time's period on
	Until     time.Time // transfers that began before; zero: no limit
	Who       string    // empty: all
	Direction string    // empty: both
	Each      bool      // a Period for each robot and account; otherwise one for all
}

// Next returns the beginning of the period after the one that begins at t.
func (f *PeriodFilter) Next(t time.Time) time.Time {
	switch f.By {
	case Hour:
		return t.Add(time.Hour)
	case Month:
		return t.AddDate(0, 1, 0)
	}
	return t.AddDate(0, 0, 1)
}

// Beginning returns the beginning of the period that includes t.
func (f *PeriodFilter) Beginning(t time.Time) time.Time {
	t = t.In(f.Since.Location())
	y, m, d := t.Date()
	switch f.By {
	case Hour:
		return time.Unix(t.Unix()-t.Unix()%3600, 0).In(t.Location())
	case Month:
		d = 1
	}
	return time.Date(y, m, d, 0, 0, 0, 0, t.Location())
}

// Periods returns the periods that f selects, sorted by time, then uploads before downloads, then
// by name. It leaves out periods without transfers.
func (l *Log) Periods(ctx context.Context, f PeriodFilter) ([]Period, error) {
	who := "''"
	if f.Each {
		who = "who"
	}
	terms, args := "begin >= ?", []any{db.Millis(f.Beginning(f.Since))}
	add := func(term string, arg any) { terms, args = terms+" AND "+term, append(args, arg) }
	if !f.Until.IsZero() {
		add("begin < ?", db.Millis(f.Until))
	}
	if f.Who != "" {
		add("who = ?", f.Who)
	}
	if f.Direction != "" {
		add("direction = ?", f.Direction)
	}
	type key struct {
		begin          int64
		who, direction string
	}
	sums := make(map[key]*Period)
	err := db.Each(ctx, l.db, func(rows *sql.Rows) error {
		var p Period
		var begin, took int64
		if err := rows.Scan(&begin, &p.Who, &p.Direction, &p.Count, &p.Aborted, &p.Bytes, &p.Timed, &took); err != nil {
			return err
		}
		p.Begin, p.Took = f.Beginning(db.Time(begin)), time.Duration(took)*time.Microsecond
		k := key{p.Begin.Unix(), p.Who, p.Direction}
		if sums[k] == nil {
			sums[k] = &p
			return nil
		}
		sums[k].Add(p)
		return nil
	}, `SELECT begin, `+who+`, direction, SUM(transfers), SUM(aborted), SUM(bytes),
			SUM(CASE protocol WHEN '`+Redirect+`' THEN 0 ELSE bytes END), SUM(took_us)
		FROM transfer_totals WHERE `+terms+` GROUP BY 1, 2, 3`, args...)
	if err != nil {
		return nil, fmt.Errorf("transfers: periods: %w", err)
	}
	list := make([]Period, 0, len(sums))
	for _, p := range sums {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b Period) int {
		return cmp.Or(a.Begin.Compare(b.Begin), -strings.Compare(a.Direction, b.Direction), strings.Compare(a.Who, b.Who))
	})
	return list, nil
}

// Add adds the figures of another period.
func (p *Period) Add(o Period) {
	p.Count += o.Count
	p.Aborted += o.Aborted
	p.Bytes += o.Bytes
	p.Timed += o.Timed
	p.Took += o.Took
}

// sumKey is the key of a row of sums.
type sumKey struct {
	begin                    int64 // ms since 1970
	direction, protocol, who string
}

// addSums adds transfers to the sums of their hours.
func addSums(ctx context.Context, tx *sql.Tx, list []Transfer) error {
	const hour = int64(time.Hour / time.Millisecond)
	sums := make(map[sumKey]*Period)
	for _, t := range list {
		at := db.Millis(t.At)
		one := Period{Count: 1, Bytes: t.Bytes, Took: t.Took}
		if t.Outcome == Aborted {
			one.Aborted = 1
		}
		k := sumKey{at - at%hour, t.Direction, t.Protocol, t.Who}
		if sums[k] == nil {
			sums[k] = new(Period)
		}
		sums[k].Add(one)
	}
	return writeSums(ctx, tx, Hour, sums)
}

// writeSums adds sums to the stored rows, always in the same order, so that two processes cannot
// deadlock.
func writeSums(ctx context.Context, tx *sql.Tx, span string, sums map[sumKey]*Period) error {
	keys := slices.SortedFunc(maps.Keys(sums), func(a, b sumKey) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), strings.Compare(a.direction, b.direction), strings.Compare(a.protocol, b.protocol), strings.Compare(a.who, b.who))
	})
	for _, k := range keys {
		p := sums[k]
		_, err := tx.ExecContext(ctx, `
			INSERT INTO transfer_totals (span, begin, direction, protocol, who, transfers, aborted, bytes, took_us)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (span, begin, direction, protocol, who) DO UPDATE SET
				transfers = transfer_totals.transfers + excluded.transfers, aborted = transfer_totals.aborted + excluded.aborted,
				bytes = transfer_totals.bytes + excluded.bytes, took_us = transfer_totals.took_us + excluded.took_us`,
			span, k.begin, k.direction, k.protocol, k.who, p.Count, p.Aborted, p.Bytes, p.Took.Microseconds())
		if err != nil {
			return err
		}
	}
	return nil
}

// KeepHours is how long sums are kept by the hour. Older sums are kept by the day.
const KeepHours = 400 * 24 * time.Hour

// Keeping says how long single transfers are kept.
type Keeping struct {
	Single    time.Duration  `mapstructure:"keep" want:"at least 0s"`      // 0: for ever
	Addresses time.Duration  `mapstructure:"addresses" want:"at least 0s"` // time after which clients' addresses are removed from downloads; 0: never
	Zone      *time.Location `mapstructure:"-"`                            // zone of the days to which old hours are summed up
}

// Run drops transfers and addresses that have been kept long enough, at once and every hour, until
// ctx ends. It passes errors to tell and goes on.
func (l *Log) Run(ctx context.Context, k Keeping, tell func(error)) error {
	return loop.Every(ctx, time.Hour, func(ctx context.Context) error { return l.trim(ctx, k, time.Now()) }, tell)
}

// blankAtOnce is how many addresses one statement removes, so that no other writer waits for long.
const blankAtOnce = 10_000

// blank removes clients' addresses that have been kept long enough.
func (l *Log) blank(ctx context.Context, k Keeping, now time.Time) error {
	if k.Addresses <= 0 {
		return nil
	}
	for {
		n, err := db.Exec(ctx, l.db, `UPDATE transfers SET remote = '' WHERE id IN (
			SELECT id FROM transfers WHERE direction = 'download' AND remote <> '' AND at < ? ORDER BY at LIMIT ?)`,
			db.Millis(now.Add(-k.Addresses)), blankAtOnce)
		if err != nil {
			return fmt.Errorf("transfers: remove old addresses: %w", err)
		}
		if n < blankAtOnce {
			return nil
		}
	}
}

// trim drops single transfers and addresses that are too old, and turns old hours into days.
func (l *Log) trim(ctx context.Context, k Keeping, now time.Time) error {
	if k.Single > 0 {
		// As in the audit log: a clock that is ahead loses nothing before it has written for a day.
		const day = 24 * time.Hour
		_, err := l.db.ExecContext(ctx, `DELETE FROM transfers WHERE at < ? AND at <= (SELECT MAX(at) FROM transfers WHERE at <= ?) - ?`,
			db.Millis(now.Add(-k.Single)), db.Millis(now.Add(-day)), (k.Single - day).Milliseconds())
		if err != nil {
			return fmt.Errorf("transfers: drop old ones: %w", err)
		}
	}
	if err := l.blank(ctx, k, now); err != nil {
		return err
	}
	days := PeriodFilter{By: Day, Since: now.Add(-KeepHours).In(k.Zone)}
	before := db.Millis(days.Beginning(days.Since))
	err := db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		sums := make(map[sumKey]*Period)
		// Only the hours that this statement has deleted become days. So each counts once, even if
		// two processes do this.
		err := db.Each(ctx, tx, func(rows *sql.Rows) error {
			var k sumKey
			var p Period
			var took int64
			if err := rows.Scan(&k.begin, &k.direction, &k.protocol, &k.who, &p.Count, &p.Aborted, &p.Bytes, &took); err != nil {
				return err
			}
			p.Took = time.Duration(took) * time.Microsecond
			k.begin = db.Millis(days.Beginning(db.Time(k.begin)))
			if sums[k] == nil {
				sums[k] = new(Period)
			}
			sums[k].Add(p)
			return nil
		}, `DELETE FROM transfer_totals WHERE span = 'hour' AND begin < ?
			RETURNING begin, direction, protocol, who, transfers, aborted, bytes, took_us`, before)
		if err != nil {
			return err
		}
		return writeSums(ctx, tx, Day, sums)
	})
	if err != nil {
		return fmt.Errorf("transfers: turn old hours into days: %w", err)
	}
	return nil
}
