package crawl

import (
	"sync"
	"time"

	"sheaf/robotd/status"
)

// Meter counts, and knows how much was counted within the last minute. It keeps only the counts of
// two clock minutes, since every host has some meters: of the minute before, that part counts which
// is less than 60 s ago. Its methods may be called concurrently.
type Meter struct {
	mu     sync.Mutex // guards all below
	total  int64
	minute int64 // number of the current minute, since 1970
	now    int64 // counted in it
	before int64 // counted in the one before
}

// Add counts n more.
func (m *Meter) Add(n int64) {
	t := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(t)
	m.total += n
	m.now += n
}

// Load returns all that was counted.
func (m *Meter) Load() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

// PerMinute returns about how much was counted in the last minute.
func (m *Meter) PerMinute() int64 {
	t := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(t)
	into := t.Sub(time.Unix(60*m.minute, 0)).Seconds() / 60
	return m.now + int64(float64(m.before)*(1-into)+0.5)
}

func (m *Meter) turn(t time.Time) {
	switch minute := t.Unix() / 60; {
	case minute == m.minute:
	case minute == m.minute+1:
		m.minute, m.before, m.now = minute, m.now, 0
	default:
		m.minute, m.before, m.now = minute, 0, 0
	}
}

func (m *Meter) rate() status.Rate {
	return status.Rate{Total: m.Load(), PerMinute: m.PerMinute()}
}
