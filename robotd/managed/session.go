// Package managed keeps the robot in step with its manager: it tells the manager how far the robot
// is, carries out its orders, and works by its list of hosts. A manager that does not answer is
// asked again later; meanwhile the robot goes on by itself.
package managed

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/crawl"
	"sheaf/robotd/fetch"
	"sheaf/robotd/revisit"
)

// Options are what a session needs. All must be set.
type Options struct {
	Settings *config.Config
	Identity *client.Identity
	Version  string // of the program
	Client   *client.Client
	List     *client.Assignment
	Service  wire.Verifier // verifies what other robots hand over
	Manners  *crawl.Manners
	Records  crawl.Records
	Servers  *revisit.Servers
	Orders   *revisit.Orders
	Fetcher  *fetch.Fetcher // for probes
	Crawler  *crawl.Crawler
	Seal     func(context.Context) error    // makes a batch of what is collected
	Cycle    func() int64                   // returns the number of the last cycle
	Upgrade  func()                         // looks for a release of the robot's program
	Troubles func() map[wire.Trouble]string // returns what keeps the robot from its work
	Signing  func() []wire.SigningKey       // returns the keys by which requests are signed; none: they are not
	Log      *slog.Logger
}

// Session is the robot's talk with its manager. Its methods may be called concurrently.
type Session struct {
	opt      Options
	progress *progress
	passing  *passing
	prober   *prober
	gained   chan struct{} // has an element when the list has got hosts between two cycles

	asking sync.Mutex // held while the manager is asked and obeyed; guards here and away
	here   bool       // the manager knows that the robot is here
	away   bool       // the manager does not answer, and that is in the log

	mu    sync.Mutex // guards askAt
	askAt time.Time  // when the manager is asked for changes
}

// New returns a session. It asks the manager nothing yet.
func New(opt Options) *Session {
	told := newProgress()
	return &Session{
		opt: opt, progress: told, gained: make(chan struct{}, 1),
		passing: &passing{opt: &opt}, prober: &prober{opt: &opt, progress: told, asks: make(chan probes, 1)},
	}
}

// Probe measures the distances of hosts that the manager has ordered, until ctx ends.
func (s *Session) Probe(ctx context.Context) error { return s.prober.run(ctx) }

// Subscribe tells the manager that the robot takes part (P5), unless this process has told it
// already.
func (s *Session) Subscribe(ctx context.Context) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	return s.subscribe(ctx)
}

func (s *Session) subscribe(ctx context.Context) error {
	if s.here {
		return nil
	}
	err := s.opt.Client.Subscribe(ctx)
	s.here = err == nil
	return err
}

// Gained has an element when the list has got hosts that no crawl visits.
func (s *Session) Gained() <-chan struct{} { return s.gained }

// TakeGained removes the element of Gained, since all hosts of the list are visited now. It reports
// whether there was an element.
func (s *Session) TakeGained() bool {
	select {
	case <-s.gained:
		return true
	default:
		return false
	}
}

// Note takes in how far the hosts of a cycle are, before its crawl ends.
func (s *Session) Note(hosts []*crawl.Host) { s.progress.note(s.opt.Cycle(), hosts) }

// NextAsk sets and returns the time at which the manager is to be asked again.
func (s *Session) NextAsk(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.askAt = now.Add(s.opt.Settings.Poll)
	return s.askAt
}

// Next returns the time that NextAsk has set; zero: none yet.
func (s *Session) Next() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.askAt
}

// HandIn sends the log of the collection (P3) and the URLs found (P2). What the manager does not
// take now is kept until the next time.
func (s *Session) HandIn(ctx context.Context) {
	rec := &s.opt.Records
	err := rec.Journal.Rotate(time.Now())
	if err == nil {
		err = rec.Journal.Submit(ctx, s.opt.Client)
	}
	if err = errors.Join(err, rec.Found.Report(ctx, s.opt.Client)); err != nil && ctx.Err() == nil {
		s.opt.Log.WarnContext(ctx, "log or hosts found not handed in; they are kept", "err", err)
	}
}

// AskWatches asks the manager which pages consumers watch. It queues new pages at once. Its errors
// are errors of the disk.
func (s *Session) AskWatches(ctx context.Context) error {
	pages := s.opt.Records.Watched
	list, etag, err := s.opt.Client.Watches(ctx, pages.ETag())
	if err != nil {
		if ctx.Err() == nil {
			s.opt.Log.DebugContext(ctx, "what is watched is not known anew", "err", err) // Ask logs that the manager is away
		}
		return nil
	}
	if list == nil {
		return nil
	}
	if err := pages.Set(etag, list.Watches); err != nil {
		return err
	}
	s.opt.Log.InfoContext(ctx, "consumers watch", "watches", len(list.Watches))
	if c := s.opt.Crawler.Current(); c != nil {
		return c.PushWatched()
	}
	return nil
}
