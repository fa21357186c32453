package robotd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sheaf/internal/loop"
	"sheaf/robotd/client"
	"sheaf/robotd/crawl"
	"sheaf/robotd/polite"
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

// Ask asks the manager for a restart (P4) and for changes of the list (P1), and reports what was
// found (P2). It logs all errors and returns nil.
func (s *session) Ask(ctx context.Context) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	restart, err := s.robot.client.IsRestart(ctx, s.robot.list.List().Generation)
	if err == nil && restart {
		err = s.restart(ctx)
	} else if err == nil {
		err = s.Refresh(ctx)
	}
	err = errors.Join(err, s.robot.records.Found.Report(ctx, s.robot.client))
	if err != nil && ctx.Err() == nil {
		s.robot.log.WarnContext(ctx, "manager not reached as planned", "err", err)
	}
	return nil
}

// restart makes a batch, and gets the list anew. Nothing that was collected is lost. Until the new
// list is there, the old one holds: the manager repeats its order.
func (s *session) restart(ctx context.Context) error {
	s.robot.log.InfoContext(ctx, "the manager asks for a restart")
	if err := s.robot.seal(ctx); err != nil {
		return err
	}
	return s.refresh(ctx, "")
}

// Refresh asks for the list and works by it if it has changed.
func (s *session) Refresh(ctx context.Context) error { return s.refresh(ctx, s.robot.list.List().ETag) }

// refresh is Refresh for the list that has an ETag; "": for any list. If the robot has stopped
// visiting hosts, it asks again with the new list at once: other robots wait until this one works
// by the new list.
func (s *session) refresh(ctx context.Context, etag string) error {
	for {
		sent := polite.Sent()
		list, lease, err := s.robot.client.List(ctx, etag)
		if err != nil {
			return err
		}
		if list == nil {
			return s.robot.manners.Lease.Renew(sent, lease)
		}
		stopped, err := s.workBy(ctx, s.robot.list.List(), list)
		if err == nil {
			err = s.robot.manners.Lease.Renew(sent, lease)
		}
		if err != nil || !stopped {
			return err
		}
		etag = list.ETag
	}
}

// workBy changes from the old list to the new one. It reports whether it stopped visits to any
// host.
func (s *session) workBy(ctx context.Context, old, list *client.List) (stopped bool, err error) {
	c := s.robot.crawler.Current()
	hosts := list.Hosts()
	var dropped, waiting []string
	for name := range old.Hosts() {
		switch {
		case hosts[name] == nil:
			dropped = append(dropped, name)
		case list.Waits[name] && !old.Waits[name]:
			waiting = append(waiting, name)
		}
	}
	if c != nil {
		if err := c.Stop(ctx, slices.Concat(dropped, waiting)); err != nil {
			return false, err
		}
	}
	if err := s.pass(ctx, c, old.Generation, dropped); err != nil {
		return false, err
	}
	fresh := list.Fresh(old)
	if err := s.passing.takeOver(ctx, list.Handovers, fresh); err != nil {
		return false, err
	}
	if list.Leased {
		if err := s.passing.rest(fresh, list.Intervals); err != nil {
			return false, err
		}
	}
	if err := s.robot.list.Set(list); err != nil {
		return false, err
	}
	// A crawl that was just beginning may have taken these hosts in meanwhile, by the old list.
	if now := s.robot.crawler.Current(); now != nil {
		if err := now.Stop(ctx, slices.Concat(dropped, waiting)); err != nil {
			return false, err
		}
		now.Drop(dropped)
	}
	if err := s.forget(dropped); err != nil {
		return false, err
	}
	s.robot.log.InfoContext(ctx, "list of hosts", "generation", list.Generation, "hosts", len(hosts), "dropped", len(dropped), "waiting", len(list.Waits))
	return len(dropped)+len(waiting) > 0, s.takeUp(ctx, c, old, list)
}

// takeUp brings the changes of the list into the current crawl. If no crawl takes new hosts, it
// announces them by gained.
func (s *session) takeUp(ctx context.Context, c *crawl.Crawl, old, list *client.List) error {
	if c != nil {
		if err := c.Renew(ctx, old); err != nil {
			return err
		}
		if !c.Short() {
			if taken, err := c.Start(ctx, list.Hosts()); taken || err != nil {
				return err
			}
		}
	}
	if list.Gained(old) {
		loop.Offer(s.gained, struct{}{})
	}
	return nil
}

// TellMoves tells the manager which hosts have moved, and works by the list that follows. It logs
// all errors and returns nil.
func (s *session) TellMoves(ctx context.Context) error {
	found := s.robot.manners.Moves.Found()
	if len(found) == 0 {
		return nil
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	err := s.robot.client.Addresses(ctx, found)
	if client.Refused(err) { // one of the hosts is not this robot's any more
		for host, at := range found {
			if err = s.robot.client.Addresses(ctx, map[string][]string{host: at}); err != nil && !client.Refused(err) {
				break
			}
			err = nil
		}
	}
	if err == nil {
		err = s.Refresh(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.robot.log.DebugContext(ctx, "hosts that have moved stay at their old addresses: the manager does not know yet", "hosts", len(found), "err", err)
		}
		return nil
	}
	s.robot.manners.Moves.Told(found)
	return nil
}

// Leave hands over all hosts and takes the robot off the manager's list (P5). Call it when the
// crawl has ended. It may be repeated.
func (s *session) Leave(ctx context.Context) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	list := s.robot.list.List()
	if err := s.passing.handOver(ctx, list.Generation, slices.Collect(maps.Keys(list.Hosts()))); err != nil {
		return err
	}
	if err := s.robot.manners.Lease.End(); err != nil { // the hosts go to others with the next request
		return err
	}
	if err := s.robot.client.Unsubscribe(ctx); err != nil {
		return err
	}
	// If the robot comes back, what it knows now is out of date: others have gone on with its
	// hosts.
	return s.robot.list.Set(&client.List{Generation: list.Generation})
}

// pass passes on hosts that went to another robot. It first seals what was collected of them, while
// the old list holds, since the batch is judged by that list. If nothing was collected, there is no
// batch.
func (s *session) pass(ctx context.Context, c *crawl.Crawl, generation int64, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if c != nil {
		c.Drop(names)
	}
	begun, err := s.anyBegun(names)
	if err != nil {
		return err
	}
	if begun {
		if err := s.robot.seal(ctx); err != nil {
			return err
		}
	}
	return s.passing.handOver(ctx, generation, names)
}

// forget deletes what is known of hosts that are not in the list any more.
func (s *session) forget(names []string) error {
	s.progress.forget(names)
	rec := &s.robot.records
	for _, name := range names {
		s.robot.servers.Forget(name)
		rec.Watched.Forget(name)
		if err := errors.Join(rec.Frontier.Forget(name), s.robot.manners.Rules.Forget(name)); err != nil {
			return err
		}
	}
	return nil
}

// anyBegun reports whether pages of one of the hosts may be in open segments.
func (s *session) anyBegun(names []string) (bool, error) {
	for _, name := range names {
		front, err := s.robot.records.Frontier.Host(name)
		if err != nil {
			return false, err
		}
		if front.Begun() {
			return true, nil
		}
	}
	return false, nil
}

// Times between two questions for the first list of hosts, without which there is nothing to do.
const (
	listWait    = time.Second // after the first question, doubled with each further one
	listWaitMax = time.Minute
)

// errNoList is the error of a robot that has no list of hosts.
var errNoList = errors.New("the service has assigned no hosts to this robot yet; its operator adds some with sheaf host add")

// AwaitList waits until there is a list of hosts, and logs why there is none. If patience is not
// zero, it gives up after that time, or as soon as the service's answer shows that waiting does not
// help. Its error then says what to do.
func (s *session) AwaitList(ctx context.Context, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for wait := listWait; !s.robot.list.List().Known(); wait = min(2*wait, listWaitMax) {
		err := s.subscribeAndRefresh(ctx)
		if s.robot.list.List().Known() {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		why, vain := s.whyNoList(err)
		if patience > 0 && (vain || !time.Now().Add(wait).Before(deadline)) {
			return why
		}
		if err == nil || vain {
			err = why
		}
		s.robot.log.WarnContext(ctx, "waiting for the service and its list of hosts", "again", wait, "err", err)
		if !loop.Pause(ctx, wait) {
			return ctx.Err()
		}
	}
	return nil
}

func (s *session) subscribeAndRefresh(ctx context.Context) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	if err := s.subscribe(ctx); err != nil {
		return err
	}
	return s.Refresh(ctx)
}

// whyNoList returns the error to show when there is no list. err is the error of asking the
// service. vain reports whether only a person can help.
func (s *session) whyNoList(err error) (why error, vain bool) {
	if advice, needed := client.Advice(err); needed {
		return fmt.Errorf("%w; %s", err, advice), true
	}
	if err != nil {
		return fmt.Errorf("no list of hosts: the service at %s does not answer: is it running, is the setting manager right, does the way there need a proxy? robotd check tries it: %w", s.robot.client, err), false
	}
	return errNoList, false
}
