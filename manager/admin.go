package manager

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/manager/assign"
	"sheaf/manager/copies"
	"sheaf/manager/costs"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
	"sheaf/manager/roster"
)

const defaultPage, maxPage = 1000, 10_000 // hosts

// AdmitRequest is the body of POST /v1/admin/robots.
type AdmitRequest struct {
	Name string `json:"name"`
}

// AdmitResponse answers POST /v1/admin/robots. The token is not shown again.
type AdmitResponse struct {
	Name    string    `json:"name"`
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`

	URL     string      `json:"url,omitempty"` // under which robots reach the service; empty: not known
	Install Installable `json:"install"`
}

// RobotsResponse answers GET /v1/admin/robots.
type RobotsResponse struct {
	Robots []roster.Robot  `json:"robots"`
	Odd    []copies.Copies `json:"odd_copies"` // of robots whose pages differ from their peers' by more than time explains
}

// DeadRequest is the body of POST /v1/admin/robots/{name}/dead.
type DeadRequest struct {
	Reason string `json:"reason"` // why it is sure that the robot visits nothing any more
}

// PageResponse answers GET and POST /v1/admin/robots/{name}/page.
type PageResponse struct {
	URL string `json:"url"` // a path, if the service does not know its own URL
}

// HostsRequest is the body of POST /v1/admin/hosts.
type HostsRequest struct {
	Hosts     []string            `json:"hosts"`               // URLs
	Addresses map[string][]string `json:"addresses,omitempty"` // by host; a host with addresses is not looked up
	Copies    int                 `json:"copies,omitempty"`    // how many robots collect all of each host, to be compared; 0: as it is
	Parts     int                 `json:"parts,omitempty"`     // how many robots share each host's URLs; 0: as it is
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
	Robots map[string][]string `json:"robots"` // by host: those that are told; none: the one that gets the host is told
}

// BalanceResponse answers GET /v1/admin/balance.
type BalanceResponse struct {
	levelling.Status
	Copies []copies.Copies `json:"copies"` // of hosts that several robots have, compared
}

// RatesResponse answers GET /v1/admin/balance/rates.
type RatesResponse struct {
	Zone  string           `json:"zone"`
	Rates []costs.HourRate `json:"rates"`
}

// CopiesResponse answers GET /v1/admin/copies.
type CopiesResponse struct {
	Copies []copies.Copies `json:"copies"`
}

// operatorAPI serves operators.
type operatorAPI struct {
	roster    *roster.Roster
	hosts     *hosts.Registry
	costs     *costs.Book
	levelling *levelling.Leveller
	copies    *copies.Verdicts
	releases  releaseAPI
	public    string // URL under which robots reach the service; empty: not known
}

// register mounts the API. gate makes an http.Handler of a handler for
// operators.
func (a *operatorAPI) register(r *mux.Router, gate func(operators.Role, audit.Act, handler) http.Handler) {
	for _, route := range []struct {
		method, path string
		least        operators.Role
		act          audit.Act
		handler      handler
	}{
		{http.MethodGet, api.PathAdminRobots, operators.Viewer, audit.None, a.robots},
		{http.MethodPost, api.PathAdminRobots, operators.Worker, audit.Add, a.admit},
		{http.MethodDelete, api.PathAdminRobots + "/{name}", operators.Admin, audit.Remove, a.revoke},
		{http.MethodPost, api.PathAdminRobots + "/{name}/restart", operators.Worker, audit.Order, a.restart},
		{http.MethodPost, api.PathAdminRobots + "/{name}/pause", operators.Worker, audit.Order, a.pause(true)},
		{http.MethodPost, api.PathAdminRobots + "/{name}/resume", operators.Worker, audit.Order, a.pause(false)},
		{http.MethodPost, api.PathAdminRobots + "/{name}/upgrade", operators.Worker, audit.Order, a.upgrade},
		{http.MethodPost, api.PathAdminRobots + "/{name}/dead", operators.Worker, audit.Decide, a.dead},
		{http.MethodGet, api.PathAdminRobots + "/{name}/page", operators.Viewer, audit.None, a.page},
		{http.MethodPost, api.PathAdminRobots + "/{name}/page", operators.Worker, audit.Change, a.revokePage},
		{http.MethodGet, api.PathAdminBalance, operators.Viewer, audit.None, a.balance},
		{http.MethodGet, api.PathAdminBalance + "/rates", operators.Viewer, audit.None, a.rates},
		{http.MethodGet, api.PathAdminBalance + "/forecast", operators.Viewer, audit.None, a.forecast},
		{http.MethodPost, api.PathAdminBalance + "/plan", operators.Worker, audit.Order, a.plan(true)},
		{http.MethodPost, api.PathAdminBalance + "/rebalance", operators.Worker, audit.Order, a.plan(false)},
		{http.MethodPost, api.PathAdminBalance + "/cancel", operators.Worker, audit.Order, a.cancelPlan},
		{http.MethodGet, api.PathAdminCopies, operators.Viewer, audit.None, a.compare},
		{http.MethodGet, api.PathAdminHosts, operators.Viewer, audit.None, a.listHosts},
		{http.MethodGet, api.PathAdminHosts + "/{host}/costs", operators.Viewer, audit.None, a.hostCosts},
		{http.MethodPost, api.PathAdminHosts, operators.Worker, audit.Add, a.addHosts},
		{http.MethodPost, api.PathAdminHosts + "/decide", operators.Worker, audit.Decide, a.decide},
		{http.MethodPost, api.PathAdminHosts + "/interval", operators.Worker, audit.Change, a.setInterval},
		{http.MethodPost, api.PathAdminHosts + "/visit", operators.Worker, audit.Order, a.visit},
		{http.MethodDelete, api.PathAdminPrefixes, operators.Worker, audit.Decide, a.allowPrefix}, // before {host}
		{http.MethodDelete, api.PathAdminHosts + "/{host}", operators.Admin, audit.Remove, a.removeHost},
		{http.MethodGet, api.PathAdminDomains, operators.Viewer, audit.None, a.domains},
		{http.MethodPost, api.PathAdminDomains, operators.Worker, audit.Decide, a.refuseDomain},
		{http.MethodDelete, api.PathAdminDomains + "/{domain}", operators.Worker, audit.Decide, a.allowDomain},
		{http.MethodGet, api.PathAdminPrefixes, operators.Viewer, audit.None, a.prefixes},
		{http.MethodPost, api.PathAdminPrefixes, operators.Worker, audit.Decide, a.refusePrefix},
	} {
		r.Handle(route.path, gate(route.least, route.act, route.handler)).Methods(route.method)
	}
}

func (a *operatorAPI) robots(w http.ResponseWriter, r *http.Request) error {
	list, err := a.roster.Robots(r.Context())
	if err != nil {
		return err
	}
	compared, err := a.copies.List(r.Context())
	odd := slices.DeleteFunc(compared, func(c copies.Copies) bool { return !c.Odd })
	return answer(w, http.StatusOK, RobotsResponse{list, odd}, err)
}

func (a *operatorAPI) admit(w http.ResponseWriter, r *http.Request) error {
	var req AdmitRequest
	if err := problem.ReadJSON(w, r, &req); err != nil {
		return err
	}
	audit.About(r.Context(), "robot", req.Name)
	token, expires, err := a.roster.Admit(r.Context(), req.Name)
	if err != nil {
		return adminError(err)
	}
	install, err := a.releases.installable(r.Context())
	w.Header().Set("Cache-Control", "no-store")
	return answer(w, http.StatusCreated, AdmitResponse{Name: req.Name, Token: token, Expires: expires, URL: a.public, Install: install}, err)
}

func (a *operatorAPI) revoke(w http.ResponseWriter, r *http.Request) error {
	end := a.roster.Revoke
	if r.URL.Query().Has("forget") {
		end = a.roster.Forget
	}
	return noContent(w, adminError(end(r.Context(), mux.Vars(r)["name"])))
}

func (a *operatorAPI) restart(w http.ResponseWriter, r *http.Request) error {
	generation, err := a.roster.Restart(r.Context(), mux.Vars(r)["name"])
	return answer(w, http.StatusAccepted, RestartResponse{generation}, err)
}

func (a *operatorAPI) pause(paused bool) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return noContent(w, adminError(a.roster.Pause(r.Context(), mux.Vars(r)["name"], paused)))
	}
}

func (a *operatorAPI) upgrade(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, adminError(a.roster.Upgrade(r.Context(), mux.Vars(r)["name"])))
}

func (a *operatorAPI) dead(w http.ResponseWriter, r *http.Request) error {
	var req DeadRequest
	if err := problem.ReadJSON(w, r, &req); err != nil {
		return err
	}
	return noContent(w, adminError(a.roster.Dead(r.Context(), mux.Vars(r)["name"], req.Reason)))
}

func (a *operatorAPI) page(w http.ResponseWriter, r *http.Request) error {
	path, err := a.roster.Page(r.Context(), mux.Vars(r)["name"])
	w.Header().Set("Cache-Control", "no-store")
	return answer(w, http.StatusOK, PageResponse{a.public + path}, err)
}

// revokePage makes the link to a robot's page void, and answers with the new one.
func (a *operatorAPI) revokePage(w http.ResponseWriter, r *http.Request) error {
	if err := a.roster.RevokePage(r.Context(), mux.Vars(r)["name"]); err != nil {
		return adminError(err)
	}
	return a.page(w, r)
}

func (a *operatorAPI) listHosts(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit := defaultPage
	if s := q.Get("limit"); s != "" {
		var err error
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > maxPage {
			return problem.New(http.StatusBadRequest, "bad_query", fmt.Sprintf("limit %q is not a number between 1 and %d", s, maxPage))
		}
	}
	state := hosts.State(q.Get("state"))
	if state != "" && state != hosts.Accepted && state != hosts.Pending && state != hosts.Refused {
		return problem.New(http.StatusBadRequest, "bad_query", fmt.Sprintf("state %q is none of accepted, pending, refused", state))
	}
	list, err := a.hosts.Hosts(r.Context(), hosts.Filter{State: state}, q.Get("after"), limit+1)
	page := HostsResponse{Hosts: list}
	if len(list) > limit {
		page.Hosts = list[:limit]
		page.Next = list[limit-1].Name
		next := url.Values{"after": {page.Next}, "limit": {strconv.Itoa(limit)}}
		if state != "" {
			next.Set("state", string(state))
		}
		w.Header().Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, api.PathAdminHosts, next.Encode()))
	}
	return answer(w, http.StatusOK, page, err)
}

func (a *operatorAPI) addHosts(w http.ResponseWriter, r *http.Request) error {
	var req HostsRequest
	if err := problem.ReadJSON(w, r, &req); err != nil {
		return err
	}
	audit.About(r.Context(), fmt.Sprintf("%d hosts:", len(req.Hosts)), strings.Join(req.Hosts, " "))
	want := assign.Replication{Copies: req.Copies, Parts: req.Parts}
	report, err := a.hosts.AddHosts(r.Context(), req.Hosts, req.Addresses, want)
	return answer(w, http.StatusOK, report, err)
}

func (a *operatorAPI) decide(w http.ResponseWriter, r *http.Request) error {
	var req hosts.DecideRequest
	if err := problem.ReadJSON(w, r, &req); err != nil {
		return err
	}
	audit.Note(r.Context(), audit.Row{Object: req.String()})
	n, err := a.hosts.Decide(r.Context(), req)
	return answer(w, http.StatusOK, DecideResponse{n}, err)
}

func (a *operatorAPI) setInterval(w http.ResponseWriter, r *http.Request) error {
	var req hosts.IntervalRequest
	if err := problem.ReadJSON(w, r, &req); err != nil {
		return err
	}
	audit.Note(r.Context(), audit.Row{Object: req.String()})
	return noContent(w, adminError(a.hosts.SetInterval(r.Context(), req)))
}

func (a *operatorAPI) visit(w http.ResponseWriter, r *http.Request) error {
	var req VisitRequest
	if err := problem.ReadJSON(w, r, &req); err != nil {
		return err
	}
	audit.About(r.Context(), fmt.Sprintf("visit %d hosts:", len(req.Hosts)), strings.Join(req.Hosts, " "))
	robots, err := a.hosts.OrderVisits(r.Context(), req.Hosts)
	return answer(w, http.StatusAccepted, VisitResponse{robots}, err)
}

func (a *operatorAPI) removeHost(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, adminError(a.hosts.RemoveHost(r.Context(), mux.Vars(r)["host"])))
}

func (a *operatorAPI) domains(w http.ResponseWriter, r *http.Request) error {
	list, err := a.hosts.RefusedDomains(r.Context())
	return answer(w, http.StatusOK, DomainsResponse{list}, err)
}

func (a *operatorAPI) prefixes(w http.ResponseWriter, r *http.Request) error {
	list, err := a.hosts.RefusedPrefixes(r.Context())
	return answer(w, http.StatusOK, PrefixesResponse{list}, err)
}

func (a *operatorAPI) refusePrefix(w http.ResponseWriter, r *http.Request) error {
	var req hosts.RefusedPrefix
	if err := problem.ReadJSON(w, r, &req); err != nil {
		return err
	}
	return noContent(w, adminError(a.hosts.RefusePrefix(r.Context(), req)))
}

func (a *operatorAPI) allowPrefix(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, adminError(a.hosts.AllowPrefix(r.Context(), r.URL.Query().Get("url"))))
}

func (a *operatorAPI) refuseDomain(w http.ResponseWriter, r *http.Request) error {
	var req hosts.RefusedDomain
	if err := problem.ReadJSON(w, r, &req); err != nil {
		return err
	}
	return noContent(w, adminError(a.hosts.RefuseDomain(r.Context(), req)))
}

func (a *operatorAPI) allowDomain(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, adminError(a.hosts.AllowDomain(r.Context(), mux.Vars(r)["domain"])))
}

func (a *operatorAPI) hostCosts(w http.ResponseWriter, r *http.Request) error {
	found, err := a.costs.OfHost(r.Context(), mux.Vars(r)["host"])
	return answer(w, http.StatusOK, found, err)
}

func (a *operatorAPI) balance(w http.ResponseWriter, r *http.Request) error {
	status, err := a.levelling.Status(r.Context())
	if err != nil {
		return err
	}
	list, err := a.copies.List(r.Context())
	return answer(w, http.StatusOK, BalanceResponse{status, list}, err)
}

func (a *operatorAPI) plan(dry bool) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		plan, err := a.levelling.Rebalance(r.Context(), dry)
		return answer(w, http.StatusOK, plan, err)
	}
}

func (a *operatorAPI) cancelPlan(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, adminError(a.levelling.Cancel(r.Context())))
}

func (a *operatorAPI) forecast(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	bad := func(name, want string) error {
		return problem.New(http.StatusBadRequest, "bad_query", fmt.Sprintf("%s %q is not %s", name, q.Get(name), want))
	}
	hosts, err := strconv.ParseInt(q.Get("hosts"), 10, 64)
	if err != nil {
		return bad("hosts", "a number")
	}
	pages, err := strconv.ParseInt(q.Get("pages"), 10, 64)
	if err != nil {
		return bad("pages", "a number")
	}
	window, err := time.ParseDuration(cmp.Or(q.Get("window"), "0"))
	if err != nil {
		return bad("window", "a duration, such as 6h")
	}
	f, err := a.levelling.Forecast(r.Context(), hosts, pages, window)
	return answer(w, http.StatusOK, f, err)
}

func (a *operatorAPI) rates(w http.ResponseWriter, r *http.Request) error {
	rates, err := a.costs.Rates(r.Context())
	return answer(w, http.StatusOK, RatesResponse{a.costs.Zone().String(), rates}, err)
}

// compare judges what has come since the last time, and shows all verdicts.
func (a *operatorAPI) compare(w http.ResponseWriter, r *http.Request) error {
	if err := a.copies.Update(r.Context()); err != nil {
		return err
	}
	list, err := a.copies.List(r.Context())
	return answer(w, http.StatusOK, CopiesResponse{list}, err)
}
