package account

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"
)

// line shares a rate among accounts: see the package comment.
type line struct {
	mu     sync.Mutex  // guards what follows, and account.end
	queue  []*request  // by tag, then as they came
	now    float64     // the tag served last
	free   time.Time   // when the next piece may pass
	rate   int64       // bytes a second, as given by the last caller
	waking *time.Timer // calls serve at free; nil if nobody waits
}

// request is a piece that waits for its turn.
type request struct {
	tag   float64 // start of the piece in virtual time, in bytes
	bytes int64
	turn  chan struct{} // closed when the piece may pass
}

// wait waits for an account's turn to send n bytes over the line, at rate bytes a second.
func (l *line) wait(ctx context.Context, a *account, n, rate int64) error {
	l.mu.Lock()
	start := max(l.now, a.end)
	a.end = start + float64(n)
	r := &request{tag: start, bytes: n, turn: make(chan struct{})}
	at := sort.Search(len(l.queue), func(i int) bool { return l.queue[i].tag > start })
	l.queue = slices.Insert(l.queue, at, r)
	l.rate = rate
	l.serve()
	l.mu.Unlock()
	select {
	case <-r.turn:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		l.queue = slices.DeleteFunc(l.queue, func(q *request) bool { return q == r })
		return context.Cause(ctx)
	}
}

// serve lets all pieces pass that may pass now, and sets a timer for the next. l.mu must be held.
func (l *line) serve() {
	now := time.Now()
	if early := now.Add(-time.Second / perSecond); l.free.Before(early) {
		l.free = early
	}
	for len(l.queue) > 0 && !l.free.After(now) {
		r := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		l.now = r.tag
		l.free = l.free.Add(time.Duration(float64(r.bytes) / float64(l.rate) * float64(time.Second)))
		close(r.turn)
	}
	if len(l.queue) == 0 || l.waking != nil {
		return
	}
	l.waking = time.AfterFunc(l.free.Sub(now), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waking = nil
		l.serve()
	})
}
