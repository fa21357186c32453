package polite

import (
	"sync"
	"time"
)

// Budget counts the bytes that came over the robot's line and says when it may
// go on once a day's or a month's share is used up. Many goroutines may use one.
type Budget struct {
	Daily, Monthly int64          // bytes; 0 is no limit
	Zone           *time.Location // whose midnight begins a day

	mu  sync.Mutex // guards use
	use Usage
}

// Usage is what a day and a month have used so far, to be kept over a restart.
type Usage struct {
	Day        string `json:"day"` // 2026-11-21, in the budget's zone
	DayBytes   int64  `json:"day_bytes"`
	MonthBytes int64  `json:"month_bytes"`
}

// Restore sets what an earlier run has used.
func (b *Budget) Restore(u Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.use = u
}

// Usage returns what is used by now.
func (b *Budget) Usage(now time.Time) Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roll(now)
	return b.use
}

// Add counts bytes. It reports whether a limit was reached with them.
func (b *Budget) Add(now time.Time, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.next(now)
	b.use.DayBytes += bytes
	b.use.MonthBytes += bytes
	return before.Equal(now) && !b.next(now).Equal(now)
}

// Next returns when bytes may be used: now itself where none of the limits is reached.
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

// roll begins a new day or month where the clock has come to one.
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
