package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"sheaf/ingest/inbox"
	"sheaf/internal/audit"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/levelling"
	"sheaf/manager/roster"
)

// robot is one line of the list of robots.
type robot struct {
	roster.Robot
	levelling.Backlog
	State  string // in the reader's language
	Wrong  bool
	Silent time.Duration // time since its last request
	Speed  float64       // pages a second now
	Path   string
}

// Share returns how much of its known URLs a robot has collected, in per cent.
func (r robot) Share() int64 {
	if r.Pages+r.Left == 0 {
		return 0
	}
	return 100 * r.Pages / (r.Pages + r.Left)
}

// End says when a robot will have collected its known URLs, at its rate.
func (p page) End(r robot) string {
	switch {
	case r.Left == 0 && r.Pages > 0:
		return p.T("done")
	case r.Left == 0 || r.Rate <= 0 || r.Wrong:
		return "–"
	}
	return p.T("about %s", p.shortly(time.Now().Add(time.Duration(float64(r.Left)/r.Rate*float64(time.Second)))))
}

// PhaseName names the phase of a robot's last heartbeat in the reader's language.
func (p page) PhaseName(phase string) string {
	return cmp.Or(map[wire.Phase]string{
		wire.PhaseStarting:   p.T("starting"),
		wire.PhaseCollecting: p.T("collecting"),
		wire.PhaseClosed:     p.T("window closed"),
		wire.PhaseIdle:       p.T("idle"),
		wire.PhaseResting:    p.T("resting"),
		wire.PhasePaused:     p.T("paused"),
	}[wire.Phase(phase)], "–") // there was no heartbeat
}

// lines returns the list of robots with the work that they have left. Robots in trouble come first.
func (b *board) lines(ctx context.Context, p webpage.Page) ([]robot, error) {
	robots, err := b.Manager.Roster.Robots(ctx)
	if err != nil {
		return nil, err
	}
	list, err := b.Manager.Levelling.Backlogs(ctx)
	if err != nil {
		return nil, err
	}
	backlogs := make(map[string]levelling.Backlog)
	for _, one := range list {
		backlogs[one.Robot] = one
	}
	all := make([]robot, 0, len(robots))
	for _, one := range robots {
		line := robot{Robot: one, Backlog: backlogs[one.Name], Silent: ago(one.Seen), Speed: backlogs[one.Name].Speed(time.Now()), Path: pathRobots + "/" + one.Name}
		line.State, line.Wrong = State(p, one)
		all = append(all, line)
	}
	slices.SortStableFunc(all, func(a, b robot) int {
		wrong := func(r robot) int {
			if r.Wrong {
				return 0
			}
			return 1
		}
		return cmp.Compare(wrong(a), wrong(b))
	})
	return all, nil
}

// robotsPage lists all robots.
type robotsPage struct {
	page
	Robots []robot
	Pager  pager
	By     string // hour, day or month
	Series []webpage.Chart
}

// Spans returns the names of the periods, by their names in queries.
func (p robotsPage) Spans() map[string]string {
	return map[string]string{transfers.Hour: p.T("by hour"), transfers.Day: p.T("by day"), transfers.Month: p.T("by month")}
}

func (b *board) robots(r *http.Request) (any, error) {
	p := robotsPage{page: b.page(r)}
	all, err := b.lines(r.Context(), p.Page)
	if err != nil {
		return nil, err
	}
	p.Robots, p.Pager = paged(r, all)
	asked, err := route.Query[robotsQuery](r.URL.Query())
	if err != nil {
		return nil, err
	}
	now := time.Now()
	f, err := transfers.PeriodQuery{By: asked.By}.Filter(b.Site.Local(now).Location(), now)
	if err != nil {
		return nil, err
	}
	p.By = asked.By
	if p.Series, err = b.series(r.Context(), p.Page, f, now); err != nil {
		return nil, err
	}
	return p, nil
}

// robotPage shows one robot.
type robotPage struct {
	page
	One      robot
	Troubles []Failure
	Odd      []assign.Copies // its copies of hosts that differ from its peers'
	Batches  []*inbox.Batch  // the latest; nil if another process has the buffers
	Series   []webpage.Chart // its work by day
	Rates    []webpage.Chart
}

// latest is the number of batches on a robot's page.
const latest = 10

func (b *board) robot(r *http.Request) (any, error) {
	p, name := robotPage{page: b.page(r)}, mux.Vars(r)["robot"]
	all, err := b.lines(r.Context(), p.Page)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(one robot) bool { return one.Name == name })
	if i < 0 {
		return nil, problem.New(http.StatusNotFound, "not_found", "there is no such robot")
	}
	p.One = all[i]
	p.Troubles = robotFailures(p.Page, p.One.Robot)
	if p.Odd, err = b.Manager.Copies.List(r.Context()); err != nil {
		return nil, err
	}
	p.Odd = slices.DeleteFunc(p.Odd, func(c assign.Copies) bool { return c.Robot != name || !c.Odd })
	p.Odd = p.Odd[:min(listed, len(p.Odd))]
	if b.Ingest != nil {
		if p.Batches, err = b.Ingest.Batches(r.Context(), inbox.Filter{Robot: name, Limit: latest}); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	filter := transfers.PeriodFilter{By: transfers.Day, Since: b.Site.Local(now.AddDate(0, 0, -30)), Who: name, Direction: transfers.Upload}
	periods, err := b.Transfers.Periods(r.Context(), filter)
	if err != nil {
		return nil, err
	}
	p.Rates = Charts(p.Page, filter, periods, now)
	filter.Direction = ""
	if p.Series, err = b.series(r.Context(), p.Page, filter, now); err != nil {
		return nil, err
	}
	return p, nil
}

// orderRobot gives a robot the order in a form: to pause, resume, restart or upgrade.
func (b *board) orderRobot(r *http.Request, in robotForm) (string, error) {
	name, act := mux.Vars(r)["robot"], in.Act
	audit.About(r.Context(), act+" robot", name)
	var err error
	switch act {
	case "pause", "resume":
		err = b.Manager.Roster.Pause(r.Context(), name, act == "pause")
	case "restart":
		_, err = b.Manager.Roster.Restart(r.Context(), name)
	case "upgrade":
		err = b.Manager.Roster.Upgrade(r.Context(), name)
	}
	switch {
	case errors.Is(err, roster.ErrUnknownRobot):
		return "", problem.New(http.StatusNotFound, "not_found", "there is no such robot, or it has not joined")
	case err != nil:
		return "", err
	}
	b.Log.InfoContext(r.Context(), "operator orders a robot", "by", by(r), "robot", name, "directive", act)
	return pathRobots + "/" + name, nil
}

// releasesPage lists the releases of the robot's program and their roll-out.
type releasesPage struct {
	page
	Releases []roster.Release
	Pager    pager
}

func (b *board) releases(r *http.Request) (any, error) {
	all, err := b.Manager.Releases.List(r.Context())
	if err != nil {
		return nil, err
	}
	p := releasesPage{page: b.page(r)}
	p.Releases, p.Pager = paged(r, all)
	return p, nil
}

// rollOut stops the roll-out of a release, or lets it go on.
func (b *board) rollOut(r *http.Request, in releaseForm) (string, error) {
	stopped := ""
	if in.Act == "stop" {
		stopped = cmp.Or(in.Why, "stopped by "+by(r))
	}
	audit.Note(r.Context(), audit.Row{Object: fmt.Sprintf("%s release %d, %d%%", in.Act, in.Counter, in.Percent), Reason: stopped})
	err := b.Manager.Releases.Rollout(r.Context(), in.Counter, in.Percent, stopped)
	var bad roster.Bad
	switch {
	case errors.As(err, &bad):
		return "", problem.New(http.StatusBadRequest, "bad_form", bad.Error())
	case errors.Is(err, roster.ErrUnknown):
		return "", problem.New(http.StatusNotFound, "not_found", err.Error())
	case err != nil:
		return "", err
	}
	b.Log.InfoContext(r.Context(), "operator changes a roll-out", "by", by(r), "release", in.Counter, "percent", in.Percent, "stopped", stopped)
	return pathReleases, nil
}

// series draws the robots' work: pages, links and load, each stacked by robot. f.Who names one
// robot; empty: all.
func (b *board) series(ctx context.Context, p webpage.Page, f transfers.PeriodFilter, until time.Time) ([]webpage.Chart, error) {
	points, err := b.Manager.Levelling.Series(ctx, f)
	if err != nil {
		return nil, err
	}
	begins, column := columnsOf(f, until)
	pages, links, load := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for _, one := range points {
		i, ok := column[one.Begin.Unix()]
		if !ok {
			continue
		}
		for of, amount := range map[*map[string][]float64]int64{&pages: one.Pages, &links: one.Links, &load: one.Load} {
			if (*of)[one.Robot] == nil {
				(*of)[one.Robot] = slices.Repeat([]float64{webpage.NoData}, len(begins))
			}
			(*of)[one.Robot][i] = float64(amount)
		}
	}
	axis := webpage.TimeAxis(p, begins)
	return []webpage.Chart{
		webpage.NewChart(p, p.T("Pages collected"), webpage.UnitCount, axis, byName(pages, len(begins))...),
		webpage.NewChart(p, p.T("Links found"), webpage.UnitCount, axis, byName(links, len(begins))...),
		webpage.NewChart(p, p.T("Load: URLs known and not collected"), webpage.UnitCount, axis, byName(load, len(begins))...),
	}, nil
}
