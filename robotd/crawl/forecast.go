package crawl

import (
	"cmp"
	"slices"
	"time"

	"sheaf/internal/window"
)

// Load is the work left at one address.
type Load struct {
	Address string
	Host    string        // the host with the most pages at the address
	Pages   int64         // pages left, of all hosts at the address
	Each    time.Duration // time from one page to the next at this address

	most int64 // pages of Host
}

// Forecast says when the known pages will have been visited. Since visits find more pages, it is a
// lower limit. It ignores times in which single hosts must not be visited.
type Forecast struct {
	Pages   int64         `json:"pages"`         // known and not visited
	Fits    int64         `json:"fits"`          // of those, how many can be visited before the window next closes
	Need    time.Duration `json:"need"`          // time with an open window, in nanoseconds
	Nights  int           `json:"nights"`        // number of openings of the window needed, including this one
	Done    time.Time     `json:"done,omitzero"` // when all are visited; zero: not within a year
	Slowest Load          `json:"slowest"`       // the address that takes longest
}

// maxNights limits how far a forecast looks ahead.
const maxNights = 1000

// predict returns the forecast for a robot that can begin at from; nil: no page is left. floor is
// the least time for any page, however many addresses there are.
func predict(loads []Load, floor time.Duration, from time.Time, w *window.Schedule) *Forecast {
	var f Forecast
	for _, l := range loads {
		f.Pages += l.Pages
		if took(l) > took(f.Slowest) {
			f.Slowest = l
		}
	}
	if f.Pages == 0 {
		return nil
	}
	f.Need = max(took(f.Slowest), time.Duration(f.Pages)*floor)
	left := f.Need
	for at, ok := w.Next(from); ok && f.Nights < maxNights && at.Before(from.AddDate(1, 0, 0)); at, ok = w.Next(at) {
		f.Nights++
		until := w.Until(at)
		open := until.Sub(at)
		if until.IsZero() || open >= left {
			open = max(left, open)
			f.Done = at.Add(left)
		}
		if f.Nights == 1 {
			f.Fits = fits(loads, floor, open)
		}
		if !f.Done.IsZero() {
			return &f
		}
		left -= open
		at = until
	}
	return &f
}

func took(l Load) time.Duration { return time.Duration(l.Pages) * l.Each }

// fits returns how many pages can be visited in a time.
func fits(loads []Load, floor, open time.Duration) (n int64) {
	for _, l := range loads {
		if l.Each <= 0 {
			n += l.Pages
			continue
		}
		n += min(l.Pages, int64(open/l.Each)+1) // the first page is visited at once
	}
	if floor > 0 {
		n = min(n, int64(open/floor)+1)
	}
	return n
}

// busiest sorts hosts by their pages in the last minute, the most first, then by state and by the
// time of the next visit.
func busiest(hosts []HostStatus) {
	slices.SortFunc(hosts, func(a, b HostStatus) int {
		return cmp.Or(
			cmp.Compare(b.Pages.PerMinute, a.Pages.PerMinute),
			cmp.Compare(rank(a.State), rank(b.State)),
			a.Next.Compare(b.Next),
			cmp.Compare(b.Left, a.Left),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

func rank(s HostState) int { return slices.Index([]HostState{Visiting, Waits, LeftOut, Done}, s) }
