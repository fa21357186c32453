package revisit

import (
	"cmp"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
)

// Chooser chooses the known pages that a round visits.
type Chooser struct {
	Round    Round
	Settings config.Revisit
	Pace     *Pace
	Servers  *Servers
	Frontier *frontier.Frontier
	Watched  func(host, url string) bool // reports whether consumers watch a page
}

// Rooms returns, for each host, the number of pages that the round has time for. Hosts on one
// address share its time. The result is nil if all pages are visited, however long that takes.
func (c *Chooser) Rooms(names []string) (map[string]float64, error) {
	if c.Round.End.IsZero() || config.Rule(c.Settings.By) == config.All {
		return nil, nil
	}
	known, err := c.known(names)
	if err != nil {
		return nil, err
	}
	wants := make(map[netip.Addr][]int)
	slots := make(map[string]netip.Addr, len(names))
	for i, name := range names {
		if addr := c.Servers.Get(name).Addr; addr.IsValid() {
			slots[name] = c.Pace.Slot(addr)
			wants[slots[name]] = append(wants[slots[name]], known[i])
		}
	}
	rooms := make(map[string]float64, len(names))
	for _, name := range names {
		slot := slots[name]
		rooms[name] = c.Pace.Room(name, slot, c.Round.Open)
		if slot.IsValid() {
			rooms[name] = min(rooms[name], Share(wants[slot], rooms[name]))
		}
	}
	return rooms, nil
}

// known counts the pages of earlier cycles of each host.
func (c *Chooser) known(names []string) ([]int, error) {
	counts := make([]int, len(names))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		g.Go(func() error {
			front, err := c.Frontier.Host(name)
			if err == nil {
				counts[i], err = front.KnownPages()
			}
			return err
		})
	}
	return counts, g.Wait()
}

// Push queues a host's known pages. If its room is too small for all of them, the order is: pages
// that consumers watch; new and overdue pages; pages whose visit brings most. Push returns how many
// pages wait for another cycle.
func (c *Chooser) Push(front *frontier.Host, rooms map[string]float64) (later int, err error) {
	var turns []frontier.Turn
	room, bounded := rooms[front.Name]
	n, err := front.KnownPages()
	if err == nil && bounded && float64(n) > room {
		turns, err = c.choose(front, int(room), n)
	}
	if err == nil {
		later, err = front.PushKnown(turns)
	}
	return later, err
}

// choose returns the turns of n known pages. room is how many of them can be visited. It returns
// nil if the host's file of known pages is damaged.
func (c *Chooser) choose(front *frontier.Host, room, n int) ([]frontier.Turn, error) {
	pages := make([]Page, 0, n)
	turns := make([]frontier.Turn, 0, n)
	days := c.Round.days()
	longest := c.Settings.AtLeast.Hours() / 24
	var first pressing
	watched := 0
	damaged, err := front.EachKnown(func(e frontier.Entry, v frontier.Visit) {
		last := v.Last
		if last.IsZero() {
			last = v.Full
		}
		p := Page{Changes: v.Changes, Age: c.Round.Began.Sub(last).Hours() / 24, Times: v.Times, Depth: e.Depth, Links: e.Links}
		turn := frontier.Later
		switch {
		case c.Watched(front.Name, e.URL):
			turn, watched = frontier.First, watched+1
		case last.IsZero():
			turn, first.found = frontier.First, append(first.found, len(pages))
		case p.Age+days > longest:
			turn, first.overdue = frontier.First, append(first.overdue, len(pages))
		}
		pages, turns = append(pages, p), append(turns, turn)
	})
	if err != nil || damaged {
		return nil, err
	}
	if room = max(room-watched, 0); room < first.len() {
		first.ration(pages, turns, room, c.Round.Began)
		return turns, nil
	}
	if room -= first.len(); room == 0 {
		return turns, nil
	}
	urgency := Urgency(config.Rule(c.Settings.By), pages, float64(room)/days, days, longest)
	var others []int
	for i, turn := range turns {
		if turn == frontier.Later {
			others = append(others, i)
		}
	}
	slices.SortStableFunc(others, func(a, b int) int { return cmp.Compare(urgency[b], urgency[a]) })
	for _, i := range others[:min(room, len(others))] {
		turns[i] = frontier.Then
	}
	return turns, nil
}

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
