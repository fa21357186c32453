package crawl

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"sheaf/internal/loop"
	"sheaf/internal/page"
	"sheaf/robotd/batch"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
	"sheaf/robotd/revisit"
)

// Parts are what crawls are made of. They outlast a crawl, and each of its stages holds them.
type Parts struct {
	Settings *config.Config
	Plan     config.Plan
	Manners  Manners
	Records  Records
	Fetcher  *fetch.Fetcher // looks up hosts
	Source   fetch.Source   // gets pages
	Sketcher *page.Sketcher
	Servers  *revisit.Servers
	Pace     *revisit.Pace
	Orders   *revisit.Orders
	List     *client.Assignment
	Log      *slog.Logger
}

// Manners are what keeps the robot polite. They outlast a crawl.
type Manners struct {
	Agent      string // the User-Agent
	Gate       *polite.Gate
	Admission  *polite.Admission
	Lease      *polite.Lease
	Moves      *polite.Moves
	Restraints *polite.Restraints
	Addresses  *polite.Addresses
	Rules      *polite.Rules
	Shared     *polite.Library
}

// Tap is given the records as they are stored, if it is active.
type Tap interface {
	Active() bool
	Offer(record []byte)
}

// Records are where a crawl reads what to fetch and writes what it has found. They outlast a crawl.
type Records struct {
	Frontier *frontier.Frontier
	Batches  *batch.Store
	Ledger   *batch.Ledger
	Journal  *client.CollectionLog
	Found    *client.Found
	Watched  *revisit.Pages
	Tap      Tap // nil: there is none
	Tally    *Tally
}

// Crawler makes crawls, one at a time. Its methods may be called concurrently.
type Crawler struct {
	parts   Parts
	current atomic.Pointer[Crawl]
	last    atomic.Pointer[summary]
	wanted  chan struct{} // has an element when a short crawl is wanted
}

// summary is what the status shows of a crawl that has ended.
type summary struct {
	coverage     Coverage
	pages, bytes int64
}

// New returns a crawler, without a current crawl.
func New(parts Parts) *Crawler { return &Crawler{parts: parts, wanted: make(chan struct{}, 1)} }

// Reasons for the end of a crawl that went well.
var (
	errExhausted = errors.New("every host is exhausted")
	errOver      = errors.New("the cycle's time is over")
)

// Begin begins a crawl for a round. The crawl is the current one until end is called, and must run
// with the context that Begin returns.
func (r *Crawler) Begin(ctx context.Context, round revisit.Round) (_ context.Context, c *Crawl, end func()) {
	return r.begin(ctx, round, round.End, nil)
}

// begin begins a crawl that ends at the time over; zero: it has no such time. If resting is not
// nil, it has the assigned hosts, and the crawl is a short one.
func (r *Crawler) begin(ctx context.Context, round revisit.Round, over time.Time, resting map[string][]string) (context.Context, *Crawl, func()) {
	ctx, fail := context.WithCancelCause(ctx)
	c := newCrawl(ctx, &r.parts, round, fail, resting)
	r.current.Store(c)
	timer := func() bool { return true }
	if !over.IsZero() {
		timer = time.AfterFunc(time.Until(over), func() { c.end(errOver) }).Stop
	}
	return ctx, c, func() {
		timer()
		r.current.Store(nil)
		fail(nil)
	}
}

// Current returns the crawl that is under way, or nil.
func (r *Crawler) Current() *Crawl { return r.current.Load() }

// Finish ends a cycle's crawl: it notes what the status shows of the crawl, takes the hosts out of
// the gate, and saves what was learned of servers.
func (r *Crawler) Finish(c *Crawl) error {
	s := &summary{coverage: c.Coverage(time.Now())}
	for _, h := range c.Hosts() {
		s.pages, s.bytes = s.pages+h.pages.Load(), s.bytes+h.bytes.Load()
	}
	r.last.Store(s)
	c.leave()
	return r.parts.Servers.Save()
}

// Checkpoint makes what was collected durable against loss of power. A crash of the process alone
// loses nothing anyway.
func (r *Crawler) Checkpoint(ctx context.Context) error {
	if c := r.Current(); c != nil {
		return c.checkpoint(ctx)
	}
	return nil
}

// Progress returns what the current crawl does, or what the last one did. hosts is how many hosts
// to describe; negative: all.
func (r *Crawler) Progress(at time.Time, hosts int) Progress {
	s := Progress{Unreached: []string{}}
	if c := r.Current(); c != nil {
		c.describe(&s, at, hosts)
		covered := c.Coverage(at)
		s.Coverage = &covered
	} else if last := r.last.Load(); last != nil {
		s.Coverage = &last.coverage
		s.Pages.Total, s.Bytes.Total = last.pages, last.bytes
	}
	return s
}

// Wanted has an element when VisitWatched should be called: there is no crawl, and perhaps a
// watched page is due or a visit was ordered.
func (r *Crawler) Wanted() <-chan struct{} { return r.wanted }

// MayBeDue reports whether QueueDue may find something to do.
func (r *Crawler) MayBeDue() bool {
	return r.parts.Records.Watched.Active() || len(r.parts.Orders.Waiting()) > 0
}

// QueueDue queues the watched and ordered pages that are due, before all other pages of their
// hosts, in the current crawl. If no crawl is under way, it asks for a short one.
func (r *Crawler) QueueDue(ctx context.Context) error {
	now := time.Now()
	if !r.parts.Manners.Admission.MayVisit(now) {
		return nil
	}
	c := r.Current()
	if c == nil {
		r.want()
		return nil
	}
	due, err := r.pushDue(now)
	if err != nil || len(due) == 0 {
		return err
	}
	late := make(map[string][]string) // hosts that a short crawl did not begin with
	assigned := r.parts.List.Hosts()
	for name := range due {
		if h := c.host(name); h != nil {
			h.dirty.Store(true)
			c.wake(h)
		} else if c.short {
			late[name] = assigned[name]
		}
	}
	if len(late) == 0 {
		return nil
	}
	taken, err := c.Start(ctx, late)
	if err == nil && !taken {
		r.want()
	}
	return err
}

// want asks for a short crawl.
func (r *Crawler) want() {
	loop.Offer(r.wanted, struct{}{})
}

// pushDue queues the watched and ordered pages that are due now, and returns them by host.
func (r *Crawler) pushDue(now time.Time) (map[string][]frontier.Entry, error) {
	due := make(map[string][]frontier.Entry)
	if err := errors.Join(r.parts.Orders.Due(now, due), r.parts.Records.Watched.Due(now, due)); err != nil {
		return nil, err
	}
	for name, entries := range due {
		if r.parts.List.List().Waits[name] {
			delete(due, name)
			continue
		}
		front, err := r.parts.Records.Frontier.Host(name)
		if err == nil {
			_, err = front.PushFirst(entries...)
		}
		if err != nil {
			return nil, err
		}
	}
	return due, nil
}

// VisitWatched runs a short crawl between two cycles. It visits the hosts that have a due page,
// until no host has anything left, the next cycle is due (until), or the round ends. It makes no
// batch: changes go into an express batch, other pages into the next batch. round is the last
// cycle's.
func (r *Crawler) VisitWatched(ctx context.Context, round revisit.Round, until time.Time) error {
	now := time.Now()
	if !r.parts.Manners.Admission.MayVisit(now) {
		return nil
	}
	due, err := r.pushDue(now)
	if err != nil || len(due) == 0 {
		return err
	}
	all := r.parts.List.Hosts()
	seeds := make(map[string][]string, len(due))
	for name := range due {
		seeds[name] = all[name]
	}
	if end := round.End; !end.IsZero() && end.Before(until) {
		until = end
	}
	ctx, c, end := r.begin(ctx, round, until, all)
	defer end()
	if err := c.Run(ctx, seeds); err != nil {
		return err
	}
	c.leave()
	return c.checkpoint(context.WithoutCancel(ctx))
}
