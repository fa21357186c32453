package control

import (
	"fmt"
	"strings"
	"time"
)

// Plan is what a robot would do, for a dry run.
type Plan struct {
	Robot      string        `json:"robot"`
	Manager    string        `json:"manager"`
	UserAgent  string        `json:"user_agent"`
	Window     string        `json:"window"`
	From       time.Time     `json:"from"`           // start of visits
	Until      time.Time     `json:"until,omitzero"` // end of visits; zero: none
	Interval   time.Duration `json:"interval"`       // time between two visits at one address, in nanoseconds
	Generation int64         `json:"generation"`
	Hosts      int           `json:"hosts"`
	Addresses  int           `json:"addresses"`
	Paused     time.Time     `json:"paused,omitzero"`
	Unknown    []Unknown     `json:"unknown"` // hosts without a known address
	Visits     []Visit       `json:"visits"`  // first visit of each host, in the order of time
}

// Unknown is a host that would be left out.
type Unknown struct {
	Host string `json:"host"`
	Why  string `json:"why"`
}

// Visit is the first visit to a host: to its robots.txt, then to the pages of URLs.
type Visit struct {
	At      time.Time `json:"at"`
	Host    string    `json:"host"`
	Address string    `json:"address"`
	URLs    []string  `json:"urls"`
}

// Plan formats a plan for people, with the given number of visits; negative: all.
func (v Screen) Plan(p *Plan, visits int) string {
	b := builder{screen: v}
	b.marked(bold, "dry run", "nothing is visited and nothing is written")
	b.row("robot", "%s, of %s", p.Robot, p.Manager)
	b.row("sends", "User-Agent: %s", p.UserAgent)
	b.row("list", "generation %d: %s on %s; %d without an address", p.Generation,
		plural(int64(p.Hosts), "host", "hosts"), plural(int64(p.Addresses), "address", "addresses"), len(p.Unknown))
	window := "visits may begin " + until(p.From, v.Now)
	if !p.Until.IsZero() {
		window += " and end " + until(p.Until, v.Now)
	}
	b.row("window", "%s; %s", window, p.Window)
	if !p.Paused.IsZero() {
		b.marked(yellow, "paused", `since `+clock(p.Paused, v.Now)+`: nothing would be visited before "robotd resume"`)
	}
	b.row("pace", "%s between two visits at one address", span(p.Interval))
	if n := len(p.Visits); n > 0 {
		last := p.Visits[n-1].At
		b.row("round", "each host would have been visited once %s", until(last, v.Now))
		if !p.Until.IsZero() && last.After(p.Until) {
			b.marked(yellow, "warning", "the window closes before every host is visited once")
		}
	}
	for _, u := range p.Unknown[:min(len(p.Unknown), max(visits, 0))] {
		b.marked(yellow, "left out", fmt.Sprintf("%s: %s", readable(u.Host), Printable(u.Why, 0)))
	}
	b.add("", "")
	shown := p.Visits
	if visits >= 0 && len(shown) > visits {
		shown = shown[:visits]
	}
	address, host := len("ADDRESS"), len("HOST")
	for _, visit := range shown {
		address, host = max(address, columns(visit.Address)), max(host, min(mostName, columns(readable(visit.Host))))
	}
	const at = "2006-01-02 15:04:05"
	b.add(dim, pad("FIRST VISIT", len(at))+"  "+pad("ADDRESS", address)+"  "+pad("HOST", host)+"  URLS")
	for _, visit := range shown {
		b.add("", visit.At.Local().Format(at)+"  "+pad(visit.Address, address)+"  "+pad(fit(readable(visit.Host), mostName), host)+"  "+
			Printable(strings.Join(visit.URLs, " "), 0))
	}
	if more := len(p.Visits) - len(shown); more > 0 {
		b.add(dim, fmt.Sprintf("… and %s more; --hosts all shows them", count(int64(more))))
	}
	return strings.Join(b.lines, "\n") + "\n"
}
