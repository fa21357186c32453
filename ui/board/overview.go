package board

import (
	"context"
	"net/http"
	"time"

	"sheaf/ingest/inbox"
	"sheaf/internal/chart"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/manager/hosts"
	"sheaf/ui/removal"
)

// overviewPage is the first page of the board.
type overviewPage struct {
	page
	Failures []Failure
	More     int    // failures that are not listed
	Next     string // when the next edition appears
	Buffers  []buffer
	Robots   []robot              // the first, those with which something is wrong before the others
	AllOf    int                  // robots
	Waiting  int                  // hosts that wait for a decision; at most mostWaiting
	Running  []transfers.Transfer // the first
	Others   int                  // transfers that are not listed
	Rates    []chart.Chart
}

// buffer is one buffer with the time since when its oldest batch has been there.
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
	p := overviewPage{page: b.page(r), Failures: b.Failing(r.Context())}
	p.addRunning(b.Running)
	p.Next = b.nextPublication(p.Page)
	for _, d := range b.disks(p.Page) {
		if d.Wrong {
			p.Failures = append(p.Failures, Failure{p.T("%s: %.0f %% full", d.Name, d.Full), p.T("uploads stop before it is full"), pathStore + "#disks"})
		}
	}
	for _, add := range []func(context.Context, *overviewPage) error{b.addBuffers, b.addRemovals, b.addRobots, b.addReleases, b.addWatches, b.addStore} {
		if err := add(r.Context(), &p); err != nil {
			return err
		}
	}
	p.More = max(0, len(p.Failures)-mostFailures)
	p.Failures = p.Failures[:len(p.Failures)-p.More]
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

func (b *board) addBuffers(ctx context.Context, p *overviewPage) error {
	if b.Ingest == nil {
		return nil
	}
	list, err := b.Ingest.Buffers(ctx)
	if err != nil {
		return err
	}
	for _, one := range list {
		shown := buffer{Buffer: one, Name: StateName(p.Page, one.State), Since: time.Duration(one.Oldest * float64(time.Second)), Path: pathBatches + "?state=" + string(one.State)}
		p.Buffers = append(p.Buffers, shown)
		switch {
		case one.State == wire.StatePublished:
		case one.State == wire.StateQuarantined && one.Batches > 0:
			p.Failures = append(p.Failures, Failure{p.N("%s batch is in the quarantine", "%s batches are in the quarantine", one.Batches), p.T("to be released or discarded"), shown.Path})
		case one.State == wire.StatePostSplit && shown.Since > unpublished:
			p.Failures = append(p.Failures, Failure{p.T("a batch has waited for its publication for %s", p.Took(shown.Since)), p.T("look at the window, or publish now"), pathStore})
		case one.State != wire.StatePostSplit && shown.Since > WaitsTooLong:
			p.Failures = append(p.Failures, Failure{p.T("a batch has been in %q for %s", shown.Name, p.Took(shown.Since)), p.T("its page says why"), shown.Path})
		}
	}
	return nil
}

// addRemovals adds that owners of sites wait for a decision.
func (b *board) addRemovals(ctx context.Context, p *overviewPage) error {
	if b.Removals == nil {
		return nil
	}
	list, err := b.Removals.List(ctx, mostWaiting, removal.Proved)
	if len(list) > 0 {
		p.Failures = append(p.Failures, Failure{p.N("%s owner of a site waits for a decision", "%s owners of sites wait for a decision", len(list)), p.T("grant or refuse what they ask for"), pathRemovals})
	}
	return err
}

func (b *board) addRobots(ctx context.Context, p *overviewPage) error {
	if b.Manager == nil {
		return nil
	}
	all, err := b.lines(ctx, p.Page)
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.Wrong {
			p.Failures = append(p.Failures, Failure{p.T("robot %s: %s", one.Name, one.State), p.T("last seen %s", p.Clock(one.Seen)), one.Path})
		}
	}
	p.AllOf, p.Robots = len(all), all[:min(mostRobots, len(all))]
	waiting, err := b.Manager.Hosts.Hosts(ctx, hosts.Filter{State: hosts.Pending}, "", mostWaiting)
	p.Waiting = len(waiting)
	return err
}

func (b *board) addReleases(ctx context.Context, p *overviewPage) error {
	if b.Manager == nil {
		return nil
	}
	all, err := b.Manager.Releases.List(ctx)
	if err == nil && len(all) > 0 && all[0].Stopped != "" {
		p.Failures = append(p.Failures, Failure{p.T("the roll-out of release %d is stopped", all[0].Counter), all[0].Stopped, pathReleases})
	}
	return err
}

func (b *board) addWatches(ctx context.Context, p *overviewPage) error {
	if b.Watches == nil {
		return nil
	}
	some, err := b.Watches.Troubled(ctx, "", listed)
	if len(some) > 0 {
		p.Failures = append(p.Failures, Failure{p.N("%s watch fails", "%s watches fail", len(some)), p.T("mails or webhooks are not taken"), pathWatches})
	}
	return err
}

// Many reports whether more hosts wait than were counted.
func (p overviewPage) Many() bool { return p.Waiting == mostWaiting }
