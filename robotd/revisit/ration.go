package revisit

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sheaf/robotd/frontier"
)

// pressing has the indices of those known pages of a host that are visited before the others.
type pressing struct {
	found   []int // never visited
	overdue []int // by revisit.at_least
}

func (p *pressing) len() int { return len(p.found) + len(p.overdue) }

// ration gives turns to the pressing pages if the cycle has no room for all of them. Those that get
// no room come behind the other pages, in case there is more time than expected. New and overdue
// pages share the room by their numbers. The most overdue go first. Of the new pages, three of four
// are the most important ones. Every fourth is taken from the rest, from another place in each
// cycle: deep pages would wait for ever if every night brings more.
func (p *pressing) ration(pages []Page, turns []frontier.Turn, room int, cycle time.Time) {
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
	ranked := slices.Clone(p.found)
	slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(pages[b].Importance(), pages[a].Importance()) })
	anywhere := (found + 3) / 4
	for _, i := range ranked[:found-anywhere] {
		turns[i] = frontier.First
	}
	const golden = 0.6180339887498949 // successive days begin far from each other
	_, part := math.Modf(float64(cycle.Unix()/(24*3600)) * golden)
	rest := ranked[found-anywhere:]
	for n := range anywhere {
		turns[rest[(int(part*float64(len(rest)))+n)%len(rest)]] = frontier.First
	}
}
