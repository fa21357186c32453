package removal

import (
	"context"
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
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

const listed = 1000 // requests in one answer

// ListQuery is the query of GET /v1/admin/removals.
type ListQuery struct {
	States []State `query:"state" doc:"open, proved, granted, refused or expired; may be given several times"`
}

const oneRequest = api.PathAdminRemovals + "/{id}"

// Operations of operators on requests.
var (
	ListRequests = route.New[ListQuery, RequestList]("GET", api.PathAdminRemovals, operators.Viewer, audit.None, "What owners of sites ask to be removed")
	ShowRequest  = route.New[string, RequestDocument]("GET", oneRequest, operators.Viewer, audit.None, "One request with its history")
	Settle       = route.New[route.At[Decision], RequestDocument]("POST", oneRequest, operators.Worker, audit.Decide, "Grant or refuse").Answering(http.StatusOK, "As decided")
)

// RegisterAdmin mounts the operators' operations.
func (d *Desk) RegisterAdmin(r *mux.Router, gate operators.Gate) {
	d.registerAdmin(gate.Mount(r, d.opt.Log, Problem))
}

func (d *Desk) registerAdmin(mount route.Mount) {
	ListRequests.On(mount, func(ctx context.Context, q ListQuery) (RequestList, error) {
		list, err := d.List(ctx, listed, q.States...)
		return RequestList{list}, err
	})
	ShowRequest.On(mount, d.document)
	Settle.On(mount, d.settle)
}

// Routes returns all operations, for the API description.
func Routes() []*route.Route {
	return append(route.List(new(Desk).registerAdmin), showForm.Route, takeForm.Route, showOwn.Route, prove.Route)
}

func (d *Desk) document(ctx context.Context, id string) (RequestDocument, error) {
	found, err := d.Get(ctx, id)
	if err != nil {
		return RequestDocument{}, err
	}
	history, err := d.History(ctx, found.ID)
	return RequestDocument{*found, history}, err
}

func (d *Desk) settle(ctx context.Context, in route.At[Decision]) (RequestDocument, error) {
	by := in.Body
	by.By = operators.By(ctx, by.By)
	audit.Note(ctx, audit.Row{Object: map[bool]string{false: "refuse", true: "grant"}[by.Grant] + " removal " + in.Name, Reason: by.Reason})
	if _, err := d.Decide(ctx, in.Name, by); err != nil {
		return RequestDocument{}, err
	}
	return d.document(ctx, in.Name)
}

// Problem turns an error of the desk into an HTTP problem for an operator. It returns other errors
// unchanged.
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
