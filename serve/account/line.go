package account

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// line shares a rate among accounts: see the package comment.
type line struct {
	mu     sync.Mutex // guards what follows, and account.end
	queue  queue
	now    float64     // the tag served last
	free   time.Time   // when the next piece may pass
	rate   int64       // bytes a second, as given by the last caller
	waking *time.Timer // calls serve at free; nil if nobody waits
	count  uint64
}

// request is a piece that waits for its turn.
type request struct {
	tag   float64 // start of the piece in virtual time, in bytes
	order uint64  // of arrival, to order equal tags
	bytes int64
	turn  chan struct{} // closed when the piece may pass
	at    int           // index in the queue; -1: not in it
}

// wait waits for an account's turn to send n bytes over the line, at rate bytes a second.
func (l *line) wait(ctx context.Context, a *account, n, rate int64) error {
	l.mu.Lock()
	start := max(l.now, a.end)
	a.end = start + float64(n)
	l.count++
	r := &request{tag: start, order: l.count, bytes: n, turn: make(chan struct{})}
	heap.Push(&l.queue, r)
	l.rate = rate
	l.serve()
	l.mu.Unlock()
	select {
	case <-r.turn:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		if r.at >= 0 {
			heap.Remove(&l.queue, r.at)
		}
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
		r := heap.Pop(&l.queue).(*request)
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

// queue is a heap of requests by tag.
type queue []*request

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].tag != q[j].tag {
		return q[i].tag < q[j].tag
	}
	return q[i].order < q[j].order
}
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}
func (q *queue) Push(x any) {
	r := x.(*request)
	r.at = len(*q)
	*q = append(*q, r)
}
func (q *queue) Pop() any {
	old := *q
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	r.at = -1
	return r
}
