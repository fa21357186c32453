package board

import (
	"context"
	"net/http"
	"time"

	"sheaf/archive/catalog"
	"sheaf/ingest/inbox"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
)

// overviewPage is the first page of the board.
type overviewPage struct {
	page
	Tiles      []tile
	Last       *catalog.Edition // nil: there is none, or another process has the archive
	Failures   []advice
	More       int    // number of failures that are not listed
	Next       string // when the next edition appears
	Buffers    []buffer
	Robots     []robot              // the first robots; those in trouble come first
	AllOf      int                  // number of all robots
	Unanswered int64                // number of hosts whose last visit got no answer
	Waiting    int                  // number of hosts that wait for a decision; at most mostWaiting
	Running    []transfers.Transfer // the first ones
	Others     int                  // number of transfers that are not listed
	Rates      []webpage.Chart
}

// buffer is one buffer. Since is how long its oldest batch has been there.
type buffer struct {
	inbox.Buffer
	Name  string
	Since time.Duration
	Path  string
}

const (
	mostWaiting  = 1000
	mostFailures = 20
	mostRobots   = 15
	mostRunning  = 50
	unpublished  = 26 * time.Hour // in post-split: there is a window every day
)

var overviewTemplate = parse("overview")

func (b *board) overview(w http.ResponseWriter, r *http.Request) error {
	p := overviewPage{page: b.page(r)}
	p.addRunning(b.Running)
	p.Next = b.nextPublication(p.Page)
	wrong, err := b.wrong(r.Context(), p.Page)
	if err != nil {
		return err
	}
	p.More = max(0, len(wrong)-mostFailures)
	for _, f := range wrong[:len(wrong)-p.More] {
		p.Failures = append(p.Failures, p.advise(f))
	}
	for _, add := range []func(context.Context, *overviewPage) error{b.addRobots, b.addBuffers, b.addEditions, b.addPlace} {
		if err := add(r.Context(), &p); err != nil {
			return err
		}
	}
	now := time.Now()
	filter := transfers.PeriodFilter{By: transfers.Hour, Since: b.Site.Local(now.Add(-48 * time.Hour)), Each: true}
	periods, err := b.Transfers.Periods(r.Context(), filter)
	if err != nil {
		return err
	}
	p.Rates = Charts(p.Page, filter, periods, now)
	return webpage.Show(w, r, http.StatusOK, overviewTemplate, p)
}

func (p *overviewPage) addRunning(r *transfers.Running) {
	all := r.List(transfers.Filter{})
	p.Running, p.Others = all[:min(mostRunning, len(all))], max(0, len(all)-mostRunning)
}
