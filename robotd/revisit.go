package robotd

import (
	"hash/fnv"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/schedule"
)

// round is the time that a cycle has.
type round struct {
	began time.Time
	due   time.Time     // when the next should begin; zero: there is none
	end   time.Time     // when the window last closes before; what is left then waits for the next cycle; zero: never
	open  time.Duration // for which the window is open
}

// leastRound is how many intervals a cycle has at least: in a shorter one nothing would come about.
const leastRound = 64

// thisRound follows from the settings and the cycle's beginning alone, so that a robot that was
// killed goes on as it began.
func (r *Robot) thisRound() round {
	r.mu.Lock()
	began := r.cycle.Began
	r.mu.Unlock()
	if r.cfg.Once {
		return round{began: began}
	}
	opens, ok := r.plan.Window.Next(began)
	if !ok {
		return round{began: began}
	}
	due, ok := r.plan.NextCycle(opens, time.Time{})
	if !ok {
		return round{began: began}
	}
	if schedule.Rule(r.cfg.Revisit.By) == schedule.All {
		return round{began: began, due: due}
	}
	open, end := r.plan.OpenTime(began, due)
	least := leastRound * r.cfg.Interval
	return round{began, due, later(end, opens.Add(least)), max(open, least)}
}

func (r round) days() float64 { return r.due.Sub(r.began).Hours() / 24 }

// every is the time between two runs at a host, as far as it is known.
func (r *Robot) every(host string, addr netip.Addr) time.Duration {
	every := max(r.cfg.Interval, r.restraints.Get(host).Every)
	if addr.IsValid() {
		every = max(every, r.restraints.Get(addressKey(r.gate.Slot(addr))).Every)
	}
	share := r.list.Share(host)
	if share.Several() { // the others have their turns too
		every = max(every, time.Duration(share.Of)*(r.cfg.Interval+r.cfg.Interval/late))
	}
	return max(every, time.Millisecond)
}

// rooms tells for each host how many pages of it can be visited in the cycle, where hosts on one
// address share its time. It is nil where every page is visited, however long it takes.
func (c *crawl) rooms(names []string) (map[string]float64, error) {
	if c.round.end.IsZero() {
		return nil, nil
	}
	wants := make(map[netip.Addr][]int)
	slots := make(map[string]netip.Addr, len(names))
	known, err := c.known(names)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if addr := c.servers.Get(name).Addr; addr.IsValid() {
			slots[name] = c.gate.Slot(addr)
			wants[slots[name]] = append(wants[slots[name]], known[i])
		}
	}
	rooms := make(map[string]float64, len(names))
	for _, name := range names {
		slot := slots[name]
		rooms[name] = float64(c.round.open) / float64(c.every(name, slot)) * float64(c.cfg.Run.Pages)
		if slot.IsValid() {
			rooms[name] = min(rooms[name], schedule.Share(wants[slot], rooms[name]))
		}
	}
	return rooms, nil
}

// known counts the pages of earlier cycles of each host.
func (c *crawl) known(names []string) ([]int, error) {
	counts := make([]int, len(names))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		g.Go(func() error {
			front, err := c.frontier.Host(name)
			if err == nil {
				counts[i], err = front.KnownPages()
			}
			return err
		})
	}
	return counts, g.Wait()
}

// pushKnown queues the host's known pages: all, or where there is no room for all of them, new ones
// and those that must not wait any longer first, then those of which a visit brings most. It returns
// how many wait for another cycle.
func (c *crawl) pushKnown(front *frontier.Host, rooms map[string]float64) (later int, err error) {
	var turns []frontier.Turn
	room, bounded := rooms[front.Name]
	n, err := front.KnownPages()
	if err == nil && bounded && float64(n) > room {
		turns, err = c.choose(front, int(room), n)
	}
	if err == nil {
		_, later, err = front.PushKnown(turns)
	}
	return later, err
}

func (c *crawl) choose(front *frontier.Host, room, n int) ([]frontier.Turn, error) {
	pages := make([]schedule.Page, 0, n)
	turns := make([]frontier.Turn, 0, n)
	days := c.round.days()
	longest := c.cfg.Revisit.AtLeast.Hours() / 24
	var first pressing
	watched := 0 // by consumers, who wait for them: these go before all
	damaged, err := front.EachKnown(func(e frontier.Entry, v frontier.Visit) {
		last := v.Last
		if last.IsZero() {
			last = v.Full
		}
		p := schedule.Page{Changes: v.Changes, Age: c.round.began.Sub(last).Hours() / 24, Times: v.Times}
		turn := frontier.Later
		switch {
		case c.watches.covers(front.Name, e.URL):
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
		first.ration(pages, turns, room, c.round.began)
		return turns, nil
	}
	if room -= first.len(); room == 0 {
		return turns, nil
	}
	urgency := schedule.Rule(c.cfg.Revisit.By).Urgency(pages, float64(room)/days, days, longest)
	least, equal := threshold(urgency, turns, room)
	for i, u := range urgency {
		switch {
		case turns[i] == frontier.First:
		case u > least:
			turns[i] = frontier.Then
		case u == least && equal > 0:
			turns[i] = frontier.Then
			equal--
		}
	}
	return turns, nil
}

// threshold is what the n most urgent of the pages without a turn have at least, and how many of
// those that have just that are among them.
func threshold(urgency []float64, turns []frontier.Turn, n int) (least float64, equal int) {
	var sorted []float64
	for i, u := range urgency {
		if turns[i] == frontier.Later {
			sorted = append(sorted, u)
		}
	}
	if len(sorted) == 0 {
		return 0, 0
	}
	slices.Sort(sorted)
	slices.Reverse(sorted)
	n = min(n, len(sorted))
	least = sorted[n-1]
	above := slices.IndexFunc(sorted, func(u float64) bool { return u <= least })
	return least, n - above
}

// manyVisits is how many visits to a page are remembered in full.
const manyVisits = 60

// learn notes what the visit tells of how the page changes.
func (t *turn) learn(kind archive.Kind, v *frontier.Visit, zone *time.Location) {
	if v.Digest == "" || kind != archive.Page && kind != archive.Revisit {
		return
	}
	v.History = t.past.History
	last := v.Last
	if last.IsZero() {
		last = t.past.Full
	}
	v.Last = t.resp.Start
	if last.IsZero() || !last.Before(v.Last) {
		v.Daily.Observe(false, false)
		return
	}
	changed := kind == archive.Page && t.resp.Digest != t.past.Digest
	v.Changes.Observe(v.Last.Sub(last).Hours()/24, changed)
	v.Fade(manyVisits)
	v.Daily.Observe(day(last, zone) != day(v.Last, zone), changed)
}

// day counts the days.
func day(t time.Time, zone *time.Location) int {
	_, offset := t.In(zone).Zone()
	return int((t.Unix() + int64(offset)) / (24 * 3600))
}

// speed is what a host's server did in the hour that runs. Answers are counted, and their size from
// a page's on: most of them are too small for their bytes to tell of speed.
type speed struct {
	hour time.Time
	work float64 // in answers
	took time.Duration
}

const pageSize = 64 << 10

// timed takes in an answer. The host's turn must be the caller's.
func (c *crawl) timed(h *host, resp *fetch.Response) {
	hour := resp.Start.Truncate(time.Hour)
	if !h.speed.hour.Equal(hour) {
		c.learnHour(h)
		h.speed = speed{hour: hour}
	}
	h.speed.work += 1 + float64(resp.ResponseBytes)/pageSize
	h.speed.took += resp.Took
}

// learnHour ends an hour at a host.
func (c *crawl) learnHour(h *host) {
	s := h.speed
	if s.took <= 0 {
		return
	}
	zone := c.plan.Window.Location()
	server := c.servers.Get(h.name)
	today := day(s.hour, zone)
	if server.Day > 0 {
		for range min(today-server.Day, 365) {
			server.Hours.Forget()
		}
	}
	server.Day, server.Addr = today, h.home()
	server.Hours.Observe(s.hour.In(zone).Hour(), s.work/s.took.Seconds())
	c.servers.Set(h.name, server)
}

// quickHour is when the host's visit begins, not before from: in its quickest hours, as far as they
// are known and the window and the cycle let it. Now and then it is when least is known.
func (c *crawl) quickHour(h *host, from time.Time) time.Time {
	if c.round.end.IsZero() || !c.cfg.Revisit.QuickHours || h.front.Begun() {
		return from
	}
	server := c.servers.Get(h.name)
	runs := 1 + h.front.Left()/c.cfg.Run.Pages
	long := time.Duration(runs) * c.every(h.name, h.home()) * 5 / 4 // some pages are new
	name := fnv.New32a()
	name.Write([]byte(h.name))
	c.Robot.mu.Lock()
	turn := c.cycle.Number + int64(name.Sum32())
	c.Robot.mu.Unlock()
	explore := turn%int64(2+server.Hours.Known()/6) == 0
	return c.plan.Begin(&server.Hours, from, c.round.end, long, explore)
}
