package board

import (
	"cmp"
	"database/sql"
	_ "embed"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/ingest/inbox"
	"sheaf/internal/api"
	"sheaf/internal/mailer"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/levelling"
	"sheaf/manager/roster"
	"sheaf/serve/httpd/guard"
)

// PartnersOptions are the settings of the pages and mails.
type PartnersOptions struct {
	Site      *webpage.Site
	Manager   *manager.Manager
	DB        *sql.DB // has the batches
	Transfers *transfers.Log
	Mails     *mailer.Outbox
	Base      string       // the service's own URL, for links in mails
	Notices   bool         // whether sites are told by mail
	Log       *slog.Logger // nil: discards
}

// Partners serves the pages and sends the mails.
type Partners struct {
	opt     PartnersOptions
	batches *inbox.Ledger
}

// NewPartners returns Partners. Register mounts their pages, and Run sends their mails.
func NewPartners(opt PartnersOptions) *Partners {
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	return &Partners{opt, inbox.NewLedger(opt.DB)}
}

// WaitsTooLong is how long a batch may be in the buffers before post-split.
const WaitsTooLong = time.Hour

// State describes a robot's state in the reader's language. wrong says whether the robot has a
// trouble.
func State(p webpage.Page, r roster.Robot) (text string, wrong bool) {
	switch {
	case !r.Revoked.IsZero():
		return p.T("revoked"), false
	case r.Joined.IsZero():
		return p.T("has not joined yet"), false
	case len(r.Troubles) > 0:
		var names []string
		for _, t := range r.Troubles {
			names = append(names, troubleName(p, t.Kind))
		}
		return strings.Join(names, p.T(", ")), true
	case !r.Subscribed:
		return p.T("away"), false
	case r.Paused:
		return p.T("paused"), false
	}
	return p.T("at work"), false
}

// troubleName names a kind of trouble in a few words of the reader's language.
func troubleName(p webpage.Page, kind wire.Trouble) string {
	return cmp.Or(map[wire.Trouble]string{
		wire.TroubleSilent: p.T("silent"),
		wire.TroubleDisk:   p.T("its disk is full"),
		wire.TroubleUpload: p.T("its batches are not taken"),
		wire.TroubleBatch:  p.T("one of its batches does not come through"),
		wire.TroubleHosts:  p.T("its hosts do not answer"),
		wire.TroubleClock:  p.T("its clock is wrong"),
		wire.TroubleKey:    p.T("does not know the service's newest key"),
		wire.TroubleOld:    p.T("runs an old release"),
	}[kind], string(kind))
}

//go:embed partner.html
var robotText string

var partnerTemplate = webpage.Parse(robotText)

var signedPage = webpage.Get[route.None](api.PathRobotPage+"{name}/{link:[a-z0-9]+}/{signature:[a-z0-9]+}", route.Anybody, "One robot, for the people at its site; the link is signed")

// Register mounts the page. Anybody with a robot's signed link may open it.
func (s *Partners) Register(r *mux.Router, g *guard.Guard) {
	r.Handle(signedPage.Path, problem.Within(g.Public(s.robot))).Methods(http.MethodGet, http.MethodHead)
}

// PartnerRoutes returns the page, for the API description.
func PartnerRoutes() []*route.Route { return []*route.Route{signedPage.Route} }

// Limits of the page.
const (
	daysShown    = 30
	batchesShown = 20
	mostBatches  = 500 // of daysShown, for the sums by day
)

// partnerPage shows one robot.
type partnerPage struct {
	webpage.Page
	Robot    roster.Robot
	State    string
	Wrong    bool
	Troubles []string
	Work     *levelling.Backlog // nil: the robot has sent no heartbeat
	Expected time.Duration      // time of tonight's transfers; 0: not known
	Left     time.Duration      // time until all known URLs are visited, at the robot's rate; 0: not known
	Days     []day
	Charts   []webpage.Chart
	Batches  []batch
	Waiting  count // batches that are neither published nor in the quarantine
}

// day is what a robot did on one day.
type day struct {
	Date     string
	Requests int64 // from the logs that it submitted
	Batches  int
	Bytes    int64 // of batches
	Rate     float64
}

type count struct {
	Batches int
	Bytes   int64
}

// batch is one batch, with its state in the reader's language.
type batch struct {
	*inbox.Batch
	State string
	Wrong bool
}

// robot answers a signed link with the robot's page.
func (s *Partners) robot(w http.ResponseWriter, r *http.Request) error {
	v := mux.Vars(r)
	if err := s.opt.Manager.Roster.OpenPage(r.Context(), v["name"], v["link"], v["signature"]); errors.Is(err, roster.ErrLink) {
		return problem.New(http.StatusNotFound, "bad_link", err.Error())
	} else if err != nil {
		return err
	}
	p, err := s.page(r, v["name"])
	if err != nil {
		return err
	}
	w.Header().Set("X-Robots-Tag", "noindex")
	return webpage.Show(w, r, http.StatusOK, partnerTemplate, p)
}

func (s *Partners) page(r *http.Request, name string) (p *partnerPage, err error) {
	ctx := r.Context()
	p = &partnerPage{Page: s.opt.Site.For(r)}
	robots, err := s.opt.Manager.Roster.Robots(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range robots {
		if one.Name == name {
			p.Robot = one
		}
	}
	p.State, p.Wrong = State(p.Page, p.Robot)
	troubles, err := s.opt.Manager.Roster.TroublesOf(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, t := range troubles {
		p.Troubles = append(p.Troubles, trouble(p.Page, t))
	}
	status, err := s.opt.Manager.Levelling.Status(ctx)
	if err != nil {
		return nil, err
	}
	p.addWork(status)
	list, err := s.batches.List(ctx, inbox.Filter{Robot: name, Limit: mostBatches})
	if err != nil {
		return nil, err
	}
	p.addBatches(list)
	now := time.Now()
	filter := transfers.PeriodFilter{By: transfers.Day, Since: p.Local(now).AddDate(0, 0, 1-daysShown), Who: name, Direction: transfers.Upload}
	periods, err := s.opt.Transfers.Periods(ctx, filter)
	if err != nil {
		return nil, err
	}
	p.Charts = Charts(p.Page, filter, periods, now)
	logs, err := s.opt.Manager.Costs.Handed(ctx, name, filter.Since)
	p.addDays(filter.Since, logs, list, periods)
	return p, err
}

// addWork adds the robot's present work and tonight's plan.
func (p *partnerPage) addWork(status levelling.Status) {
	for _, one := range status.Backlogs {
		if one.Robot == p.Robot.Name {
			p.Work = &one
			if one.Rate > 0 {
				p.Left = time.Duration(float64(one.Left) / one.Rate * float64(time.Second))
			}
		}
	}
	for _, one := range status.Robots {
		if one.Robot == p.Robot.Name {
			p.Expected = time.Duration(one.Expected * float64(time.Millisecond))
		}
	}
}

// addBatches adds the newest batches, and the sums of the waiting batches.
func (p *partnerPage) addBatches(list []*inbox.Batch) {
	for i, one := range list {
		if one.State != wire.StatePublished && one.State != wire.StateQuarantined {
			p.Waiting.Batches++
			p.Waiting.Bytes += one.Size
		}
		if i < batchesShown {
			p.Batches = append(p.Batches, batch{one, StateName(p.Page, one.State), one.State == wire.StateQuarantined})
		}
	}
}

// addDays adds the sums of each day, the newest first. It leaves out days without data.
func (p *partnerPage) addDays(since time.Time, logs []levelling.Handed, batches []*inbox.Batch, periods []transfers.Period) {
	days := make(map[string]*day)
	on := func(at time.Time) *day {
		date := p.Local(at).Format(time.DateOnly)
		if days[date] == nil {
			days[date] = &day{Date: date}
		}
		return days[date]
	}
	for _, l := range logs {
		on(l.At).Requests += l.Requests
	}
	for _, b := range batches {
		if b.Received.After(since) {
			d := on(b.Received)
			d.Batches++
			d.Bytes += b.Size
		}
	}
	for _, t := range periods {
		on(t.Begin).Rate = t.Rate()
	}
	for _, d := range days {
		p.Days = append(p.Days, *d)
	}
	slices.SortFunc(p.Days, func(a, b day) int { return strings.Compare(b.Date, a.Date) })
}

// StateName names a batch's state in the reader's language.
func StateName(p webpage.Page, s wire.State) string {
	return cmp.Or(map[wire.State]string{
		wire.StateReceived:    p.T("received"),
		wire.StatePreSplit:    p.T("pre-split"),
		wire.StatePostSplit:   p.T("post-split"),
		wire.StatePublished:   p.T("published"),
		wire.StateQuarantined: p.T("quarantine"),
	}[s], string(s))
}

// StateName is the function StateName, for templates.
func (p page) StateName(s wire.State) string { return StateName(p.Page, s) }

// trouble describes a robot's trouble in the reader's language.
func trouble(p webpage.Page, t roster.Trouble) string {
	text := map[wire.Trouble]string{
		wire.TroubleSilent: p.T("Nothing is heard of it. Its hosts were handed on to other robots. Look whether its machine and its way to the service work."),
		wire.TroubleBatch:  p.T("A batch does not come through. The people who run the archive see it too; there is nothing for you to do."),
		wire.TroubleDisk:   p.T("There is too little space on its disk, so it collects nothing. Make room."),
		wire.TroubleUpload: p.T("The service does not take its batches. It keeps them and tries again."),
		wire.TroubleHosts:  p.T("Half of its hosts or more do not answer it. Look whether its network works."),
		wire.TroubleClock:  p.T("Its clock is wrong, and so are the times of its pages. Have it set (NTP)."),
	}[t.Kind]
	if t.Detail != "" {
		text += " (" + mailer.OneLine(t.Detail) + ")"
	}
	return text
}
