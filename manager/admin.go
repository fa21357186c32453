package manager

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
)

// Paths of the operators' API.
const (
	PathAdminRobots = "/v1/admin/robots"
	PathAdminHosts  = "/v1/admin/hosts"
)

const defaultPage, maxPage = 1000, 10000

// AdmitRequest is the body of POST /v1/admin/robots.
type AdmitRequest struct {
	Name string `json:"name"`
}

// AdmitResponse answers it. The token is shown this once.
type AdmitResponse struct {
	Name    string    `json:"name"`
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`

	URL     string      `json:"url,omitempty"` // under which robots reach the service, where it knows
	Install Installable `json:"install"`
}

// RobotsResponse answers GET /v1/admin/robots.
type RobotsResponse struct {
	Robots []Robot  `json:"robots"`
	Odd    []Copies `json:"odd_copies"` // of robots whose pages differ from their peers' by more than time explains
}

// HostsRequest is the body of POST /v1/admin/hosts.
type HostsRequest struct {
	Hosts     []string            `json:"hosts"`               // URLs
	Addresses map[string][]string `json:"addresses,omitempty"` // by host; spares a look-up
	Copies    int                 `json:"copies,omitempty"`    // give each to so many robots, to compare what they bring; 0: as it is
	Parts     int                 `json:"parts,omitempty"`     // share each host's URLs out among so many robots; 0: as it is
}

// HostsResponse answers GET /v1/admin/hosts. The page after it is ?after=<Next>.
type HostsResponse struct {
	Hosts []Host `json:"hosts"`
	Next  string `json:"next,omitempty"`
}

// DecideRequest is the body of POST /v1/admin/hosts/decide: what becomes of hosts that robots found and
// that are Pending. They are those named, and those that All, Domain or FoundBy choose; of the latter
// two both must hold where both are given.
type DecideRequest struct {
	State   State    `json:"state"` // Accepted or Refused
	Hosts   []string `json:"hosts,omitempty"`
	All     bool     `json:"all,omitempty"`
	Domain  string   `json:"domain,omitempty"`   // this host and all below it
	FoundBy string   `json:"found_by,omitempty"` // a robot
}

// DecideResponse answers it.
type DecideResponse struct {
	Hosts int `json:"hosts"` // how many were decided about
}

// RestartResponse answers POST /v1/admin/robots/{name}/restart.
type RestartResponse struct {
	Generation int64 `json:"generation"`
}

func (m *Manager) registerAdmin(r *mux.Router) {
	for _, route := range []struct {
		method, path string
		handler      func(http.ResponseWriter, *http.Request) error
	}{
		{http.MethodGet, PathAdminRobots, m.adminRobots},
		{http.MethodPost, PathAdminRobots, m.adminAdmit},
		{http.MethodDelete, PathAdminRobots + "/{name}", m.adminRevoke},
		{http.MethodPost, PathAdminRobots + "/{name}/restart", m.adminRestart},
		{http.MethodPost, PathAdminRobots + "/{name}/pause", m.adminPause(true)},
		{http.MethodPost, PathAdminRobots + "/{name}/resume", m.adminPause(false)},
		{http.MethodPost, PathAdminRobots + "/{name}/upgrade", m.adminUpgrade},
		{http.MethodGet, PathAdminBalance, m.adminBalance},
		{http.MethodGet, PathAdminBalance + "/rates", m.adminRates},
		{http.MethodPost, PathAdminBalance + "/plan", m.adminPlan(true)},
		{http.MethodPost, PathAdminBalance + "/rebalance", m.adminPlan(false)},
		{http.MethodGet, PathAdminCopies, m.adminCopies},
		{http.MethodGet, PathAdminHosts, m.adminHosts},
		{http.MethodGet, PathAdminHosts + "/{host}/costs", m.adminHostCosts},
		{http.MethodPost, PathAdminHosts, m.adminAddHosts},
		{http.MethodPost, PathAdminHosts + "/decide", m.adminDecide},
		{http.MethodPost, PathAdminHosts + "/visit", m.adminVisit},
		{http.MethodDelete, PathAdminHosts + "/{host}", m.adminRemoveHost},
	} {
		r.Handle(route.path, m.opt.Operator(m.plain(route.handler))).Methods(route.method)
	}
}

func (m *Manager) adminRobots(w http.ResponseWriter, r *http.Request) error {
	robots, err := m.Robots(r.Context())
	if err != nil {
		return err
	}
	copies, err := m.Copies(r.Context())
	if err != nil {
		return err
	}
	odd := slices.DeleteFunc(copies, func(c Copies) bool { return !c.Odd })
	return writeJSON(w, http.StatusOK, RobotsResponse{robots, odd})
}

func (m *Manager) adminAdmit(w http.ResponseWriter, r *http.Request) error {
	var req AdmitRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	token, expires, err := m.Admit(r.Context(), req.Name)
	if err != nil {
		return adminError(err)
	}
	install, err := m.installable(r)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return writeJSON(w, http.StatusCreated, AdmitResponse{Name: req.Name, Token: token, Expires: expires, URL: m.opt.Public, Install: install})
}

func (m *Manager) adminRevoke(w http.ResponseWriter, r *http.Request) error {
	end := m.Revoke
	if r.URL.Query().Has("forget") {
		end = m.Forget
	}
	if err := end(r.Context(), mux.Vars(r)["name"]); err != nil {
		return adminError(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (m *Manager) adminRestart(w http.ResponseWriter, r *http.Request) error {
	generation, err := m.Restart(r.Context(), mux.Vars(r)["name"])
	if err != nil {
		return adminError(err)
	}
	return writeJSON(w, http.StatusAccepted, RestartResponse{generation})
}

func (m *Manager) adminHosts(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit := defaultPage
	if s := q.Get("limit"); s != "" {
		var err error
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > maxPage {
			return problem.New(http.StatusBadRequest, "bad_query", fmt.Sprintf("limit %q is not between 1 and %d", s, maxPage))
		}
	}
	state := State(q.Get("state"))
	if state != "" && state != Accepted && state != Pending && state != Refused {
		return problem.New(http.StatusBadRequest, "bad_query", fmt.Sprintf("state %q is none of accepted, pending, refused", state))
	}
	hosts, err := m.Hosts(r.Context(), state, q.Get("after"), limit+1)
	if err != nil {
		return err
	}
	page := HostsResponse{Hosts: hosts}
	if len(hosts) > limit {
		page.Hosts = hosts[:limit]
		page.Next = hosts[limit-1].Name
		next := url.Values{"after": {page.Next}, "limit": {strconv.Itoa(limit)}}
		if state != "" {
			next.Set("state", string(state))
		}
		w.Header().Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, PathAdminHosts, next.Encode()))
	}
	return writeJSON(w, http.StatusOK, page)
}

func (m *Manager) adminAddHosts(w http.ResponseWriter, r *http.Request) error {
	var req HostsRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	report, err := m.AddHostsTo(r.Context(), req.Hosts, req.Addresses, Several{req.Copies, req.Parts})
	if err != nil {
		return adminError(err)
	}
	return writeJSON(w, http.StatusOK, report)
}

func (m *Manager) adminDecide(w http.ResponseWriter, r *http.Request) error {
	var req DecideRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	n, err := m.Decide(r.Context(), req)
	if err != nil {
		return adminError(err)
	}
	return writeJSON(w, http.StatusOK, DecideResponse{n})
}

func (m *Manager) adminVisit(w http.ResponseWriter, r *http.Request) error {
	var req VisitRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	robots, err := m.Visit(r.Context(), req.Hosts)
	if err != nil {
		return adminError(err)
	}
	return writeJSON(w, http.StatusAccepted, VisitResponse{robots})
}

func (m *Manager) adminRemoveHost(w http.ResponseWriter, r *http.Request) error {
	if err := m.RemoveHost(r.Context(), mux.Vars(r)["host"]); err != nil {
		return adminError(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func adminError(err error) error {
	var bad badHosts
	switch {
	case errors.As(err, &bad):
		return problem.New(http.StatusBadRequest, "bad_hosts", err.Error())
	case errors.Is(err, ErrRobotName):
		return problem.New(http.StatusBadRequest, "bad_name", err.Error())
	case errors.Is(err, ErrRobotExists):
		return problem.New(http.StatusConflict, "robot_exists", err.Error())
	case errors.Is(err, ErrActive):
		return problem.New(http.StatusConflict, "robot_active", err.Error())
	case errors.Is(err, ErrUnknownRobot), errors.Is(err, ErrNoRobot):
		return problem.New(http.StatusNotFound, "unknown_robot", err.Error())
	case errors.Is(err, ErrUnknownHost):
		return problem.New(http.StatusNotFound, "unknown_host", err.Error())
	default:
		return err
	}
}
