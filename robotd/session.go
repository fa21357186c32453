package robotd

import (
	"context"
	"errors"
	"sync"
	"time"
)

// session keeps the robot in step with its manager: it tells the manager how far the robot is,
// carries out its orders, and works by its list of hosts. A manager that does not answer is asked
// again later; meanwhile the robot goes on by itself. Its methods may be called concurrently.
type session struct {
	robot    *Robot
	progress *progress
	passing  *passing
	asks     chan probes   // orders to measure distances
	gained   chan struct{} // has an element when the list has got hosts between two cycles

	asking sync.Mutex // held while the manager is asked and obeyed; guards here and away
	here   bool       // the manager knows that the robot is here
	away   bool       // the manager does not answer, and that is in the log

	mu    sync.Mutex // guards askAt
	askAt time.Time  // when the manager is asked for changes
}

// newSession returns a session. It asks the manager nothing yet.
func newSession(r *Robot) *session {
	return &session{
		robot: r, progress: newProgress(), passing: &passing{robot: r, service: r.keys}, asks: make(chan probes, 1), gained: make(chan struct{}, 1),
	}
}

// Subscribe tells the manager that the robot takes part (P5), unless this process has told it
// already.
func (s *session) Subscribe(ctx context.Context) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	return s.subscribe(ctx)
}

func (s *session) subscribe(ctx context.Context) error {
	if s.here {
		return nil
	}
	err := s.robot.client.Subscribe(ctx)
	s.here = err == nil
	return err
}

// TakeGained removes the element of gained, since all hosts of the list are visited now. It reports
// whether there was an element.
func (s *session) TakeGained() bool {
	select {
	case <-s.gained:
		return true
	default:
		return false
	}
}

// NextAsk sets and returns the time at which the manager is to be asked again.
func (s *session) NextAsk(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.askAt = now.Add(s.robot.cfg.Poll)
	return s.askAt
}

// Next returns the time that NextAsk has set; zero: none yet.
func (s *session) Next() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.askAt
}

// HandIn sends the log of the collection (P3) and the URLs found (P2). What the manager does not
// take now is kept until the next time.
func (s *session) HandIn(ctx context.Context) {
	rec := &s.robot.records
	err := rec.Journal.Rotate(time.Now())
	if err == nil {
		err = rec.Journal.Submit(ctx, s.robot.client)
	}
	if err = errors.Join(err, rec.Found.Report(ctx, s.robot.client)); err != nil && ctx.Err() == nil {
		s.robot.log.WarnContext(ctx, "log or hosts found not handed in; they are kept", "err", err)
	}
}

// AskWatches asks the manager which pages consumers watch. It queues new pages at once. Its errors
// are errors of the disk.
func (s *session) AskWatches(ctx context.Context) error {
	pages := s.robot.records.Watched
	list, etag, err := s.robot.client.Watches(ctx, pages.ETag())
	if err != nil {
		if ctx.Err() == nil {
			s.robot.log.DebugContext(ctx, "what is watched is not known anew", "err", err) // Ask logs that the manager is away
		}
		return nil
	}
	if list == nil {
		return nil
	}
	if err := pages.Set(etag, list.Watches); err != nil {
		return err
	}
	s.robot.log.InfoContext(ctx, "consumers watch", "watches", len(list.Watches))
	if c := s.robot.crawler.Current(); c != nil {
		return c.PushWatched()
	}
	return nil
}
