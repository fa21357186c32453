package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/botauth"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
	"sheaf/manager/roster"
)

// servlet is the query of requests to the paper's paths.
type servlet struct {
	Host string `query:"host" doc:"the robot's own name"`
}

// keyQuery is the query of GET wire.PathServiceKeys.
type keyQuery struct {
	Key string `query:"key" required:"true" doc:"the newest of the service's keys that the robot knows, in hexadecimal"`
}

// robotRead and robotWrite define operations of the robots' protocol.
func robotRead[In, Out any](path, summary string) route.Op[In, Out] {
	return route.New[In, Out](http.MethodGet, path, route.Robot, audit.None, summary)
}

func robotWrite[In, Out any](path, summary string) route.Op[In, Out] {
	return route.New[In, Out](http.MethodPost, path, route.Robot, audit.None, summary)
}

// Operations of the robots' protocol. The first six are also at the paper's paths.
var (
	join = route.New[wire.JoinRequest, wire.JoinResponse](http.MethodPost, wire.PathJoin, route.Anybody, audit.Join, "Exchange a one-time token for credentials").Under("robots")

	fetchList   = robotRead[route.None, route.None](wire.PathList, "P1: the hosts to collect").Answering(http.StatusOK, "").Sends("application/gzip").Also(http.StatusNotModified, "", "")
	record      = robotWrite[route.None, hosts.Report](wire.PathRecord, "P2: hosts that were discovered").Takes("application/gzip", "text/plain")
	submitLog   = robotWrite[route.None, levelling.LogReport](wire.PathSubmitLog, "P3: the log of a cycle").Takes("application/gzip", "text/plain")
	isRestart   = robotRead[route.None, route.None](wire.PathIsRestart, "P4: whether to begin anew with a new list").Answering(http.StatusOK, "RESTART or CONTINUE").Sends("text/plain")
	subscribe   = robotWrite[route.None, route.None](wire.PathSubscribe, "P5: join in").Answering(http.StatusOK, "").Sends("text/plain")
	unsubscribe = robotWrite[route.None, route.None](wire.PathUnsubscribe, "P5: leave").Answering(http.StatusOK, "").Sends("text/plain")

	heartbeat     = robotWrite[wire.Heartbeat, wire.Orders](wire.PathHeartbeat, "How far the robot is; what it is to do").Also(http.StatusNoContent, "", "Go on")
	handOver      = robotWrite[route.None, route.None](wire.PathHandovers, "Hand over what the robot knows of a host that goes to another robot").Takes("application/octet-stream").Saying("The body is as internal/wire/HANDOVER.md says.").Answering(http.StatusNoContent, "Taken")
	takeOver      = robotRead[route.None, route.None](wire.PathHandover, "Take over what another robot knows of a host").Answering(http.StatusOK, "The file, signed by the service").Sends("application/octet-stream")
	watched       = robotRead[route.None, wire.WatchList](wire.PathWatches, "What consumers watch of the robot's hosts").Also(http.StatusNotModified, "", "")
	keyChain      = robotRead[keyQuery, wire.KeyChain](wire.PathServiceKeys, "Signed statements that lead from a key of the service to its newest one")
	tellAddresses = robotWrite[wire.AddressReport, route.None](wire.PathAddresses, "Addresses of hosts")
	report        = robotWrite[wire.ReportRequest, wire.ReportAnswer](wire.PathReport, "The robot's program; a release to take").Also(http.StatusNoContent, "", "None")
)

// Register mounts the robots' protocol, under the paper's paths and under /v1/robots, and, if
// there is a gate, the operators' API.
func (m *Manager) Register(r *mux.Router) {
	releases := releaseAPI{m.Releases}
	everybody := func(op *route.Route, h route.Handler) {
		r.Handle(op.Path, m.opt.Audit.Handler(audit.Act(op.Act), m.plain(h))).Methods(methodsOf(op)...)
	}
	m.registerRobots(everybody, func(op *route.Route, h route.Handler) {
		r.Handle(op.Path, m.authenticated(func(w http.ResponseWriter, r *http.Request, robot string) error {
			return h(w, r.WithContext(context.WithValue(r.Context(), robotKey{}, robot)))
		})).Methods(methodsOf(op)...)
	})
	releases.register(everybody)
	if m.opt.Gate != nil {
		mount := m.opt.Gate.Mount(r, m.opt.Log, adminError)
		releases.registerAdmin(mount)
		(&operatorAPI{m}).register(mount)
	}
}

// Routes returns all operations, for the API description.
func Routes() []*route.Route {
	return slices.Concat(
		route.List(func(mount route.Mount) { new(Manager).registerRobots(mount, mount) }),
		route.List(releaseAPI{}.register), route.List(releaseAPI{}.registerAdmin), route.List((&operatorAPI{new(Manager)}).register))
}

func methodsOf(op *route.Route) []string {
	if op.Method == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{op.Method}
}

type robotKey struct{}

// robotOf returns the name of the robot whose request is answered.
func robotOf(ctx context.Context) string { return ctx.Value(robotKey{}).(string) }

// raw makes a route.Handler of a robotHandler. The request's context names the robot.
func raw(h robotHandler) route.Handler {
	return func(w http.ResponseWriter, r *http.Request) error { return h(w, r, robotOf(r.Context())) }
}

func (m *Manager) registerRobots(everybody, robots route.Mount) {
	join.Raw(everybody, m.serveJoin)
	for _, step := range []struct {
		op      *route.Route
		old     string
		handler robotHandler
		also    string // a second method, at the paper's path only
	}{
		{fetchList.Route, "/servlets/list", m.notBelowFloor(m.serveList), ""},
		{record.Route, "/servlets/record", m.alone(m.serveRecord), ""},
		{submitLog.Route, "/servlets/submitlog", m.alone(m.serveSubmitLog), ""},
		{isRestart.Route, "/servlets/isrestart", m.serveIsRestart, ""},
		{subscribe.Route, "/servlets/subscribe", m.recorded("takes part", m.serveSubscribe), http.MethodGet},
		{unsubscribe.Route, "/servlets/unsubscribe", m.recorded("leaves", m.serveUnsubscribe), http.MethodGet},
	} {
		robots(step.op, raw(step.handler))
		robots(step.op.At(step.op.Method, step.old, servlet{}), raw(step.handler))
		if step.also != "" {
			robots(step.op.At(step.also, step.old, servlet{}), raw(step.handler))
		}
	}
	directory.Raw(everybody, m.serveDirectory)
	card.Raw(everybody, m.serveCard)
	heartbeat.Raw(robots, raw(m.serveHeartbeat))
	handOver.Raw(robots, raw(m.takeHandover))
	takeOver.Raw(robots, raw(m.giveHandover))
	watched.Raw(robots, raw(m.serveWatches))
	tellAddresses.On(robots, route.Done(m.takeAddresses))
	keyChain.On(robots, m.serviceKeys)
	report.Raw(robots, raw(m.serveReport))
}

// noContent answers 204 if err is nil, and returns err.
func noContent(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func writeText(w http.ResponseWriter, s string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, err := io.WriteString(w, s)
	return err
}

// adminProblems are the errors that an operator caused, and their answers.
var adminProblems = []struct {
	err    error
	status int
	reason string
}{
	{roster.ErrRobotName, http.StatusBadRequest, "bad_name"},
	{roster.ErrRobotExists, http.StatusConflict, "robot_exists"},
	{roster.ErrActive, http.StatusConflict, "robot_active"},
	{roster.ErrUnknownRobot, http.StatusNotFound, "unknown_robot"},
	{roster.ErrNoRobot, http.StatusNotFound, "unknown_robot"},
	{roster.ErrNoKey, http.StatusConflict, "no_release_key"},
	{roster.ErrKey, http.StatusConflict, "other_release_key"},
	{roster.ErrCounter, http.StatusConflict, "old_counter"},
	{roster.ErrUnknown, http.StatusNotFound, "unknown_release"},
	{assign.ErrUnknownHost, http.StatusNotFound, "unknown_host"},
	{levelling.ErrNoPlanning, http.StatusNotFound, "no_plan"},
	{levelling.ErrGivenUp, http.StatusConflict, "given_up"},
	{hosts.ErrNotRefused, http.StatusNotFound, "not_refused"},
	{hosts.ErrPrefixNotRefused, http.StatusNotFound, "not_refused"},
}

// adminError turns an error that an operator caused into its HTTP answer. It returns other errors
// unchanged.
func adminError(err error) error {
	if _, ok := errors.AsType[assign.Invalid](err); ok {
		return problem.New(http.StatusBadRequest, "bad_hosts", err.Error())
	}
	if _, ok := errors.AsType[roster.Bad](err); ok {
		return problem.New(http.StatusBadRequest, "bad_release", err.Error())
	}
	for _, p := range adminProblems {
		if errors.Is(err, p.err) {
			return problem.New(p.status, p.reason, err.Error())
		}
	}
	return err
}

// bodyError returns the HTTP answer to a request with a bad body: 413 if the body is too large,
// otherwise 400.
func bodyError(reason string, err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return problem.New(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body has more than %d bytes; send it in parts", tooLarge.Limit))
	case errors.Is(err, wire.ErrTooLarge):
		return problem.New(http.StatusRequestEntityTooLarge, "too_large", err.Error())
	default:
		return problem.New(http.StatusBadRequest, reason, err.Error())
	}
}

// What sites ask to recognise robots. See package botauth.
var (
	directory = route.New[route.None, route.None](http.MethodGet, botauth.PathDirectory, route.Anybody, audit.None, "The keys by which robots sign their requests").Under("robots").
			Answering(http.StatusOK, "A JWK set").Sends("application/http-message-signatures-directory+json")
	card = route.New[route.None, route.None](http.MethodGet, botauth.PathCard, route.Anybody, audit.None, "Who the robots are").Under("robots").
		Answering(http.StatusOK, "A signature agent card").Sends("application/json")
)

// authority returns the authority of the signing keys' directory: Options.Public's or, if that is
// not set, the request's.
func (m *Manager) authority(r *http.Request) string {
	if u, err := url.Parse(m.opt.Public); err == nil && u.Host != "" {
		return botauth.Authority(u.Scheme, u.Host)
	}
	return botauth.Authority("http", r.Host)
}

func (m *Manager) serveDirectory(w http.ResponseWriter, r *http.Request) error {
	keys, err := m.Roster.SigningKeys(r.Context(), m.authority(r), time.Now())
	if err != nil {
		return err
	}
	return botauth.WriteDirectory(w, keys)
}

func (m *Manager) serveCard(w http.ResponseWriter, r *http.Request) error {
	c := botauth.Card{Name: m.opt.Name, URI: m.opt.Public + api.PathRobots, Keys: m.opt.Public + botauth.PathDirectory}
	if m.opt.Contact != "" {
		c.Contacts = []string{m.opt.Contact}
	}
	c.Bot.Purpose = "archive"
	return c.Write(w)
}
