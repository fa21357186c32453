package polite

import (
	"sync"
	"time"
)

// Budget counts the bytes that the robot receives, and says when it may continue after a daily or
// monthly limit is reached. It may be used concurrently.
type Budget struct {
	Daily, Monthly int64          // bytes; 0 means no limit
	Zone           *time.Location // a day begins at midnight in this zone

	mu  sync.Mutex // guards use
	use Usage
}

// Usage is the use of the current day and month, to be saved across restarts.
type Usage struct {
	Day        string `json:"day"` // 2026-11-21, in the budget's zone
	DayBytes   int64  `json:"day_bytes"`
	MonthBytes int64  `json:"month_bytes"`
}

// Restore sets the usage that an earlier process has saved.
func (b *Budget) Restore(u Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.use = u
}

// Usage returns the usage so far in the day and month of now.
func (b *Budget) Usage(now time.Time) Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roll(now)
	return b.use
}

// Add counts bytes. It reports whether just these bytes have reached a limit.
func (b *Budget) Add(now time.Time, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.next(now)
	b.use.DayBytes += bytes
	b.use.MonthBytes += bytes
	return before.Equal(now) && !b.next(now).Equal(now)
}

// Next returns the time from which bytes may be used: now if no limit is reached, otherwise the
// start of the next day or month.
func (b *Budget) Next(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next(now)
}

func (b *Budget) next(now time.Time) time.Time {
	b.roll(now)
	y, m, d := now.In(b.Zone).Date()
	switch {
	case b.Monthly > 0 && b.use.MonthBytes >= b.Monthly:
		return time.Date(y, m+1, 1, 0, 0, 0, 0, b.Zone)
	case b.Daily > 0 && b.use.DayBytes >= b.Daily:
		return time.Date(y, m, d+1, 0, 0, 0, 0, b.Zone)
	}
	return now
}

// roll begins a new day or month of usage if now is past the old one.
func (b *Budget) roll(now time.Time) {
	today := now.In(b.Zone).Format(time.DateOnly)
	if today == b.use.Day {
		return
	}
	const month = len("2026-11")
	if len(b.use.Day) < month || today[:month] != b.use.Day[:month] {
		b.use.MonthBytes = 0
	}
	b.use.Day, b.use.DayBytes = today, 0
}
