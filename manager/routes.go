package manager

import (
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/wire"
)

// Register mounts the robots' protocol, under the paper's paths and under /v1/robots, and, if
// there is a gate, the operators' API.
func (m *Manager) Register(r *mux.Router) {
	r.Handle(wire.PathJoin, m.opt.Audit.Handler(audit.Join, m.plain(m.serveJoin))).Methods(http.MethodPost)
	for _, route := range []struct {
		old, path string
		handler   robotHandler
		methods   []string // on the new path
		oldMethod string   // the old path takes this one, too
	}{
		{"/servlets/list", wire.PathList, m.notBelowFloor(m.serveList), []string{http.MethodGet, http.MethodHead}, http.MethodGet},
		{"/servlets/record", wire.PathRecord, m.serveRecord, []string{http.MethodPost}, http.MethodPost},
		{"/servlets/submitlog", wire.PathSubmitLog, m.serveSubmitLog, []string{http.MethodPost}, http.MethodPost},
		{"/servlets/isrestart", wire.PathIsRestart, m.serveIsRestart, []string{http.MethodGet}, http.MethodGet},
		{"/servlets/subscribe", wire.PathSubscribe, m.recorded("takes part", m.serveSubscribe), []string{http.MethodPost}, http.MethodGet},
		{"/servlets/unsubscribe", wire.PathUnsubscribe, m.recorded("leaves", m.serveUnsubscribe), []string{http.MethodPost}, http.MethodGet},
	} {
		h := m.authenticated(route.handler)
		r.Handle(route.path, h).Methods(route.methods...)
		r.Handle(route.old, h).Methods(append(route.methods, route.oldMethod)...)
	}
	r.Handle(wire.PathHeartbeat, m.authenticated(m.serveHeartbeat)).Methods(http.MethodPost)
	r.Handle(wire.PathHandovers, m.authenticated(m.takeHandover)).Methods(http.MethodPost)
	r.Handle(wire.PathHandover, m.authenticated(m.giveHandover)).Methods(http.MethodGet)
	r.Handle(wire.PathWatches, m.authenticated(m.serveWatches)).Methods(http.MethodGet)
	r.Handle(wire.PathAddresses, m.authenticated(m.serveAddresses)).Methods(http.MethodPost)
	r.Handle(wire.PathServiceKeys, m.authenticated(m.serveServiceKeys)).Methods(http.MethodGet)
	r.Handle(wire.PathReport, m.authenticated(m.serveReport)).Methods(http.MethodPost)
	releases := releaseAPI{m.Releases}
	releases.register(r, m.plain)
	if m.opt.Gate != nil {
		gate := func(least operators.Role, act audit.Act, h handler) http.Handler {
			return m.opt.Gate(least, act, m.plain(h))
		}
		releases.registerAdmin(r, gate)
		(&operatorAPI{
			roster: m.Roster, hosts: m.Hosts, costs: m.Costs, levelling: m.Levelling,
			copies: m.Copies, releases: releases, public: m.opt.Public,
		}).register(r, gate)
	}
}
