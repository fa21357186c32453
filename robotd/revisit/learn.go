package revisit

import (
	"hash/fnv"
	"net/netip"
	"time"

	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
)

// manyVisits is how many visits to a page are remembered in full.
const manyVisits = 60

// Learn gives v the history in past, and adds the visit at the given time. v is what the visit
// found, and past what was known before. changed says that the page was not as before. Days begin
// and end in the zone.
func Learn(v *frontier.Visit, past frontier.Visit, at time.Time, changed bool, zone *time.Location) {
	v.History = past.History
	last := v.Last
	if last.IsZero() {
		last = past.Full
	}
	v.Last = at
	if last.IsZero() || !last.Before(v.Last) {
		v.Daily.Observe(false, false)
		return
	}
	v.Changes.Observe(v.Last.Sub(last).Hours()/24, changed)
	v.Fade(manyVisits)
	v.Daily.Observe(day(last, zone) != day(v.Last, zone), changed)
}

// day returns the number of the day of a time.
func day(t time.Time, zone *time.Location) int {
	_, offset := t.In(zone).Zone()
	return int((t.Unix() + int64(offset)) / (24 * 3600))
}

// Speed adds up how fast a server answered within an hour.
type Speed struct {
	hour time.Time
	work float64 // work of the server, in answers
	took time.Duration
}

// pageSize is the size in bytes that counts as much as an answer. Most answers are too small for
// their size alone to tell the speed.
const pageSize = 64 << 10

// Hours learns at which hours servers are fast.
type Hours struct {
	Servers *Servers
	Plan    config.Plan
	Pace    *Pace
	Round   Round
	Use     bool // visits begin in the hours at which servers are fast
}

// Observe takes in an answer that began at start. s is the host's Speed, and home the host's
// address.
func (h *Hours) Observe(host string, home netip.Addr, s *Speed, start time.Time, bytes int64, took time.Duration) {
	if hour := start.Truncate(time.Hour); !s.hour.Equal(hour) {
		h.End(host, home, s)
		*s = Speed{hour: hour}
	}
	s.work += 1 + float64(bytes)/pageSize
	s.took += took
}

// End notes the speed in the hour that is now over.
func (h *Hours) End(host string, home netip.Addr, s *Speed) {
	if s.took <= 0 {
		return
	}
	zone := h.Plan.Window.Location()
	server := h.Servers.Get(host)
	today := day(s.hour, zone)
	if server.Day > 0 {
		for range min(today-server.Day, 365) {
			server.Hours.Forget()
		}
	}
	server.Day, server.Addr = today, home
	server.Hours.Observe(s.hour.In(zone).Hour(), s.work/s.took.Seconds())
	h.Servers.Set(host, server)
}

// Begin returns the time to begin with a host, not before from: in the hours at which its server is
// fastest, as far as they are known and the window and the round allow. Now and then it is the hour
// about which least is known.
func (h *Hours) Begin(front *frontier.Host, home netip.Addr, from time.Time) time.Time {
	if h.Round.End.IsZero() || !h.Use || front.Begun() {
		return from
	}
	server := h.Servers.Get(front.Name)
	runs := 1 + front.Left()/h.Pace.RunPages(front.Name)
	long := time.Duration(runs) * h.Pace.Every(front.Name, home) * 5 / 4 // some pages are new
	name := fnv.New32a()
	name.Write([]byte(front.Name))
	explore := (h.Round.Cycle+int64(name.Sum32()))%int64(2+server.Hours.Known()/6) == 0
	return Begin(h.Plan, &server.Hours, from, h.Round.End, long, explore)
}
