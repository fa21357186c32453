package manager

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
	"sheaf/manager/roster"
)

// AdmitRequest is the body of POST /v1/admin/robots.
type AdmitRequest struct {
	Name string `json:"name"`
}

// AdmitResponse answers POST /v1/admin/robots. The token is not shown again.
type AdmitResponse struct {
	Name    string    `json:"name"`
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`

	URL     string      `json:"url,omitempty"` // the URL at which robots reach the service; empty: not known
	Install Installable `json:"install"`
}

// RobotsResponse answers GET /v1/admin/robots.
type RobotsResponse struct {
	Robots []roster.Robot  `json:"robots"`
	Odd    []assign.Copies `json:"odd_copies"` // copies that differ from their peers' by more than time explains

	Stopped *roster.Release `json:"stopped_release,omitempty"` // the newest release, if its roll-out has stopped
}

// DeadRequest is the body of POST /v1/admin/robots/{name}/dead.
type DeadRequest struct {
	Reason string `json:"reason" doc:"why that is sure (required)"`
}

// PageResponse answers GET and POST /v1/admin/robots/{name}/page.
type PageResponse struct {
	URL string `json:"url"` // a path, if the service does not know its own URL
}

// HostsRequest is the body of POST /v1/admin/hosts.
type HostsRequest struct {
	Hosts     []string            `json:"hosts"`               // URLs
	Addresses map[string][]string `json:"addresses,omitempty"` // by host; a host with addresses is not looked up
	Copies    int                 `json:"copies,omitempty" doc:"have so many robots each collect the whole host, and compare their pages; 1: one robot, as usual; 0: as it is"`
	Parts     int                 `json:"parts,omitempty" doc:"share each host's URLs among so many robots; 1: let the plan decide, which shares hosts that are too large for one robot's night; 0: as it is"`
}

// HostsResponse answers GET /v1/admin/hosts. The next page is at ?after=<Next>.
type HostsResponse struct {
	Hosts []hosts.Host `json:"hosts"`
	Next  string       `json:"next,omitempty"`
}

// DecideResponse answers POST /v1/admin/hosts/decide.
type DecideResponse struct {
	Hosts int `json:"hosts"` // how many were accepted or refused
}

// PrefixesResponse answers GET /v1/admin/hosts/prefixes.
type PrefixesResponse struct {
	Prefixes []hosts.RefusedPrefix `json:"prefixes"`
}

// DomainsResponse answers GET /v1/admin/hosts/domains.
type DomainsResponse struct {
	Domains []hosts.RefusedDomain `json:"domains"`
}

// RestartResponse answers POST /v1/admin/robots/{name}/restart.
type RestartResponse struct {
	Generation int64 `json:"generation"`
}

// VisitRequest is the body of POST /v1/admin/hosts/visit.
type VisitRequest struct {
	Hosts []string `json:"hosts"`
}

// VisitResponse answers POST /v1/admin/hosts/visit. Robots are told with their next heartbeat;
// each begins within its hours.
type VisitResponse struct {
	Robots map[string][]string `json:"robots"` // by host: the robots that are told; empty: the next robot of the host will be told
}

// BalanceResponse answers GET /v1/admin/balance.
type BalanceResponse struct {
	levelling.Status
	Passing []levelling.Passing `json:"passing"` // what each robot would hand on if its heartbeat came now
	Copies  []assign.Copies     `json:"copies"`  // verdicts on the hosts that several robots collect
}

// RatesResponse answers GET /v1/admin/balance/rates.
type RatesResponse struct {
	Zone  string               `json:"zone"`
	Rates []levelling.HourRate `json:"rates"`
}

// CopiesResponse answers GET /v1/admin/copies.
type CopiesResponse struct {
	Copies []assign.Copies `json:"copies"`
}

// SeriesQuery is the query of GET /v1/admin/balance/series.
type SeriesQuery struct {
	By    string `query:"by" enum:"hour,day,month" default:"day" doc:"hour, day or month"`
	Since string `query:"since" doc:"since when: a day such as 2026-11-21, or a time (RFC 3339; default two days by hour, 30 days by day, a year by month)"`
	Robot string `query:"robot" doc:"only of this robot"`
}

// SeriesResponse answers GET /v1/admin/balance/series.
type SeriesResponse struct {
	Points []levelling.Point `json:"points"`
}

// HostsQuery is the query of GET /v1/admin/hosts.
type HostsQuery struct {
	State      hosts.State `query:"state" enum:"accepted,pending,refused" doc:"only hosts in this state: accepted, pending or refused"`
	Part       string      `query:"part" doc:"only hosts with this in their names"`
	Domain     string      `query:"domain" doc:"only this host and all below it"`
	Robot      string      `query:"robot" doc:"only hosts that this robot has"`
	FoundBy    string      `query:"found_by" doc:"only hosts that this robot found"`
	Unanswered bool        `query:"unanswered" doc:"only hosts whose last visit got no answer"`
	After      string      `query:"after" doc:"the host after which the list begins"`
	Limit      int         `query:"limit" min:"1" max:"10000" default:"1000" doc:"hosts at most"`
}

// ForecastQuery is the query of GET /v1/admin/balance/forecast.
type ForecastQuery struct {
	Hosts  int64         `query:"hosts" required:"true" doc:"how many hosts"`
	Pages  int64         `query:"pages" required:"true" doc:"how many pages all of them have together in a night"`
	Window time.Duration `query:"window" doc:"length of a night, such as 6h; 0: as the robots' hours have shown"`
}

// RobotEnd is the query of DELETE /v1/admin/robots/{name}.
type RobotEnd struct {
	Name   string `path:""`
	Forget bool   `query:"forget" doc:"take the robot off the list; it must be revoked or not have joined"`
	Since  string `query:"since" doc:"since when its key may be in others' hands, as RFC 3339 has it: nobody gets its name again, and of what came later nothing is published"`
}

// PrefixQuery names a part of a host.
type PrefixQuery struct {
	URL string `query:"url" required:"true" doc:"the prefix"`
}

const (
	oneRobot   = api.PathAdminRobots + "/{name}"
	toldByList = "Done; robots are told with their next list"
)

// Operations for operators.
var (
	ListRobots   = route.New[route.None, RobotsResponse]("GET", api.PathAdminRobots, operators.Viewer, audit.None, "All robots")
	AdmitRobot   = route.New[AdmitRequest, AdmitResponse]("POST", api.PathAdminRobots, operators.Worker, audit.Add, "Admit a robot").Answering(http.StatusCreated, "")
	EndRobot     = route.New[RobotEnd, route.None]("DELETE", oneRobot, operators.Admin, audit.Remove, "Revoke a robot; with forget, take a revoked or unjoined robot off the list")
	RestartRobot = route.New[string, RestartResponse]("POST", oneRobot+"/restart", operators.Worker, audit.Order, "Let it begin anew").Answering(http.StatusAccepted, "")
	PauseRobot   = route.New[string, route.None]("POST", oneRobot+"/pause", operators.Worker, audit.Order, "Let it pause")
	ResumeRobot  = route.New[string, route.None]("POST", oneRobot+"/resume", operators.Worker, audit.Order, "Let it go on")
	UpgradeRobot = route.New[string, route.None]("POST", oneRobot+"/upgrade", operators.Worker, audit.Order, "Let it look for a release")
	DeclareDead  = route.New[route.At[DeadRequest], route.None]("POST", oneRobot+"/dead", operators.Worker, audit.Decide, "Say that it visits nothing any more, so that its hosts go to others before its lease ends")
	ShowPage     = route.New[string, PageResponse]("GET", oneRobot+"/page", operators.Viewer, audit.None, "The link to the page of a robot, for the people at its site")
	RevokePage   = route.New[string, PageResponse]("POST", oneRobot+"/page", operators.Worker, audit.Change, "Make that link void, and a new one").Answering(http.StatusOK, "The new one")

	ShowBalance   = route.New[route.None, BalanceResponse]("GET", api.PathAdminBalance, operators.Viewer, audit.None, "Who has how much to do")
	ShowRates     = route.New[route.None, RatesResponse]("GET", api.PathAdminBalance+"/rates", operators.Viewer, audit.None, "Rates by hour and weekday")
	ShowSeries    = route.New[SeriesQuery, SeriesResponse]("GET", api.PathAdminBalance+"/series", operators.Viewer, audit.None, "Pages, links and load of the robots by hour, day or month")
	ShowForecast  = route.New[ForecastQuery, levelling.Forecast]("GET", api.PathAdminBalance+"/forecast", operators.Viewer, audit.None, "How many robots so many hosts and pages a night need, and what binds")
	Plan          = route.New[route.None, levelling.Plan]("POST", api.PathAdminBalance+"/plan", operators.Worker, audit.Order, "What a plan would move")
	Rebalance     = route.New[route.None, levelling.Plan]("POST", api.PathAdminBalance+"/rebalance", operators.Worker, audit.Order, "Make a plan and carry it out")
	CancelPlan    = route.New[route.None, route.None]("POST", api.PathAdminBalance+"/cancel", operators.Worker, audit.Order, "Give up the plan that is being made; the last one stays").Answering(http.StatusNoContent, "It ends within seconds")
	CompareCopies = route.New[route.None, CopiesResponse]("GET", api.PathAdminCopies, operators.Viewer, audit.None, "Hosts that several robots collect, compared")

	ListHosts    = route.New[HostsQuery, HostsResponse]("GET", api.PathAdminHosts, operators.Viewer, audit.None, "The hosts that are collected")
	AddHosts     = route.New[HostsRequest, hosts.Report]("POST", api.PathAdminHosts, operators.Worker, audit.Add, "Collect hosts")
	DecideHosts  = route.New[hosts.DecideRequest, DecideResponse]("POST", api.PathAdminHosts+"/decide", operators.Worker, audit.Decide, "Accept or refuse hosts that robots found and that wait for a decision")
	SetInterval  = route.New[hosts.IntervalRequest, route.None]("POST", api.PathAdminHosts+"/interval", operators.Worker, audit.Change, "Set the time between two visits to the addresses of hosts, and the pages of a visit, as their owners allow or ask for").Answering(http.StatusNoContent, toldByList)
	AssignHosts  = route.New[hosts.AssignRequest, hosts.AssignResponse]("POST", api.PathAdminHosts+"/assign", operators.Worker, audit.Change, "Say which robot collects hosts, with the others at their addresses, or leave that to the plan again").Answering(http.StatusOK, "Done; the robots are told with their next lists")
	VisitHosts   = route.New[VisitRequest, VisitResponse]("POST", api.PathAdminHosts+"/visit", operators.Worker, audit.Order, "Have hosts visited now, by the robots that have them").Answering(http.StatusAccepted, "The robots are told with their next heartbeats")
	RemoveHost   = route.New[string, route.None]("DELETE", api.PathAdminHosts+"/{host}", operators.Admin, audit.Remove, "Collect a host no more")
	ShowHost     = route.New[string, hosts.Host]("GET", api.PathAdminHosts+"/{host}", operators.Viewer, audit.None, "One host: who collects it, and what its last visits have shown")
	ShowCosts    = route.New[string, levelling.HostCosts]("GET", api.PathAdminHosts+"/{host}/costs", operators.Viewer, audit.None, "What a host cost each robot")
	ListDomains  = route.New[route.None, DomainsResponse]("GET", api.PathAdminDomains, operators.Viewer, audit.None, "Domains whose hosts robots leave out")
	RefuseDomain = route.New[hosts.RefusedDomain, route.None]("POST", api.PathAdminDomains, operators.Worker, audit.Decide, "Have robots leave out all hosts of a domain")
	AllowDomain  = route.New[string, route.None]("DELETE", api.PathAdminDomains+"/{domain}", operators.Worker, audit.Decide, "Have robots collect hosts of a domain again")
	ListPrefixes = route.New[route.None, PrefixesResponse]("GET", api.PathAdminPrefixes, operators.Viewer, audit.None, "Parts of hosts that robots leave out")
	RefusePrefix = route.New[hosts.RefusedPrefix, route.None]("POST", api.PathAdminPrefixes, operators.Worker, audit.Decide, "Have robots leave out the pages of a host whose URL begins with a prefix").Answering(http.StatusNoContent, toldByList)
	AllowPrefix  = route.New[PrefixQuery, route.None]("DELETE", api.PathAdminPrefixes, operators.Worker, audit.Decide, "Have robots collect these pages again").Answering(http.StatusNoContent, toldByList)
)

// operatorAPI has the handlers of the operations for operators.
type operatorAPI struct{ m *Manager }

func (a *operatorAPI) register(mount route.Mount) {
	ListRobots.On(mount, a.robots)
	AdmitRobot.On(mount, a.admit)
	EndRobot.On(mount, route.Done(a.endRobot))
	RestartRobot.On(mount, a.restart)
	PauseRobot.On(mount, a.pause(true))
	ResumeRobot.On(mount, a.pause(false))
	UpgradeRobot.On(mount, route.Done(a.m.Roster.Upgrade))
	DeclareDead.On(mount, a.dead)
	ShowPage.On(mount, a.page)
	RevokePage.On(mount, a.revokePage)
	ShowBalance.On(mount, a.balance)
	ShowRates.On(mount, a.rates)
	ShowSeries.On(mount, a.series)
	ShowForecast.On(mount, a.forecast)
	Plan.On(mount, a.plan(true))
	Rebalance.On(mount, a.plan(false))
	CancelPlan.On(mount, func(ctx context.Context, _ route.None) (route.None, error) {
		return route.None{}, a.m.Levelling.Cancel(ctx)
	})
	CompareCopies.On(mount, a.compare)
	ListHosts.On(mount, a.listHosts)
	AddHosts.On(mount, a.addHosts)
	DecideHosts.On(mount, a.decide)
	SetInterval.On(mount, route.Done(a.setInterval))
	AssignHosts.On(mount, a.assign)
	VisitHosts.On(mount, a.visit)
	AllowPrefix.On(mount, a.allowPrefix) // before the routes with {host}
	RemoveHost.On(mount, route.Done(a.m.Hosts.RemoveHost))
	ShowCosts.On(mount, a.m.Costs.OfHost)
	ListDomains.On(mount, a.domains)
	RefuseDomain.On(mount, route.Done(a.m.Hosts.RefuseDomain))
	AllowDomain.On(mount, route.Done(a.m.Hosts.AllowDomain))
	ListPrefixes.On(mount, a.prefixes)
	RefusePrefix.On(mount, route.Done(a.m.Hosts.RefusePrefix))
	ShowHost.On(mount, a.m.Hosts.Host) // after the other routes below hosts
}

func (a *operatorAPI) robots(ctx context.Context, _ route.None) (answer RobotsResponse, err error) {
	if answer.Robots, err = a.m.Roster.Robots(ctx); err != nil {
		return answer, err
	}
	if answer.Stopped, err = a.m.Releases.Stopped(ctx); err != nil {
		return answer, err
	}
	compared, err := a.m.Copies.List(ctx)
	answer.Odd = slices.DeleteFunc(compared, func(c assign.Copies) bool { return !c.Odd })
	return answer, err
}

func (a *operatorAPI) admit(ctx context.Context, in AdmitRequest) (AdmitResponse, error) {
	audit.About(ctx, "robot", in.Name)
	token, expires, err := a.m.Roster.Admit(ctx, in.Name)
	if err != nil {
		return AdmitResponse{}, err
	}
	install, err := releaseAPI{a.m.Releases}.installable(ctx)
	route.Header(ctx).Set("Cache-Control", "no-store")
	return AdmitResponse{Name: in.Name, Token: token, Expires: expires, URL: a.m.opt.Public, Install: install}, err
}

func (a *operatorAPI) endRobot(ctx context.Context, in RobotEnd) error {
	if in.Forget {
		return a.m.Roster.Forget(ctx, in.Name)
	}
	var since time.Time
	if in.Since != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, in.Since); err != nil || since.Unix() <= 0 || since.After(time.Now()) {
			return problem.New(http.StatusBadRequest, "bad_since", fmt.Sprintf("since is %q; write a time that has passed, such as 2026-11-21T03:00:00Z", in.Since))
		}
	}
	return a.m.Roster.Revoke(ctx, in.Name, since)
}

func (a *operatorAPI) restart(ctx context.Context, robot string) (RestartResponse, error) {
	generation, err := a.m.Roster.Restart(ctx, robot)
	return RestartResponse{generation}, err
}

func (a *operatorAPI) pause(paused bool) func(context.Context, string) (route.None, error) {
	return route.Done(func(ctx context.Context, robot string) error { return a.m.Roster.Pause(ctx, robot, paused) })
}

func (a *operatorAPI) dead(ctx context.Context, in route.At[DeadRequest]) (route.None, error) {
	return route.None{}, a.m.Roster.Dead(ctx, in.Name, in.Body.Reason)
}

func (a *operatorAPI) page(ctx context.Context, robot string) (PageResponse, error) {
	path, err := a.m.Roster.Page(ctx, robot)
	route.Header(ctx).Set("Cache-Control", "no-store")
	return PageResponse{a.m.opt.Public + path}, err
}

// revokePage voids the link to a robot's page and returns a new one.
func (a *operatorAPI) revokePage(ctx context.Context, robot string) (PageResponse, error) {
	if err := a.m.Roster.RevokePage(ctx, robot); err != nil {
		return PageResponse{}, err
	}
	return a.page(ctx, robot)
}

func (a *operatorAPI) series(ctx context.Context, q SeriesQuery) (answer SeriesResponse, err error) {
	f, err := transfers.PeriodQuery{By: q.By, Since: q.Since, Who: q.Robot}.Filter(a.m.opt.Balance.Zone, time.Now())
	if err != nil {
		return answer, problem.BadQuery("%v", err)
	}
	answer.Points, err = a.m.Levelling.Series(ctx, f)
	return answer, err
}

func (a *operatorAPI) listHosts(ctx context.Context, q HostsQuery) (HostsResponse, error) {
	list, err := a.m.Hosts.Hosts(ctx, hosts.Filter{State: q.State, Part: q.Part, Domain: q.Domain, Robot: q.Robot, FoundBy: q.FoundBy, Unanswered: q.Unanswered}, q.After, q.Limit+1)
	page := HostsResponse{Hosts: list}
	if len(list) > q.Limit {
		page.Hosts = list[:q.Limit]
		page.Next = list[q.Limit-1].Name
		route.Link(ctx, "next", map[string]string{"after": page.Next})
	}
	return page, err
}

func (a *operatorAPI) addHosts(ctx context.Context, in HostsRequest) (hosts.Report, error) {
	audit.About(ctx, fmt.Sprintf("%d hosts:", len(in.Hosts)), strings.Join(in.Hosts, " "))
	return a.m.Hosts.AddHosts(ctx, in.Hosts, in.Addresses, assign.Replication{Copies: in.Copies, Parts: in.Parts})
}

func (a *operatorAPI) decide(ctx context.Context, in hosts.DecideRequest) (DecideResponse, error) {
	audit.Note(ctx, audit.Row{Object: in.String()})
	n, err := a.m.Hosts.Decide(ctx, in)
	return DecideResponse{n}, err
}

func (a *operatorAPI) setInterval(ctx context.Context, in hosts.IntervalRequest) error {
	audit.Note(ctx, audit.Row{Object: in.String()})
	return a.m.Hosts.SetInterval(ctx, in)
}

func (a *operatorAPI) assign(ctx context.Context, in hosts.AssignRequest) (hosts.AssignResponse, error) {
	audit.Note(ctx, audit.Row{Object: in.String()})
	return a.m.Hosts.Assign(ctx, in)
}

func (a *operatorAPI) visit(ctx context.Context, in VisitRequest) (VisitResponse, error) {
	audit.About(ctx, fmt.Sprintf("visit %d hosts:", len(in.Hosts)), strings.Join(in.Hosts, " "))
	robots, err := a.m.Hosts.OrderVisits(ctx, in.Hosts)
	return VisitResponse{robots}, err
}

func (a *operatorAPI) domains(ctx context.Context, _ route.None) (DomainsResponse, error) {
	list, err := a.m.Hosts.RefusedDomains(ctx)
	return DomainsResponse{list}, err
}

func (a *operatorAPI) prefixes(ctx context.Context, _ route.None) (PrefixesResponse, error) {
	list, err := a.m.Hosts.RefusedPrefixes(ctx)
	return PrefixesResponse{list}, err
}

func (a *operatorAPI) allowPrefix(ctx context.Context, q PrefixQuery) (route.None, error) {
	return route.None{}, a.m.Hosts.AllowPrefix(ctx, q.URL)
}

func (a *operatorAPI) balance(ctx context.Context, _ route.None) (answer BalanceResponse, err error) {
	if answer.Status, err = a.m.Levelling.Status(ctx); err != nil {
		return answer, err
	}
	if answer.Passing, err = a.m.Levelling.Passing(ctx, time.Now()); err != nil {
		return answer, err
	}
	answer.Copies, err = a.m.Copies.List(ctx)
	return answer, err
}

func (a *operatorAPI) plan(dry bool) func(context.Context, route.None) (levelling.Plan, error) {
	return func(ctx context.Context, _ route.None) (levelling.Plan, error) {
		return a.m.Levelling.Rebalance(ctx, dry)
	}
}

func (a *operatorAPI) forecast(ctx context.Context, q ForecastQuery) (levelling.Forecast, error) {
	return a.m.Levelling.Forecast(ctx, q.Hosts, q.Pages, q.Window)
}

func (a *operatorAPI) rates(ctx context.Context, _ route.None) (RatesResponse, error) {
	rates, err := a.m.Costs.Rates(ctx)
	return RatesResponse{a.m.Costs.Zone().String(), rates}, err
}

// compare judges the hosts that have new visits and returns all verdicts.
func (a *operatorAPI) compare(ctx context.Context, _ route.None) (CopiesResponse, error) {
	if err := a.m.Copies.Update(ctx); err != nil {
		return CopiesResponse{}, err
	}
	list, err := a.m.Copies.List(ctx)
	return CopiesResponse{list}, err
}
