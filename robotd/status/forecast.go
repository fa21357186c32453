package status

import (
	"cmp"
	"slices"
	"time"

	"sheaf/internal/window"
)

// Load is what is left to do at one address.
type Load struct {
	Address string
	Host    string        // the one of its hosts with the most pages
	Pages   int64         // left, of all its hosts
	Each    time.Duration // from one page to the next, at this address
}

// Forecast says how far the known pages can be visited. More are found on the way, so that it
// is the least that a list takes. Hours in which single hosts are left alone are not in it.
type Forecast struct {
	Pages   int64         `json:"pages"`         // known and not visited
	Fits    int64         `json:"fits"`          // of them, before the window next closes
	Need    time.Duration `json:"need"`          // nanoseconds of open window
	Nights  int           `json:"nights"`        // openings of the window that it takes, this one included
	Done    time.Time     `json:"done,omitzero"` // when all are visited; zero: not within a year
	Slowest Load          `json:"slowest"`       // the address that takes longest
}

// maxNights bounds how far a forecast looks.
const maxNights = 1000

// Predict says when the loads are done by a robot that takes at least floor for any page, however
// many addresses there are, and that may begin at from.
func Predict(loads []Load, floor time.Duration, from time.Time, w *window.Schedule) *Forecast {
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

// fits is how many pages can be visited in a time.
func fits(loads []Load, floor, open time.Duration) (n int64) {
	for _, l := range loads {
		if l.Each <= 0 {
			n += l.Pages
			continue
		}
		n += min(l.Pages, int64(open/l.Each)+1) // the first is visited at once
	}
	if floor > 0 {
		n = min(n, int64(open/floor)+1)
	}
	return n
}

// Busiest sorts hosts: those of the last minute first, then by their next visit.
func Busiest(hosts []Host) {
	slices.SortFunc(hosts, func(a, b Host) int {
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
