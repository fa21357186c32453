package operators

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/problem"
	"sheaf/internal/route"
)

// OperatorList is the answer of GET /v1/admin/operators, sorted by name. It does not list the
// token.
type OperatorList struct {
	Operators []Operator `json:"operators"`
}

// NewOperator is the body and the answer of POST /v1/admin/operators. If the body has no password,
// the service makes one. NewOperator is also the answer of PATCH; it then has the password if that
// was changed.
type NewOperator struct {
	Operator
	Password string `json:"password,omitempty"`
}

// NewPassword is the body of PUT /v1/operator/password.
type NewPassword struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// Operations on operators.
var (
	List      = route.New[route.None, OperatorList]("GET", api.PathAdminOperators, Viewer, audit.None, "All operators")
	Create    = route.New[NewOperator, NewOperator]("POST", api.PathAdminOperators, Admin, audit.Add, "Add an operator; the answer has the password, which is not shown again").Answering(http.StatusCreated, "Added")
	Modify    = route.New[route.At[OperatorChange], NewOperator]("PATCH", oneOperator, Admin, audit.Change, "Change role, suspension or password; an empty password asks for a random one, which the answer has").Answering(http.StatusOK, "As it is now")
	Remove    = route.New[string, route.None]("DELETE", oneOperator, Admin, audit.Remove, "Remove an operator, whose sessions end")
	SetOwn    = route.New[NewPassword, route.None]("PUT", api.PathOwnPassword, Viewer, audit.Change, "Change the own password; the own sessions end")
	ListAudit = route.New[audit.Query, audit.RowList]("GET", api.PathAudit, Viewer, audit.None, "The audit log: who did what, and every log-in; newest first").Also(http.StatusOK, "text/csv", "")
)

const oneOperator = api.PathAdminOperators + "/{name}"

// Register mounts the operations and the audit log. Days in queries of the log are those of zone.
func (d *Door) Register(r *mux.Router, zone *time.Location) {
	d.register(Gate(d.Gate).Mount(r, d.Log, Explain), zone)
}

// Routes returns the operations, for the API description.
func Routes() []*route.Route {
	return route.List(func(mount route.Mount) { new(Door).register(mount, nil) })
}

func (d *Door) register(mount route.Mount, zone *time.Location) {
	List.On(mount, d.List)
	Create.On(mount, d.Add)
	Modify.On(mount, d.Change)
	Remove.On(mount, route.Done(d.Remove))
	SetOwn.On(mount, route.Done(d.SetOwnPassword))
	ListAudit.Raw(mount, func(w http.ResponseWriter, r *http.Request) error {
		query, err := ListAudit.Read(w, r)
		if err != nil {
			return err
		}
		return d.serveAudit(w, r, query, zone)
	})
}

// Explain returns the problem to answer for an error of Store, and other errors as they are.
func Explain(err error) error {
	switch {
	case errors.Is(err, ErrExists):
		return problem.New(http.StatusConflict, "exists", err.Error())
	case errors.Is(err, ErrUnknown):
		return problem.New(http.StatusNotFound, "not_found", err.Error())
	case errors.Is(err, ErrInvalid):
		return problem.New(http.StatusUnprocessableEntity, "operator", err.Error())
	case errors.Is(err, ErrCredentials):
		return problem.New(http.StatusForbidden, "credentials", "the old password is wrong")
	}
	return err
}

// List returns all operators, by name.
func (d *Door) List(ctx context.Context, _ route.None) (OperatorList, error) {
	list, err := d.Store.List(ctx)
	return OperatorList{list}, err
}

// Add adds an operator and returns them with the password.
func (d *Door) Add(ctx context.Context, wanted NewOperator) (NewOperator, error) {
	audit.Note(ctx, audit.Row{Object: "operator " + wanted.Name, Reason: "role " + string(wanted.Role)})
	made, password, err := d.Store.Add(ctx, wanted.Operator, wanted.Password)
	if err == nil {
		route.Header(ctx).Set("Location", api.PathAdminOperators+"/"+made.Name)
	}
	return NewOperator{made, password}, err
}

// Change changes an operator, and returns the password if that was changed. It refuses operators
// who would suspend themselves or take the role of admin from themselves.
func (d *Door) Change(ctx context.Context, in route.At[OperatorChange]) (NewOperator, error) {
	audit.Note(ctx, audit.Row{Object: "operator " + in.Name, Reason: in.Body.String()})
	if c := in.Body; c.Suspended != nil && *c.Suspended || c.Role != nil && *c.Role != Admin {
		if err := d.another(ctx, in.Name); err != nil {
			return NewOperator{}, err
		}
	}
	now, password, err := d.Store.Change(ctx, in.Name, in.Body)
	return NewOperator{now, password}, err
}

// serveAudit answers with a page of the audit log, as JSON or CSV.
func (d *Door) serveAudit(w http.ResponseWriter, r *http.Request, query audit.Query, zone *time.Location) error {
	filter, err := query.Filter(zone)
	if err != nil {
		return err
	}
	doc, err := d.Audit.Page(r.Context(), filter)
	if err != nil {
		return err
	}
	if doc.Next != 0 {
		route.Link(r.Context(), "next", map[string]string{"before": strconv.FormatInt(doc.Next, 10)})
	}
	if query.Format == "csv" {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="audit.csv"`)
		return audit.WriteCSV(w, doc.Rows)
	}
	return problem.JSON(w, http.StatusOK, doc)
}

// another returns an error if name is the operator who makes the request. So an admin is always
// left who can undo the change. The token of the data directory may change everybody.
func (d *Door) another(ctx context.Context, name string) error {
	if o, _ := ctx.Value(whoKey{}).(who); o.byToken || o.Name != name {
		return nil
	}
	return problem.New(http.StatusConflict, "oneself", "nobody can suspend or remove themselves, or give up being an admin; another admin can, and so can the token of the data directory")
}

// String describes the change, without the password.
func (c OperatorChange) String() string {
	text := ""
	add := func(what string) {
		if text != "" {
			text += ", "
		}
		text += what
	}
	if c.Role != nil {
		add("role " + string(*c.Role))
	}
	switch {
	case c.Suspended != nil && *c.Suspended:
		add("suspended")
	case c.Suspended != nil:
		add("no longer suspended")
	}
	if c.Password != nil {
		add("new password")
	}
	return text
}

// Remove removes an operator and ends their sessions. Nobody can remove themselves.
func (d *Door) Remove(ctx context.Context, name string) error {
	audit.About(ctx, "operator", name)
	if err := d.another(ctx, name); err != nil {
		return err
	}
	return d.Store.Remove(ctx, name)
}

// SetOwnPassword changes the password of the operator who makes the request. It needs the old
// password, so that nobody can take over an operator at an unattended browser. It ends the
// operator's sessions.
func (d *Door) SetOwnPassword(ctx context.Context, wanted NewPassword) error {
	o, _ := ctx.Value(whoKey{}).(who)
	audit.Note(ctx, audit.Row{Object: "operator " + o.Name, Reason: "new password"})
	if o.byToken {
		return problem.New(http.StatusConflict, "token", "the token of the data directory has no password; log in with a name to change one")
	}
	if wanted.New == "" {
		return problem.New(http.StatusUnprocessableEntity, "operator", "the new password is empty")
	}
	if _, _, err := d.Store.Login(ctx, o.Name, wanted.Old, route.Request(ctx).RemoteAddr); err != nil {
		return err
	}
	_, _, err := d.Store.Change(ctx, o.Name, OperatorChange{Password: &wanted.New})
	return err
}
