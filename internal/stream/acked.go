package stream

import (
	"context"
	"net"
	"sync"
	"time"
)

// socket is what the system tells of a connection.
type socket struct {
	acked  int64 // bytes, since its beginning
	queued int   // bytes written and not yet acknowledged
	ended  bool  // it was reset: nothing will be acknowledged any more
}

// Meter measures one transfer over a connection. Its methods may be called from several goroutines.
type Meter struct {
	conn  *net.TCPConn
	start int64 // position on the connection at which the transfer begins

	mu   sync.Mutex // guards last
	last socket     // as it was last seen: the connection may be closed at any time
}

// NewMeter begins to measure what is written to the connection from now on. It returns nil where
// the system cannot tell.
func NewMeter(c *net.TCPConn) *Meter {
	if c == nil {
		return nil
	}
	s, ok := look(c)
	if !ok {
		return nil
	}
	return &Meter{conn: c, start: s.acked + int64(s.queued), last: s}
}

func (m *Meter) look() (s socket, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok = look(m.conn); ok {
		m.last = s
	}
	return m.last, ok
}

// Acked is how many bytes of what was written since NewMeter have been acknowledged. The end of the
// connection counts as one.
func (m *Meter) Acked() int64 {
	s, _ := m.look()
	return max(0, s.acked-m.start)
}

// Written is how many bytes were written since NewMeter, acknowledged or not. It is not known once
// the connection was reset: the system forgets what it had not sent.
func (m *Meter) Written() (bytes int64, known bool) {
	s, open := m.look()
	return s.acked + int64(s.queued) - m.start, open && !s.ended
}

// Taken is how a transfer ended.
type Taken struct {
	Acked int64     // bytes acknowledged, as Meter.Acked has it
	At    time.Time // when that was seen: of the last byte, where all were acknowledged
	Lost  bool      // the peer will not acknowledge the rest: it has broken off, or takes nothing
}

// How often a connection is looked at: the time that a transfer has taken may be wrong by so much.
const (
	oftenest = time.Millisecond
	seldom   = 250 * time.Millisecond
	fraction = 50 // of the time since its beginning
)

// stopTime is how long those that are followed have left when their Follower stops.
const stopTime = time.Second

// Follower follows transfers in the background until their last byte is acknowledged. Its methods
// may be called from many goroutines.
type Follower struct {
	stop    context.Context
	cancel  context.CancelFunc
	working sync.WaitGroup
	places  chan struct{}
}

// mostFollowed is how many transfers are followed at once; those beyond are taken as they stand.
const mostFollowed = 10_000

// NewFollower makes a follower, which must be closed.
func NewFollower() *Follower {
	f := &Follower{places: make(chan struct{}, mostFollowed)}
	f.stop, f.cancel = context.WithCancel(context.Background())
	return f
}

// Close gives those that are still followed a moment and returns when all have ended. Nothing may
// be followed any more.
func (f *Follower) Close() {
	time.AfterFunc(stopTime, f.cancel)
	f.working.Wait()
	f.cancel()
}

// Follow waits until so many bytes since the meter's beginning have been acknowledged, or until the
// peer has acknowledged none for so long as patience says, or its connection has ended. It calls
// done then, in a goroutine of its own, or at once where it is so already.
func (f *Follower) Follow(m *Meter, begun time.Time, bytes int64, patience time.Duration, done func(Taken)) {
	r, over := m.verdict(bytes)
	if !over {
		select {
		case f.places <- struct{}{}:
			f.working.Go(func() {
				defer func() { <-f.places }()
				done(m.follow(f.stop, begun, bytes, patience))
			})
			return
		default:
		}
	}
	done(r)
}

func (m *Meter) verdict(bytes int64) (r Taken, over bool) {
	s, open := m.look()
	r = Taken{Acked: max(0, s.acked-m.start), At: time.Now()}
	r.Lost = r.Acked < bytes && (s.ended || !open)
	return r, r.Lost || r.Acked >= bytes
}

func (m *Meter) follow(stop context.Context, begun time.Time, bytes int64, patience time.Duration) Taken {
	moved, before := time.Now(), int64(-1)
	for {
		r, over := m.verdict(bytes)
		if r.Acked != before {
			moved, before = r.At, r.Acked
		}
		switch {
		case over:
			return r
		case r.At.Sub(moved) >= patience:
			r.Lost, r.At = true, moved
			return r
		}
		pause := time.NewTimer(min(max(time.Since(begun)/fraction, oftenest), seldom))
		select {
		case <-pause.C:
		case <-stop.Done():
			pause.Stop()
			return r
		}
	}
}
