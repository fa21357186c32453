package removal

import (
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
)

// RequestList answers GET /v1/admin/removals.
type RequestList struct {
	Requests []Request `json:"requests"`
}

// RequestDocument answers GET and POST /v1/admin/removals/{id}.
type RequestDocument struct {
	Request
	History []Event `json:"history"`
}

const listed = 1000 // requests that one answer has

// RegisterAdmin adds the operators' paths to r:
//
//	GET  /v1/admin/removals?state=   RequestList
//	GET  /v1/admin/removals/{id}     RequestDocument
//	POST /v1/admin/removals/{id}     Decision: grant or refuse; RequestDocument
func (d *Desk) RegisterAdmin(r *mux.Router, gate operators.Gate) {
	handle := func(method, path string, least operators.Role, act audit.Act, h func(http.ResponseWriter, *http.Request) error) {
		r.Handle(path, gate(least, act, problem.Handler(d.opt.Log, h))).Methods(method)
	}
	handle(http.MethodGet, api.PathAdminRemovals, operators.Viewer, audit.None, d.serveList)
	handle(http.MethodGet, api.PathAdminRemovals+"/{id}", operators.Viewer, audit.None, d.serveOne)
	handle(http.MethodPost, api.PathAdminRemovals+"/{id}", operators.Worker, audit.Decide, d.serveDecision)
}

func (d *Desk) serveList(w http.ResponseWriter, r *http.Request) error {
	var states []State
	for _, s := range r.URL.Query()["state"] {
		states = append(states, State(s))
	}
	list, err := d.List(r.Context(), listed, states...)
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, RequestList{list})
}

func (d *Desk) serveOne(w http.ResponseWriter, r *http.Request) error {
	found, err := d.Get(r.Context(), mux.Vars(r)["id"])
	if err != nil {
		return Problem(err)
	}
	history, err := d.History(r.Context(), found.ID)
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, RequestDocument{*found, history})
}

func (d *Desk) serveDecision(w http.ResponseWriter, r *http.Request) error {
	var by Decision
	if err := problem.ReadJSON(w, r, &by); err != nil {
		return err
	}
	by.By = operators.By(r.Context(), by.By)
	audit.Note(r.Context(), audit.Row{Object: map[bool]string{false: "refuse", true: "grant"}[by.Grant] + " removal " + mux.Vars(r)["id"], Reason: by.Reason})
	if _, err := d.Decide(r.Context(), mux.Vars(r)["id"], by); err != nil {
		return Problem(err)
	}
	return d.serveOne(w, r)
}

// Problem returns the problem to answer to an operator for an error of the desk, and other errors
// as they are.
func Problem(err error) error {
	switch {
	case errors.Is(err, ErrUnknown):
		return problem.New(http.StatusNotFound, "unknown_request", err.Error())
	case errors.Is(err, ErrDecided):
		return problem.New(http.StatusConflict, "decided", err.Error())
	case errors.Is(err, ErrUnproved):
		return problem.New(http.StatusConflict, "unproved", err.Error())
	case errors.Is(err, ErrReason):
		return problem.New(http.StatusBadRequest, "no_reason", err.Error())
	}
	return err
}
