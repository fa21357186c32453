package board

import (
	"context"
	"net/http"
	"time"

	"sheaf/ingest/ledger"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
)

// overviewPage is the first page of the board.
type overviewPage struct {
	webpage.Page
	Failures []Failure
	Next     time.Time // of the publications; zero: at any moment
	Buffers  []buffer
	Robots   []robot
	Waiting  int // hosts that wait for a decision; at most mostWaiting
	Running  []transfers.Transfer
	Rates    []webpage.Chart
	Plan     *levelling.Plan // nil: none was made
	HasRoom  struct{ Ingest, Manager bool }
}

// buffer is one buffer with the time since when its oldest batch has been there.
type buffer struct {
	ledger.Buffer
	Name  string
	Since time.Duration
	Path  string
}

// robot is one line of the list of robots.
type robot struct {
	Name, Version, State string
	Wrong                bool
	Hosts                int64
	Silent               time.Duration // since its last request
	Phase                string
	Pages, Left, Spool   int64
	Rate                 float64 // pages a second
}

const (
	mostWaiting  = 1000
	silentFor    = 2 * time.Hour // without a request a robot counts as silent
	waitsTooLong = time.Hour     // in the buffers before post-split
)

var overviewTemplate = parse("overview")

func (b *board) overview(w http.ResponseWriter, r *http.Request) error {
	p := overviewPage{Page: b.page(r), Failures: b.Failing(r.Context()), Running: b.Running.List(transfers.Filter{})}
	now := time.Now()
	if !b.Publish.Open(now) {
		p.Next, _ = b.Publish.Next(now)
	}
	p.HasRoom.Ingest, p.HasRoom.Manager = b.Ingest != nil, b.Manager != nil
	if b.Ingest != nil {
		if err := b.addBuffers(r.Context(), &p); err != nil {
			return err
		}
	}
	if b.Manager != nil {
		if err := b.addRobots(r.Context(), &p); err != nil {
			return err
		}
	}
	filter := transfers.PeriodFilter{By: transfers.Hour, Since: b.Site.Local(now.Add(-48 * time.Hour))}
	periods, err := b.Transfers.Periods(r.Context(), filter)
	if err != nil {
		return err
	}
	p.Rates = charts(p.Page, filter, periods, now)
	return webpage.Show(w, r, http.StatusOK, overviewTemplate, p)
}

func (b *board) addBuffers(ctx context.Context, p *overviewPage) error {
	list, err := b.Ingest.Buffers(ctx)
	if err != nil {
		return err
	}
	for _, one := range list {
		if one.State == wire.StatePublished {
			continue
		}
		shown := buffer{Buffer: one, Name: stateName(p.Page, one.State), Since: time.Duration(one.Oldest * float64(time.Second)), Path: pathBatches + "?state=" + string(one.State)}
		p.Buffers = append(p.Buffers, shown)
		switch {
		case one.State == wire.StateQuarantined && one.Batches > 0:
			p.Failures = append(p.Failures, Failure{p.T("%s batches are in the quarantine", p.Number(one.Batches)), p.T("release or discard them"), shown.Path})
		case one.State != wire.StatePostSplit && shown.Since > waitsTooLong:
			p.Failures = append(p.Failures, Failure{p.T("a batch has been in %q for %s", shown.Name, p.Took(shown.Since)), p.T("its page says why"), shown.Path})
		}
	}
	return nil
}

// stateName says a batch's state in the reader's words.
func stateName(p webpage.Page, s wire.State) string {
	switch s {
	case wire.StateReceived:
		return p.T("received")
	case wire.StatePreSplit:
		return p.T("pre-split")
	case wire.StatePostSplit:
		return p.T("post-split")
	case wire.StatePublished:
		return p.T("published")
	case wire.StateQuarantined:
		return p.T("quarantine")
	}
	return string(s)
}

func (b *board) addRobots(ctx context.Context, p *overviewPage) error {
	robots, err := b.Manager.Roster.Robots(ctx)
	if err != nil {
		return err
	}
	status, err := b.Manager.Levelling.Status(ctx)
	if err != nil {
		return err
	}
	backlogs := make(map[string]levelling.Backlog)
	for _, one := range status.Backlogs {
		backlogs[one.Robot] = one
	}
	if !status.Plan.Made.IsZero() {
		p.Plan = &status.Plan
	}
	for _, one := range robots {
		l := backlogs[one.Name]
		line := robot{Name: one.Name, Version: one.Version, Hosts: one.Hosts, Silent: ago(one.Seen), Phase: l.Phase, Pages: l.Pages, Left: l.Left, Spool: l.Spool, Rate: l.Rate}
		switch {
		case !one.Revoked.IsZero():
			line.State = p.T("revoked")
		case one.Joined.IsZero():
			line.State = p.T("has not joined yet")
		case !one.Lapsed.IsZero():
			line.State, line.Wrong = p.T("silent: its hosts were handed on"), true
		case line.Silent > silentFor, !one.Late.IsZero():
			line.State, line.Wrong = p.T("silent"), true
		case one.Paused:
			line.State = p.T("paused")
		case one.Behind > 0:
			line.State, line.Wrong = p.T("runs an old release"), true
		default:
			line.State = p.T("at work")
		}
		if line.Wrong {
			p.Failures = append(p.Failures, Failure{p.T("robot %s: %s", one.Name, line.State), p.T("last seen %s", p.Clock(one.Seen)), "#robots"})
		}
		p.Robots = append(p.Robots, line)
	}
	waiting, err := b.Manager.Hosts.Hosts(ctx, hosts.Pending, "", mostWaiting)
	p.Waiting = len(waiting)
	return err
}
