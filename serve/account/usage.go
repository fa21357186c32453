package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/loop"
)

// every is the interval of sending the counts to the database.
const every = 5 * time.Second

// kept is how long the counts of days are kept, in days.
const kept = 62

const dayForm = "20060102"

// today returns the day to which bytes are counted now.
func (m *Meter) today() string { return time.Now().In(m.Zone).Format(dayForm) }

// usedUp returns a *QuotaError for the current day.
func (m *Meter) usedUp(quota, used int64) error {
	return &QuotaError{Quota: quota, Used: used, Next: tomorrow(time.Now().In(m.Zone))}
}

// tomorrow returns the start of the day after t's: midnight or, if clocks skip it, the first
// instant after.
func tomorrow(t time.Time) time.Time {
	y, month, d := t.Date()
	next := time.Date(y, month, d+1, 0, 0, 0, 0, t.Location())
	if next.Day() == d {
		_, next = next.ZoneBounds()
	}
	return next
}

// turnover begins the new day's count if the day has changed. Bytes of the old day that were not
// sent to the database may be lost, since no quota needs them any more. a.mu must be held.
func (m *Meter) turnover(a *account) {
	if day := m.today(); a.day != day {
		a.day, a.counted, a.fresh, a.asked = day, 0, 0, false
	}
}

func (m *Meter) moved(a *account, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m.turnover(a)
	a.fresh += n
}

// used returns the account's bytes of the day, as far as this process knows.
func (m *Meter) used(a *account) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	m.turnover(a)
	return a.counted + a.fresh
}

// ask reads the account's bytes of today from the database, once.
func (m *Meter) ask(ctx context.Context, a *account) error {
	a.mu.Lock()
	m.turnover(a)
	asked := a.asked
	a.mu.Unlock()
	if asked || m.DB == nil {
		return nil
	}
	return m.count(ctx, a)
}

// Used flushes, and returns the current day's bytes by account, as the database has them. Without a
// database the map is empty.
func (m *Meter) Used(ctx context.Context) (map[string]int64, error) {
	used := make(map[string]int64)
	if m.DB == nil {
		return used, nil
	}
	if err := m.Flush(ctx); err != nil {
		return nil, err
	}
	err := db.Each(ctx, m.DB, func(rows *sql.Rows) error {
		var name string
		var n int64
		err := rows.Scan(&name, &n)
		used[name] = n
		return err
	}, `SELECT account, bytes FROM account_bytes WHERE day = ?`, m.today())
	if err != nil {
		return nil, fmt.Errorf("bytes of accounts: %w", err)
	}
	return used, nil
}

// count adds the account's recent bytes to the database, and reads what other processes have added.
func (m *Meter) count(ctx context.Context, a *account) error {
	a.counting.Lock()
	defer a.counting.Unlock()
	a.mu.Lock()
	m.turnover(a)
	day, fresh := a.day, a.fresh
	a.mu.Unlock()
	var total int64
	err := m.DB.QueryRowContext(ctx, `INSERT INTO account_bytes (account, day, bytes) VALUES (?, ?, ?)
		ON CONFLICT (account, day) DO UPDATE SET bytes = account_bytes.bytes + excluded.bytes RETURNING bytes`,
		a.name, day, fresh).Scan(&total)
	if err != nil {
		return fmt.Errorf("bytes of account %s: %w", a.name, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.day == day {
		a.counted, a.asked = total, true
		a.fresh -= fresh
	}
	return nil
}

// Flush sends all counts to the database.
func (m *Meter) Flush(ctx context.Context) error {
	if m.DB == nil {
		return nil
	}
	m.mu.Lock()
	busy := slices.Collect(maps.Values(m.accounts))
	m.mu.Unlock()
	var errs []error
	for _, a := range busy {
		if err := m.count(ctx, a); err != nil {
			errs = append(errs, err)
			continue
		}
		m.mu.Lock()
		m.forget(a)
		m.mu.Unlock()
	}
	return errors.Join(errs...)
}

// Run sends the counts to the database until ctx ends, and once more then. It logs errors and tries
// again.
func (m *Meter) Run(ctx context.Context) error {
	if m.DB == nil {
		<-ctx.Done()
		return nil
	}
	swept := ""
	_ = loop.After(ctx, every, func(ctx context.Context) error {
		err := m.Flush(ctx)
		if day := m.today(); err == nil && day != swept {
			_, err = m.DB.ExecContext(ctx, `DELETE FROM account_bytes WHERE day < ?`,
				time.Now().In(m.Zone).AddDate(0, 0, -kept).Format(dayForm))
			if err == nil {
				swept = day
			}
		}
		return err
	}, func(err error) {
		m.Log.WarnContext(ctx, "bandwidth: bytes not counted in the database; trying again", "err", err)
	})
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), every)
	defer cancel()
	return m.Flush(bounded)
}
