package robotd

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sheaf/robotd/frontier"
	"sheaf/robotd/schedule"
)

// pressing are the pages of a host that are to be visited before all others, by their place among
// its known pages.
type pressing struct {
	found   []int // and never visited
	overdue []int // by revisit.at_least
}

func (p *pressing) len() int { return len(p.found) + len(p.overdue) }

// ration gives turns to the pressing pages where a cycle has no room for all of them; those that get none of
// the room come behind the others, should there be more than was thought. The two kinds share the room by
// their numbers. Of the overdue those go first that have waited longest, and of the others
// each cycle begins elsewhere: in the order of their keys the last would wait for ever, where
// every night brings others.
func (p *pressing) ration(pages []schedule.Page, turns []frontier.Turn, room int, cycle time.Time) {
	for _, i := range slices.Concat(p.found, p.overdue) {
		turns[i] = frontier.Then
	}
	room = min(max(room, 1), p.len())
	found := room * len(p.found) / p.len()
	if found == 0 && len(p.found) > 0 && room > 1 {
		found = 1
	}
	overdue := slices.Clone(p.overdue)
	slices.SortStableFunc(overdue, func(a, b int) int { return cmp.Compare(pages[b].Age, pages[a].Age) })
	for _, i := range overdue[:room-found] {
		turns[i] = frontier.First
	}
	const golden = 0.6180339887498949 // successive days begin far from one another
	_, part := math.Modf(float64(cycle.Unix()/(24*3600)) * golden)
	for n := range found {
		turns[p.found[(int(part*float64(len(p.found)))+n)%len(p.found)]] = frontier.First
	}
}
