package robotd

import (
	"strconv"
	"sync/atomic"
	"time"

	"sheaf/archive"
	"sheaf/robotd/coverage"
	"sheaf/robotd/fetch"
	"sheaf/robotd/status"
	"sheaf/robotd/verdict"
)

// lose notes a link of a turn that is not followed, by host and what cut it.
func (t *turn) lose(host, reason, url string) { t.loseMany(host, reason, url, 1) }

// loseMany notes n links of which one is, or stands on, the URL.
func (t *turn) loseMany(host, reason, url string, n int) {
	for i := range t.cuts {
		if e := &t.cuts[i]; e.Host == host && e.Reason == reason {
			e.N += int64(n)
			return
		}
	}
	t.cuts = append(t.cuts, coverage.Event{Kind: coverage.Cut, Reason: reason, Host: host, N: int64(n), URL: url})
}

// account enters what became of the turn's page, where it was not simply
// collected, and of links that were cut.
func (c *crawl) account(t *turn) error {
	events := t.cuts
	enter := func(kind coverage.Kind, reason string) {
		events = append(events, coverage.Event{Kind: kind, Reason: reason, Host: t.name, N: 1, URL: t.entry.URL})
	}
	switch {
	case t.err != nil:
		kind := fetch.KindOf(t.err)
		if kind == "" {
			kind = fetch.Local
		}
		enter(coverage.Failed, string(kind))
	case overloaded(t.resp.Status):
		enter(coverage.Failed, strconv.Itoa(t.resp.Status))
	case t.noArchive:
		enter(coverage.Withheld, "noarchive")
	}
	if t.mark != verdict.None {
		enter(coverage.Marked, string(t.mark))
	}
	if len(events) == 0 {
		return nil
	}
	return c.ledger.Add(events...)
}

// accountLeft enters how much is still queued of each host, and why, and how much waits for
// a later cycle: what was due and is not visited.
func (c *crawl) accountLeft() error {
	why := c.whyLeft(time.Now())
	var events []coverage.Event
	for _, h := range c.all() {
		if n := h.front.Left(); n > 0 {
			events = append(events, coverage.Event{Kind: coverage.Left, Reason: why(h), Host: h.name, N: int64(n)})
		}
		if h.later > 0 {
			events = append(events, coverage.Event{Kind: coverage.Later, Reason: "room in the window", Host: h.name, N: h.later})
		}
	}
	if len(events) == 0 {
		return nil
	}
	return c.ledger.Add(events...)
}

// whyLeft says why pages of a host are still queued.
func (c *crawl) whyLeft(now time.Time) func(*host) string {
	from, _ := c.opening(now)
	why := "later" // the batch is made under way
	switch {
	case c.paused():
		why = "paused"
	case c.room.Short() != "":
		why = "room" // on the disk or in the spool
	case from.After(now), !c.round.end.IsZero() && !now.Before(c.round.end):
		why = "window"
	}
	return func(h *host) string {
		if h.unreached() {
			return "host" // it fails, or has no address
		}
		return why
	}
}

// coverage sums up what became of the cycle's pages since the start.
func (c *crawl) coverage(now time.Time) status.Coverage {
	s := status.Coverage{Pages: c.tally.pages.Load(), Unchanged: c.tally.unchanged.Load(), Answers: c.tally.answers.Load(), Unverified: c.tally.unverified.Load(), Lost: c.ledger.Cycle(), Why: map[string]int64{}}
	why := c.whyLeft(now)
	for _, h := range c.all() {
		if n := int64(h.front.Left()); n > 0 {
			s.Left += n
			reason := why(h)
			if reason == "later" {
				reason = "to come"
			}
			s.Why[reason] += n
		}
		s.Later += h.later
	}
	return s
}

// tally counts what was stored.
type tally struct {
	pages, unchanged, answers atomic.Int64
	unverified                atomic.Int64 // of all these, from servers whose certificate does not verify
}

func (t *tally) count(kind archive.Kind) {
	switch kind {
	case archive.Page:
		t.pages.Add(1)
	case archive.Revisit:
		t.unchanged.Add(1)
	default:
		t.answers.Add(1)
	}
}

func (t *tally) reset() {
	t.pages.Store(0)
	t.unchanged.Store(0)
	t.answers.Store(0)
	t.unverified.Store(0)
}
