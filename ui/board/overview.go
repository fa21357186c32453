package board

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"sheaf/archive/catalog"
	"sheaf/ingest/inbox"
	"sheaf/internal/certs"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/manager/hosts"
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

func (b *board) overview(r *http.Request) (any, error) {
	p := overviewPage{page: b.page(r)}
	p.addRunning(b.Running)
	p.Next = b.nextPublication(p.Page)
	wrong, err := b.wrong(r.Context(), p.Page)
	if err != nil {
		return nil, err
	}
	p.More = max(0, len(wrong)-mostFailures)
	for _, f := range wrong[:len(wrong)-p.More] {
		p.Failures = append(p.Failures, p.advise(f))
	}
	for _, add := range []func(context.Context, *overviewPage) error{b.addRobots, b.addBuffers, b.addEditions, b.addPlace} {
		if err := add(r.Context(), &p); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	filter := transfers.PeriodFilter{By: transfers.Hour, Since: b.Site.Local(now.Add(-48 * time.Hour)), Each: true}
	periods, err := b.Transfers.Periods(r.Context(), filter)
	if err != nil {
		return nil, err
	}
	p.Rates = Charts(p.Page, filter, periods, now)
	return p, nil
}

func (p *overviewPage) addRunning(r *transfers.Running) {
	all := r.List(transfers.Filter{})
	p.Running, p.Others = all[:min(mostRunning, len(all))], max(0, len(all)-mostRunning)
}

// tile is one of the figures below the board's first sentence.
type tile struct {
	Name, Value string
	Note        string
	Path        string // page with the figure's details; empty: there is none
	Bad         bool
}

func (p *overviewPage) addTile(name, value, note, path string, bad bool) {
	p.Tiles = append(p.Tiles, tile{name, value, note, path, bad})
}

// addRobots adds the robots, and the hosts that wait for a decision.
func (b *board) addRobots(ctx context.Context, p *overviewPage) error {
	if b.Manager == nil {
		return nil
	}
	all, err := b.lines(ctx, p.Page)
	if err != nil {
		return err
	}
	p.AllOf, p.Robots = len(all), all[:min(mostRobots, len(all))]
	working, silent, troubled := 0, 0, 0
	for _, one := range all {
		p.Unanswered += one.Unanswered
		switch {
		case one.Has(wire.TroubleSilent):
			silent++
		case one.Wrong:
			troubled++
		case !one.Joined.IsZero() && one.Revoked.IsZero() && one.Subscribed && !one.Paused:
			working++
		}
	}
	p.addTile(p.T("Robots at work"), p.Number(working), p.T("%d silent, %d in trouble", silent, troubled), "#robots", silent+troubled > 0)
	waiting, err := b.Manager.Hosts.Hosts(ctx, hosts.Filter{State: hosts.Pending}, "", mostWaiting)
	p.Waiting = len(waiting)
	value := p.Number(p.Waiting)
	if p.Waiting == mostWaiting {
		value = "≥ " + value
	}
	p.addTile(p.T("Hosts that wait"), value, p.T("for a decision"), pathHosts, false)
	return err
}

// addBuffers adds the buffers, with a tile of the quarantine.
func (b *board) addBuffers(ctx context.Context, p *overviewPage) error {
	if b.Ingest == nil {
		return nil
	}
	list, err := b.Ingest.Buffers(ctx)
	for _, one := range list {
		p.Buffers = append(p.Buffers, buffer{Buffer: one, Name: StateName(p.Page, one.State), Since: oldest(one), Path: pathBatches + "?state=" + string(one.State)})
		if one.State == wire.StateQuarantined {
			p.addTile(p.T("In the quarantine"), p.Number(one.Batches), p.Bytes(one.Bytes), pathBatches+"?state="+string(one.State), one.Batches > 0)
		}
	}
	return err
}

// addEditions adds the last edition and the next.
func (b *board) addEditions(ctx context.Context, p *overviewPage) error {
	if b.Library != nil {
		all, err := b.Library.Tree.Editions(ctx)
		if err != nil {
			return err
		}
		if len(all) > 0 {
			p.Last = &all[len(all)-1]
			p.addTile(p.T("Last edition"), p.Last.Name, p.T("published %s", p.shortly(p.Last.Published)), pathStore, false)
		}
	}
	if b.Ingest == nil {
		return nil
	}
	now := time.Now()
	switch next, ok := b.Publish.Next(now); {
	case b.Publish.Open(now):
		p.addTile(p.T("Next edition"), p.T("soon"), p.T("as soon as batches are split"), "#buffers", false)
	case ok:
		p.addTile(p.T("Next edition"), p.shortly(next), p.T("in %s", p.Took(next.Sub(now))), "#buffers", false)
	default:
		p.addTile(p.T("Next edition"), "–", p.T("when an operator publishes"), "#buffers", false)
	}
	return nil
}

// addPlace adds the fullest disk, and the certificate that expires first.
func (b *board) addPlace(_ context.Context, p *overviewPage) error {
	if all := b.disks(p.Page); len(all) > 0 {
		d := slices.MaxFunc(all, func(a, b disk) int { return cmp.Compare(a.Full, b.Full) })
		p.addTile(p.T("Disk"), fmt.Sprintf("%.0f %%", d.Full), p.T("%s free", p.Bytes(d.Room.Free)), pathStore+"#disks", slices.ContainsFunc(all, func(d disk) bool { return d.Wrong }))
	}
	if b.Expires == nil {
		return nil
	}
	if at := b.Expires(); !at.IsZero() {
		left := time.Until(at)
		p.addTile(p.T("Certificate"), p.Took(max(0, left)), p.T("until %s", p.Date(at)), "", left < certs.Soon)
	}
	return nil
}

// shortly formats a time: today without the day, otherwise without the year.
func (p page) shortly(t time.Time) string {
	if p.Date(t) == p.Date(time.Now()) {
		return p.Local(t).Format("15:04")
	}
	return p.Local(t).Format("01-02 15:04")
}

// Night returns one sentence: what the last night brought, and whether an operator has to act.
func (p overviewPage) Night() string {
	todo := p.T("nothing for you to do")
	if n := p.Todo(); n > 0 {
		todo = p.N("%s thing for you to do", "%s things for you to do", n)
	}
	if p.Last == nil {
		return p.T("Nothing is published yet; %s.", todo)
	}
	brought := p.N("%s host", "%s hosts", p.Last.Hosts) + p.T(", ") + p.N("%s page", "%s pages", p.Last.Records)
	if p.Unanswered > 0 {
		brought += p.T(", ") + p.T("%s did not answer", p.Number(p.Unanswered))
	}
	if time.Since(p.Last.Published) > lastNight {
		return p.T("The last edition is of %s: %s; %s.", p.Clock(p.Last.Published), brought, todo)
	}
	return p.T("Last night: %s, published %s; %s.", brought, p.shortly(p.Last.Published), todo)
}

// lastNight is the age up to which the last edition counts as last night's.
const lastNight = 24 * time.Hour

// Todo returns the number of things that an operator has to look at.
func (p overviewPage) Todo() int {
	n := len(p.Failures) + p.More
	if p.Waiting > 0 {
		n++
	}
	return n
}
