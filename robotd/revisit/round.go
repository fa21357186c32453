package revisit

import (
	"cmp"
	"net/netip"
	"time"

	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/polite"
)

// Round is the time that a cycle has.
type Round struct {
	Cycle int64 // number of the cycle
	Began time.Time
	Due   time.Time     // when the next cycle should begin; zero: there is none
	End   time.Time     // when the window last closes before Due, or the time set is over, which ends the cycle; zero: it ends when nothing is left
	Open  time.Duration // for which the window is open
}

// leastRound is the shortest round, in intervals: in a shorter one nothing would come about.
const leastRound = 64

// NewRound returns the round of a cycle. It depends only on the settings and the cycle's beginning,
// so a robot that was killed goes on with the same round.
func NewRound(cfg *config.Config, plan config.Plan, cycle int64, began time.Time) Round {
	round := Round{Cycle: cycle, Began: began}
	if cfg.For > 0 {
		round.Due = began.Add(cfg.For)
		round.End = round.Due
		round.Open, _ = plan.OpenTime(began, round.End)
		return round
	}
	opens, ok := plan.Window.Next(began)
	if cfg.Once || !ok {
		return round
	}
	due, ok := plan.NextCycle(opens, time.Time{})
	if !ok {
		return round
	}
	round.Due = due
	if config.Rule(cfg.Revisit.By) == config.All {
		return round
	}
	open, end := plan.OpenTime(began, due)
	least := leastRound * cfg.Interval
	if at := opens.Add(least); at.After(end) {
		end = at
	}
	round.End, round.Open = end, max(open, least)
	return round
}

func (r Round) days() float64 { return r.Due.Sub(r.Began).Hours() / 24 }

// Pace knows how often hosts may be visited.
type Pace struct {
	Interval   time.Duration      // between two runs at an address, at least
	Pages      int                // of a run, over one connection
	List       *client.Assignment // may set another interval and number of pages for a host
	Restraints *polite.Restraints
	Slot       func(netip.Addr) netip.Addr // the address that stands for a range of addresses
}

// Every returns the time between two runs at a host, as far as it is known. addr may be invalid.
func (p *Pace) Every(host string, addr netip.Addr) time.Duration {
	interval := cmp.Or(p.List.Interval(host), p.Interval)
	every := max(interval, p.Restraints.Get(host).Every)
	if addr.IsValid() {
		every = max(every, p.Restraints.Address(p.Slot(addr)).Every)
	}
	if share := p.List.Share(host); share.Several() { // the other robots have their turns too
		every = max(every, time.Duration(share.Of)*polite.SharedSlot(interval))
	}
	return max(every, time.Millisecond)
}

// RunPages returns how many pages of a host a run may fetch.
func (p *Pace) RunPages(host string) int { return cmp.Or(p.List.List().RunPages[host], p.Pages) }

// Room returns how many pages of a host can be visited in a time.
func (p *Pace) Room(host string, addr netip.Addr, in time.Duration) float64 {
	return float64(in) / float64(p.Every(host, addr)) * float64(p.RunPages(host))
}
