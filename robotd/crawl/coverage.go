package crawl

import (
	"sync/atomic"
	"time"

	"sheaf/archive"
	"sheaf/robotd/batch"
)

// underWay is the reason for pages that are left while the crawl goes on.
const underWay = "later"

// AccountLeft adds to the coverage how many pages of each host are still queued, and why, and how
// many were due and wait for a later cycle.
func (c *Crawl) AccountLeft() error {
	why := c.whyLeft(time.Now())
	var events []batch.Uncollected
	for _, h := range c.hosts.All() {
		if n := h.Front.Left(); n > 0 {
			events = append(events, batch.Uncollected{Kind: batch.KindLeft, Reason: why(h), Host: h.Name, N: int64(n)})
		}
		if later := h.Later.Load(); later > 0 {
			events = append(events, batch.Uncollected{Kind: batch.KindLater, Reason: "room in the window", Host: h.Name, N: later})
		}
	}
	if len(events) == 0 {
		return nil
	}
	return c.parts.Records.Ledger.Add(events...)
}

// whyLeft returns a function that says why pages of a host are still queued.
func (c *Crawl) whyLeft(now time.Time) func(*Host) string {
	from, _ := c.parts.Manners.Admission.Opening(now)
	why := underWay
	switch {
	case c.parts.Manners.Admission.Paused():
		why = "paused"
	case c.parts.Manners.Admission.Short() != "":
		why = "room" // on the disk or in the spool
	case from.After(now), !c.hours.Round.End.IsZero() && !now.Before(c.hours.Round.End):
		why = "window"
	}
	return func(h *Host) string {
		if h.Unreached() {
			return "host" // it fails, or has no address
		}
		return why
	}
}

// Coverage sums up what became of the cycle's pages since the start.
func (c *Crawl) Coverage(now time.Time) Coverage {
	s := c.parts.Records.Tally.Coverage()
	s.Lost = c.parts.Records.Ledger.Cycle()
	why := c.whyLeft(now)
	for _, h := range c.hosts.All() {
		if n := int64(h.Front.Left()); n > 0 {
			s.Left += n
			reason := why(h)
			if reason == underWay {
				reason = "to come"
			}
			s.Why[reason] += n
		}
		s.Later += h.Later.Load()
	}
	return s
}

// Tally counts the records that were stored in a cycle, since the start. Its methods may be called
// concurrently.
type Tally struct {
	pages, unchanged, answers atomic.Int64
	links                     atomic.Int64 // in these pages
	unverified                atomic.Int64 // of all these, from servers whose certificate does not verify
}

func (t *Tally) count(kind archive.Kind, verified bool) {
	switch kind {
	case archive.Page:
		t.pages.Add(1)
	case archive.Revisit:
		t.unchanged.Add(1)
	default:
		t.answers.Add(1)
	}
	if !verified {
		t.unverified.Add(1)
	}
}

// Links returns how many links the pages of the cycle have had, since the program started.
func (t *Tally) Links() int64 { return t.links.Load() }

// Reset begins a cycle.
func (t *Tally) Reset() {
	t.pages.Store(0)
	t.unchanged.Store(0)
	t.answers.Store(0)
	t.links.Store(0)
	t.unverified.Store(0)
}

// Coverage returns the counts.
func (t *Tally) Coverage() Coverage {
	return Coverage{
		Pages: t.pages.Load(), Unchanged: t.unchanged.Load(), Answers: t.answers.Load(), Unverified: t.unverified.Load(),
		Why: map[string]int64{},
	}
}
