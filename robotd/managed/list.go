package managed

import (
	"context"
	"errors"
	"maps"
	"slices"

	"sheaf/internal/loop"
	"sheaf/robotd/client"
	"sheaf/robotd/crawl"
	"sheaf/robotd/polite"
)

// Ask asks the manager for a restart (P4) and for changes of the list (P1), and reports what was
// found (P2). It logs all errors and returns nil.
func (s *Session) Ask(ctx context.Context) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	restart, err := s.opt.Client.IsRestart(ctx, s.opt.List.List().Generation)
	if err == nil && restart {
		err = s.restart(ctx)
	} else if err == nil {
		err = s.Refresh(ctx)
	}
	err = errors.Join(err, s.opt.Records.Found.Report(ctx, s.opt.Client))
	if err != nil && ctx.Err() == nil {
		s.opt.Log.WarnContext(ctx, "manager not reached as planned", "err", err)
	}
	return nil
}

// restart makes a batch, and gets the list anew. Nothing that was collected is lost.
func (s *Session) restart(ctx context.Context) error {
	s.opt.Log.InfoContext(ctx, "the manager asks for a restart")
	if err := s.opt.Seal(ctx); err != nil {
		return err
	}
	old := s.opt.List.List()
	list := &client.List{
		Generation: old.Generation, URLs: old.URLs, Shares: old.Shares, Depths: old.Depths, Waits: old.Waits, Leased: old.Leased, Handovers: old.Handovers,
	}
	if err := s.opt.List.Set(list); err != nil {
		return err
	}
	return s.Refresh(ctx)
}

// Refresh asks for the list and works by it if it has changed. If the robot has stopped visiting
// hosts, it asks again with the new list at once: other robots wait until this one works by the new
// list.
func (s *Session) Refresh(ctx context.Context) error {
	for {
		sent := polite.Sent()
		old := s.opt.List.List()
		list, lease, err := s.opt.Client.List(ctx, old.ETag)
		if err != nil {
			return err
		}
		if list == nil {
			return s.opt.Manners.Lease.Renew(sent, lease)
		}
		stopped, err := s.workBy(ctx, old, list)
		if err == nil {
			err = s.opt.Manners.Lease.Renew(sent, lease)
		}
		if err != nil || !stopped {
			return err
		}
	}
}

// workBy changes from the old list to the new one. It reports whether it stopped visits to any
// host.
func (s *Session) workBy(ctx context.Context, old, list *client.List) (stopped bool, err error) {
	c := s.opt.Crawler.Current()
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
	if err := s.opt.List.Set(list); err != nil {
		return false, err
	}
	// A crawl that was just beginning may have taken these hosts in meanwhile, by the old list.
	if now := s.opt.Crawler.Current(); now != nil {
		if err := now.Stop(ctx, slices.Concat(dropped, waiting)); err != nil {
			return false, err
		}
		now.Drop(dropped)
	}
	if err := s.forget(dropped); err != nil {
		return false, err
	}
	s.opt.Log.InfoContext(ctx, "list of hosts", "generation", list.Generation, "hosts", len(hosts), "dropped", len(dropped), "waiting", len(list.Waits))
	return len(dropped)+len(waiting) > 0, s.takeUp(ctx, c, old, list)
}

// takeUp brings the changes of the list into the current crawl. If no crawl takes new hosts, it
// announces them by Gained.
func (s *Session) takeUp(ctx context.Context, c *crawl.Crawl, old, list *client.List) error {
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
func (s *Session) TellMoves(ctx context.Context) error {
	found := s.opt.Manners.Moves.Found()
	if len(found) == 0 {
		return nil
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	err := s.opt.Client.Addresses(ctx, found)
	if client.Refused(err) { // one of the hosts is not this robot's any more
		for host, at := range found {
			if err = s.opt.Client.Addresses(ctx, map[string][]string{host: at}); err != nil && !client.Refused(err) {
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
			s.opt.Log.DebugContext(ctx, "hosts that have moved stay at their old addresses: the manager does not know yet", "hosts", len(found), "err", err)
		}
		return nil
	}
	s.opt.Manners.Moves.Told(found)
	return nil
}

// Leave hands over all hosts and takes the robot off the manager's list (P5). Call it when the
// crawl has ended. It may be repeated.
func (s *Session) Leave(ctx context.Context) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	list := s.opt.List.List()
	if err := s.passing.handOver(ctx, list.Generation, slices.Collect(maps.Keys(list.Hosts()))); err != nil {
		return err
	}
	if err := s.opt.Manners.Lease.End(); err != nil { // the hosts go to others with the next request
		return err
	}
	if err := s.opt.Client.Unsubscribe(ctx); err != nil {
		return err
	}
	// If the robot comes back, what it knows now is out of date: others have gone on with its
	// hosts.
	return s.opt.List.Set(&client.List{Generation: list.Generation})
}

// pass passes on hosts that went to another robot. It first seals what was collected of them, while
// the old list holds, since the batch is judged by that list. If nothing was collected, there is no
// batch.
func (s *Session) pass(ctx context.Context, c *crawl.Crawl, generation int64, names []string) error {
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
		if err := s.opt.Seal(ctx); err != nil {
			return err
		}
	}
	return s.passing.handOver(ctx, generation, names)
}

// forget deletes what is known of hosts that are not in the list any more.
func (s *Session) forget(names []string) error {
	s.progress.forget(names)
	rec := &s.opt.Records
	for _, name := range names {
		s.opt.Servers.Forget(name)
		rec.Watched.Forget(name)
		if err := errors.Join(rec.Frontier.Forget(name), s.opt.Manners.Rules.Forget(name)); err != nil {
			return err
		}
	}
	return nil
}

// anyBegun reports whether pages of one of the hosts may be in open segments.
func (s *Session) anyBegun(names []string) (bool, error) {
	for _, name := range names {
		front, err := s.opt.Records.Frontier.Host(name)
		if err != nil {
			return false, err
		}
		if front.Begun() {
			return true, nil
		}
	}
	return false, nil
}
