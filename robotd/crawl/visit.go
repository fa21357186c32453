package crawl

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"sheaf/internal/loop"
	"sheaf/internal/page"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
)

// visitHosts begins visits until c.beginning ends, but none while many pages wait for the processor
// or the disk. When visitHosts returns, every page that was fetched is stored. Requests are broken
// off if ctx ends.
func (c *Crawl) visitHosts(ctx context.Context) {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var dog sync.WaitGroup
	dog.Go(func() { c.watch(watching) })
	for c.extracting.room(c.beginning) {
		slot, err := c.pool.take(c.beginning)
		if err != nil {
			break
		}
		addr, name, err := c.parts.Manners.Gate.Next(c.beginning)
		if err != nil {
			slot.end()
			break
		}
		go func() {
			if c.visit(ctx, addr, name, slot) {
				slot.end()
			}
		}()
	}
	c.pool.wait()
	stop()
	dog.Wait()
}

// maxRun is the time after which a visit asks for no further page.
const maxRun = time.Minute

// visit is the way of a page. The gate has handed out the host's address. visit fetches the page,
// finds its links, stores both, and gives the address back. By setting, a run of pages goes this
// way, one after another over one connection. When c.beginning ends, the page in hand is the last
// one. visit reports whether the turn was still the worker's when the fetch ended.
func (c *Crawl) visit(ctx context.Context, addr netip.Addr, name string, slot *slot) bool {
	var run fetch.Session
	most := c.parts.Pace.RunPages(name)
	if most > 1 {
		run = c.parts.Source.Run()
		defer run.Close()
	}
	began := time.Now()
	for pages := 1; ; pages++ {
		t := &turn{crawl: c, addr: addr, name: name, host: c.host(name), slot: slot, run: run}
		asked := time.Now()
		watched, end := c.watchdog.begin(ctx, t)
		fetched := t.fetch(watched)
		c.fetching.count(asked)
		if !end() {
			return false
		}
		goesOn := fetched && pages < most && time.Since(began) < maxRun && t.mayGoOn()
		if !goesOn && run != nil {
			run.Close() // before the address is visited again
		}
		if fetched {
			c.extracting.queue()
			if !goesOn {
				slot.leave()
			}
			c.extracting.work(func() {
				t.extract()
				c.storing.queue()
			})
			c.storing.work(t.store)
			if t.resp != nil {
				c.parts.Manners.Admission.Spend(t.resp.ResponseBytes)
				if err := c.parts.Manners.Admission.Wrote(t.resp.ResponseBytes); err != nil { // may close the gate, before the address is back
					t.fail(err)
				}
			}
		}
		if goesOn && t.out.More && c.beginning.Err() == nil && c.parts.Manners.Gate.IsOpen(time.Now()) {
			continue
		}
		if run != nil {
			run.Close()
		}
		t.done()
		return true
	}
}

// turn is a host's turn at an address, and the page that is fetched in it.
type turn struct {
	crawl *Crawl
	addr  netip.Addr
	name  string
	host  *Host // nil: dropped meanwhile
	out   polite.Outcome

	failed bool          // for an error of this machine, such as a full disk
	slot   *slot         // of the run
	run    fetch.Session // over which further pages may come; nil: none
	watch  *watch

	entry frontier.Entry
	past  frontier.Visit // of an earlier cycle
	known frontier.Visit // past, or zero if a full copy is wanted
	rules *rules         // the robots.txt that allowed the page
	resp  *fetch.Response
	err   error

	links       links
	noArchive   bool
	noIndex     bool
	preferences string    // see archive.Record
	mark        page.Mark // what the answer is instead of a page
}

// mayGoOn reports whether the run can have another page: the server keeps the connection, answers
// well, and asks for no delay between pages.
func (t *turn) mayGoOn() bool {
	return t.err == nil && !Overloaded(t.resp.Status) && t.run.Live() && t.rules.CrawlDelay(t.crawl.parts.Manners.Agent) == 0
}

// done gives the turn's address back to the gate, and stores what the next visit must keep to, so
// that a kill does not lose it. A turn that failed for want of room is repeated, even if there is
// room again by now.
func (t *turn) done() {
	c, man := t.crawl, &t.crawl.parts.Manners
	delay := time.Duration(0)
	if h := t.host; h != nil {
		if t.failed && !h.idle.Load() {
			t.out.More = t.out.More || !h.Front.Empty()
		}
		if !t.out.More {
			c.setResting(h, false) // nothing is left to be tried
		}
		delay = h.crawlDelay(man.Agent)
		if !h.idle.Load() {
			c.place(h, delay)
		}
	}
	interval, standing := c.parts.Settings.Interval, man.Gate.Done(t.addr, t.name, t.out)
	err := man.Restraints.Keep(polite.AddressName(standing.Slot), polite.Restraint{Until: standing.Rest, Every: standing.Interval}, interval)
	if err == nil {
		err = man.Restraints.Keep(t.name, polite.Restraint{Until: standing.Host, Every: delay}, interval)
	}
	if err := man.Admission.Tolerate(err); err != nil {
		c.fail(err)
	}
	c.endIfExhausted()
}

// fail ends a turn for an error of this machine, such as a full disk, and the crawl if the robot
// cannot go on with it.
func (t *turn) fail(err error) {
	t.failed = true
	if err = t.crawl.parts.Manners.Admission.Tolerate(err); err != nil {
		t.crawl.fail(fmt.Errorf("%s: %w", t.name, err))
	}
}

// watch looks after the fetches until ctx ends. A run that waits for its server lets another run
// begin beside it, unless this machine is what is slow.
func (c *Crawl) watch(ctx context.Context) {
	_ = loop.After(ctx, min(c.watchdog.stall/4, waitsLonger/2), func(context.Context) error {
		long, lost := c.watchdog.look(time.Now())
		for _, t := range long {
			if !c.extracting.full() {
				t.slot.free()
			}
		}
		for _, t := range lost {
			t.lose()
		}
		return nil
	}, nil)
}

// lose takes a turn off a worker that hangs. Its page goes behind the others, and its address back
// to the gate. Nobody waits for the worker.
func (hung *turn) lose() {
	c := hung.crawl
	t := &turn{crawl: c, addr: hung.addr, name: hung.name, host: hung.host}
	hung.slot.free()
	c.parts.Log.Error("fetch worker replaced: it hangs", "host", t.name, "address", t.addr)
	defer hung.slot.end()
	defer t.done()
	h := t.host
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t.out.Trouble, t.out.NotBefore = true, t.backOff(0, time.Time{})
	t.out.More = !h.idle.Load()
	if h.gone || h.Front.Empty() {
		return
	}
	if err := h.Front.Retry(); err != nil {
		t.fail(err)
	}
}

// Bounds of the patience with a host that fails.
const (
	firstBackOff = 15            // intervals after a failure, doubled with each further one
	maxBackOff   = time.Hour     // at most
	giveUp       = 8             // successive failures, after which the host rests
	longRest     = 2 * time.Hour // a rest, at most
)

// backOff counts a failure and returns the time when the host may be tried again. status is zero if
// nothing answered; asked is the time of a Retry-After, or zero.
//
// A Retry-After is obeyed, until the host has failed too often. A server that only asks for fewer
// visits (429, 503) gets fewer and fewer until the next cycle is due. Any other host rests after
// many failures. It is tried again if the cycle still goes on then, but the cycle does not wait for
// it.
func (t *turn) backOff(status int, asked time.Time) time.Time {
	c, h := t.crawl, t.host
	h.rest.failures++
	failures := h.rest.failures
	longest, reason := maxBackOff, fmt.Sprintf("retry, %d failed", failures)
	often := failures >= giveUp
	if often {
		longest = longRest
	}
	wait := min(firstBackOff*c.parts.Settings.Interval<<min(failures-1, giveUp), longest)
	next := time.Now().Add(wait + time.Duration(rand.Int64N(int64(wait)/4+1)))
	if !asked.IsZero() && (!often || asked.After(next)) {
		next, reason = asked, "Retry-After"
	}
	if often && !(Overloaded(status) && next.Before(c.hours.Round.Due)) {
		reason = fmt.Sprintf("rests, %d failed", failures)
		c.setResting(h, true)
	}
	h.rest.why.Store(&reason)
	return next
}
