package robotd

import (
	"sync"
	"time"

	"sheaf/robotd/status"
)

// meter counts, and knows how much came within the last minute. It takes two minutes'
// counts and no more, because every host has some: the minute before counts for the part
// of it that is less than 60 s ago.
type meter struct {
	mu     sync.Mutex // guards all below
	total  int64
	slot   int64 // the minute of now, since 1970
	now    int64
	before int64
}

// Add counts n more.
func (m *meter) Add(n int64) {
	t := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(t)
	m.total += n
	m.now += n
}

// Load returns all that was counted.
func (m *meter) Load() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

// PerMinute returns about how much was counted in the last minute.
func (m *meter) PerMinute() int64 {
	t := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(t)
	into := t.Sub(time.Unix(60*m.slot, 0)).Seconds() / 60
	return m.now + int64(float64(m.before)*(1-into)+0.5)
}

func (m *meter) turn(t time.Time) {
	switch slot := t.Unix() / 60; {
	case slot == m.slot:
	case slot == m.slot+1:
		m.slot, m.before, m.now = slot, m.now, 0
	default:
		m.slot, m.before, m.now = slot, 0, 0
	}
}

// rate returns what Load and PerMinute do.
func (m *meter) rate() status.Rate {
	return status.Rate{Total: m.Load(), PerMinute: m.PerMinute()}
}
