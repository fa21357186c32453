package control

import (
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
	b.row("dry run", "nothing is visited and nothing is written")
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
		b.row("paused", `since %s: nothing would be visited before "robotd resume"`, clock(p.Paused, v.Now))
	}
	b.row("pace", "%s between two visits at one address", span(p.Interval))
	if n := len(p.Visits); n > 0 {
		last := p.Visits[n-1].At
		b.row("round", "each host would have been visited once %s", until(last, v.Now))
		if !p.Until.IsZero() && last.After(p.Until) {
			b.row("warning", "the window closes before every host is visited once")
		}
	}
	for _, u := range p.Unknown[:min(len(p.Unknown), max(visits, 0))] {
		b.row("left out", "%s: %s", readable(u.Host), u.Why)
	}
	shown := p.Visits
	if visits >= 0 && len(shown) > visits {
		shown = shown[:visits]
	}
	var rows [][]string
	for _, visit := range shown {
		rows = append(rows, []string{visit.At.Local().Format(time.DateTime), visit.Address, fit(readable(visit.Host), mostName), strings.Join(visit.URLs, " ")})
	}
	b.table([]string{"FIRST VISIT", "ADDRESS", "HOST", "URLS"}, rows)
	if more := len(p.Visits) - len(shown); more > 0 {
		b.add("… and " + count(int64(more)) + " more; --hosts all shows them")
	}
	return strings.Join(b.lines, "\n") + "\n"
}
