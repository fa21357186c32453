package robotd

import (
	"strconv"
	"time"

	"sheaf/robotd/coverage"
	"sheaf/robotd/fetch"
	"sheaf/robotd/verdict"
)

// lose notes links of a turn that are not followed, by host and what cut them.
func (t *turn) lose(host, reason, url string) {
	for i := range t.cuts {
		if e := &t.cuts[i]; e.Host == host && e.Reason == reason {
			e.N++
			return
		}
	}
	t.cuts = append(t.cuts, coverage.Event{Kind: coverage.Cut, Reason: reason, Host: host, N: 1, URL: url})
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

// accountLeft enters how much is still queued of each host, and why.
func (c *crawl) accountLeft() error {
	now := time.Now()
	from, _ := c.opening(now)
	var events []coverage.Event
	for _, h := range c.all() {
		n := h.front.Left()
		if n == 0 {
			continue
		}
		why := "later" // the batch is made under way
		switch {
		case h.idle.Load():
			why = "host" // it fails, or has no address
		case c.paused():
			why = "paused"
		case c.room.Short() != "":
			why = "room" // on the disk or in the spool
		case from.After(now), !c.round.end.IsZero() && !now.Before(c.round.end):
			why = "window"
		}
		events = append(events, coverage.Event{Kind: coverage.Left, Reason: why, Host: h.name, N: int64(n)})
	}
	if len(events) == 0 {
		return nil
	}
	return c.ledger.Add(events...)
}
