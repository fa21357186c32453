package crawl

import (
	"time"

	"sheaf/robotd/batch"
)

// underWay is the reason for pages that are left while the crawl goes on.
const underWay = "later"

// AccountLeft adds to the ledger, for each host, how many pages are still queued and why, and how
// many due pages wait for a later cycle.
func (c *Crawl) AccountLeft() error {
	why := c.whyLeft(time.Now())
	var events []batch.Uncollected
	for _, h := range c.Hosts() {
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
	s.Lost, s.Why = c.parts.Records.Ledger.Cycle(), make(map[string]int64)
	why := c.whyLeft(now)
	for _, h := range c.Hosts() {
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
