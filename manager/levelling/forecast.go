package levelling

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
)

// Forecast says how many robots are needed to collect a number of hosts every night, and from which
// figures that was computed. It ignores the time of uploads. Times are in ms.
type Forecast struct {
	Hosts int64 `json:"hosts"`
	Pages int64 `json:"pages"` // of all hosts, in a night

	Measured bool    `json:"measured"`     // pages and robots are like those of this service; false: nothing was measured yet
	Sample   int     `json:"sample_hosts"` // number of measured hosts, which stand for all
	PageKB   float64 `json:"page_kb"`
	PageMS   float64 `json:"page_ms"`     // transfer time at the median robot
	Interval float64 `json:"interval_ms"` // between two visits to an address, at the median robot
	Width    float64 `json:"width"`       // transfers at once, at the median robot
	Line     float64 `json:"line"`        // bytes a second, at the median robot; 0: not known to limit any robot
	Window   float64 `json:"window_ms"`   // length of the robots' shortest night, on average

	Robots  int          `json:"robots"`
	Nightly float64      `json:"robot_pages"` // pages that a robot collects in a night, on average
	Binds   balance.Bind `json:"binds"`       // the limit that keeps a robot from collecting more

	LongAddresses float64 `json:"long_addresses"` // share of the addresses whose visits take longer than a night
	LatePages     float64 `json:"late_pages"`     // share of the pages that are not collected in a night for that reason
	Longest       float64 `json:"longest_ms"`     // time that the visits to one address take at most
	Fitting       float64 `json:"fitting_ms"`     // interval at which these visits would take exactly a night
}

// Assumptions if nothing was measured: the defaults of robots, and pages of the usual size today.
const (
	assumedGap   = 20_000 // ms
	assumedWidth = 100
	assumedKB    = 30
	assumedMS    = 1000
	assumedNight = 6 * time.Hour // on weekdays

	forecastHosts = 5000 // measured hosts that are read; all hosts at their addresses are read too
)

// Forecast computes a forecast from the robots' measurements. window is the length of a night; 0:
// as the robots' heartbeats have shown it, or as Options set it.
func (l *Leveller) Forecast(ctx context.Context, hosts, pages int64, window time.Duration) (f Forecast, err error) {
	const most = int64(1e12)
	if hosts < 1 || hosts > most || pages < hosts || pages > most || window < 0 || window > 24*time.Hour {
		return f, assign.Invalid{Err: fmt.Errorf("%d hosts with %d pages in %v: want at least 1 host, at least a page of each, at most %d, and at most 24h", hosts, pages, window, most)}
	}
	s, err := l.snapshot(ctx, hostFilter{
		where: "h.grp IN (SELECT grp FROM hosts WHERE name IN (SELECT DISTINCT host FROM costs ORDER BY host LIMIT ?))", args: []any{forecastHosts},
	})
	if err != nil {
		return f, err
	}
	f = Forecast{Hosts: hosts, Pages: pages, Measured: s.fit()}
	demand := f.demand(s)
	sorts, err := l.sorts(ctx, s, f.Measured, window)
	if err != nil {
		return f, err
	}
	f.describe(sorts)
	need := balance.Forecast(demand, sorts)
	f.Robots, f.Nightly, f.Binds = need.Robots, need.Nightly, need.Binds
	f.LongAddresses, f.LatePages, f.Longest, f.Fitting = need.LongAddresses, need.LatePages, need.Longest, need.Fitting
	return f, nil
}

// demand returns what is to be collected: hosts like those of the snapshot, scaled to the wanted
// average number of pages.
func (f *Forecast) demand(s *snapshot) balance.Demand {
	each := float64(f.Pages) / float64(f.Hosts)
	var pages, kb, ms float64
	groups := map[string]balance.Work{}
	for j := range s.hosts {
		if !f.Measured || s.pages[j] <= 0 || s.kb[j] <= 0 {
			continue
		}
		f.Sample++
		pages, kb, ms = pages+s.pages[j], kb+s.kb[j], ms+s.weight[j]
		w := balance.Work{Pages: s.pages[j], KB: s.kb[j], MS: s.weight[j], Gap: s.gap[j].seen, Set: s.gap[j].set}
		if before, ok := groups[s.group[j]]; ok {
			w = w.Join(before)
		}
		groups[s.group[j]] = w
	}
	if f.Sample == 0 {
		f.Measured, f.PageKB, f.PageMS = false, assumedKB, assumedMS
		host := balance.Work{Pages: each, KB: each * assumedKB, MS: each * assumedMS}
		return balance.Demand{Pages: float64(f.Pages), KB: assumedKB, MS: assumedMS, Addresses: []balance.Work{host}}
	}
	f.PageKB, f.PageMS = kb/pages, ms/pages
	d := balance.Demand{Pages: float64(f.Pages), KB: f.PageKB, MS: f.PageMS}
	scale := each / (pages / float64(f.Sample))
	for _, w := range groups {
		d.Addresses = append(d.Addresses, balance.Work{Pages: w.Pages * scale, KB: w.KB * scale, MS: w.MS * scale, Gap: w.Gap, Set: w.Set})
	}
	return d
}

// sorts returns each robot of the snapshot as a sort or, if nothing was measured, one assumed sort.
func (l *Leveller) sorts(ctx context.Context, s *snapshot, measured bool, window time.Duration) ([]balance.Sort, error) {
	weeks, err := db.Pairs[string, week](ctx, l.db, `SELECT robot, week FROM heartbeats`)
	if err != nil {
		return nil, fmt.Errorf("forecast: %w", err)
	}
	night := func(robot string) float64 {
		for _, d := range []time.Duration{window, weeks[robot].shortest(), l.opt.Window} {
			if d > 0 {
				return float64(d.Milliseconds())
			}
		}
		return float64(assumedNight.Milliseconds())
	}
	if !measured {
		pace := balance.Pace{Gap: assumedGap, Width: balance.Limit{Most: assumedWidth, Binds: true}}
		return []balance.Sort{{Pace: pace, Slow: 1, Window: night("")}}, nil
	}
	sorts := make([]balance.Sort, len(s.robots))
	for i, robot := range s.robots {
		sorts[i] = balance.Sort{Pace: s.paces[i], Slow: s.slow[i], Window: night(robot)}
		if sorts[i].Pace.Gap < 0 { // another limit bound all of its nights
			sorts[i].Pace.Gap = assumedGap
		}
	}
	return sorts, nil
}

// describe fills in the robots' median figures, and the mean length of their nights.
func (f *Forecast) describe(sorts []balance.Sort) {
	var gaps, widths, lines []float64
	for _, s := range sorts {
		gaps, widths = append(gaps, s.Pace.Gap), append(widths, s.Pace.Width.Assumed())
		if s.Pace.Line.Binds {
			lines = append(lines, s.Pace.Line.Most)
		}
		f.Window += s.Window / float64(len(sorts))
	}
	f.Interval, f.Width = balance.Median(gaps), balance.Median(widths)
	if len(lines) > 0 {
		f.Line = balance.Median(lines)
	}
}

// shortest returns the open hours of the weekday that has the fewest. It ignores days without open
// hours, and returns 0 if the window was never seen shut.
func (w week) shortest() (least time.Duration) {
	if len(w) != hoursOfWeek || !strings.Contains(string(w), "s") {
		return 0
	}
	for day := range 7 {
		open := time.Duration(0)
		for hour := range 24 {
			if w.open(24*day + hour) {
				open += time.Hour
			}
		}
		if open > 0 && (least == 0 || open < least) {
			least = open
		}
	}
	return least
}
