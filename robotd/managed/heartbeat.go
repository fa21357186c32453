package managed

import (
	"context"
	"fmt"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/crawl"
	"sheaf/robotd/polite"
)

// Beat tells the manager how far the robot is, and carries out the manager's orders. Its errors are
// the robot's own: a manager that is away is told the next time.
func (s *Session) Beat(ctx context.Context) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	if err := s.subscribe(ctx); err != nil {
		s.missed(ctx, err)
		return nil
	}
	s.passOn(ctx)
	for {
		hb, told, err := s.heartbeat()
		if err != nil {
			return err
		}
		sent := polite.Sent()
		orders, lease, err := s.opt.Client.Heartbeat(ctx, hb)
		if err != nil {
			s.missed(ctx, err)
			return nil
		}
		if err := s.opt.Manners.Lease.Renew(sent, lease); err != nil {
			return err
		}
		if s.away {
			s.away = false
			s.opt.Log.InfoContext(ctx, "the manager answers again")
		}
		more := told()
		if err := s.obey(ctx, sent, orders); err != nil && ctx.Err() == nil {
			s.opt.Log.WarnContext(ctx, "manager's orders not carried out", "directive", orders.Directives, "err", err)
		}
		if !more {
			return nil
		}
	}
}

// heartbeat returns what to tell the manager. told notes that the manager knows it, and reports
// whether there is more to tell.
func (s *Session) heartbeat() (hb wire.Heartbeat, told func() (more bool), err error) {
	list := s.opt.List.List()
	hb = wire.Heartbeat{
		List: list.ETag, Generation: list.Generation, Version: s.opt.Version, Cycle: s.opt.Cycle(), Held: s.opt.Manners.Admission.Held(),
		EveryMS: s.opt.Settings.Heartbeat.Milliseconds(), Clock: s.opt.Client.Clock(),
		Contact: s.opt.Settings.Contact, Troubles: s.opt.Troubles(), Signing: s.opt.Signing(),
	}
	hb.Links = s.opt.Records.Tally.Links()
	c := s.opt.Crawler.Current()
	if c != nil && c.Short() { // the progress of hosts is that of the cycle, which has ended
		c = nil
	}
	hb.Phase = s.phase(c, hb.Cycle, time.Now())
	if c != nil && hb.Phase != wire.PhaseStarting {
		hosts := c.Hosts()
		s.progress.note(hb.Cycle, hosts)
		for _, h := range hosts {
			if !h.Unreached() { // a host that cannot be reached is no load
				hb.Left += int64(h.Front.Left())
			}
		}
		hb.Crowded = int64(c.Crowded(time.Now()))
	}
	batches, err := s.opt.Records.Batches.Spool()
	for _, b := range batches {
		hb.Spool += b.Size
	}
	filled := s.progress.fill(&hb)
	taken, taking := s.opt.Orders.Taken()
	hb.Taken = taken
	return hb, func() bool {
		taking()
		return filled()
	}, err
}

// phase returns what the robot does now. c is the crawl of a cycle; nil: no cycle is under way.
func (s *Session) phase(c *crawl.Crawl, cycle int64, now time.Time) wire.Phase {
	open := s.opt.Manners.Admission.MayVisit(now)
	switch {
	case s.opt.Manners.Admission.Paused():
		return wire.PhasePaused
	case c != nil && c.IsStarting():
		return wire.PhaseStarting
	case c != nil && !open:
		return wire.PhaseClosed
	case c != nil:
		return wire.PhaseCollecting
	case cycle > 0 && open:
		return wire.PhaseIdle
	}
	return wire.PhaseResting
}

// missed notes that the manager was not told, and logs it once. The caller holds asking.
func (s *Session) missed(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case s.away:
		s.opt.Log.DebugContext(ctx, "heartbeat not taken", "err", err)
	default:
		s.away = true
		s.opt.Log.WarnContext(ctx, "the manager does not answer; the robot goes on by itself and keeps what it collects", "err", err)
	}
}

// passOn tells the manager at once what was found in other robots' shares, since those robots wait
// for it.
func (s *Session) passOn(ctx context.Context) {
	if len(s.opt.List.List().Shares) == 0 {
		return
	}
	if err := s.opt.Records.Found.Report(ctx, s.opt.Client); err != nil && ctx.Err() == nil {
		s.opt.Log.DebugContext(ctx, "URLs of others' shares not passed on yet", "err", err)
	}
}

// obey carries out the manager's orders. sent is a time before the robot asked for them.
func (s *Session) obey(ctx context.Context, sent polite.Instant, orders wire.Orders) error {
	for _, d := range orders.Directives {
		var err error
		switch d {
		case wire.DirectiveRestart:
			err = s.restart(ctx)
		case wire.DirectiveRebalance:
			err = s.Refresh(ctx)
		case wire.DirectivePause, wire.DirectiveResume:
			err = s.opt.Manners.Admission.Hold(d == wire.DirectivePause)
		case wire.DirectiveReport:
			s.progress.tellAll()
		case wire.DirectiveUpgrade:
			s.opt.Upgrade()
		default: // of a newer manager
			s.opt.Log.InfoContext(ctx, "the manager asks for what this program does not do", "directive", d)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	if len(orders.Probes) > 0 {
		s.prober.ask(sent, orders.Probes)
	}
	if len(orders.Visits) > 0 {
		if err := s.opt.Orders.Add(orders.Visits); err != nil {
			return err
		}
		return s.opt.Crawler.QueueDue(ctx)
	}
	return nil
}
