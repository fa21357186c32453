package operators

import (
	"errors"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/problem"
)

// OperatorList is the answer of GET /v1/admin/operators, by name. The holder of the token is not in
// it.
type OperatorList struct {
	Operators []Operator `json:"operators"`
}

// NewOperator is the body of POST /v1/admin/operators and its answer. Without a password in the
// body, one is made up. PATCH answers with it too; the password is there if it was changed.
type NewOperator struct {
	Operator
	Password string `json:"password,omitempty"`
}

// NewPassword is the body of PUT /v1/operator/password.
type NewPassword struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// Register mounts the paths by which admins look after operators, and by which each operator
// changes the own password; and the audit log, whose days are those of zone.
func (d *Door) Register(r *mux.Router, zone *time.Location) {
	handle := func(method, path string, least Role, act audit.Act, f func(http.ResponseWriter, *http.Request) error) {
		r.Handle(path, d.Gate(least, act, problem.Handler(d.Log, func(w http.ResponseWriter, r *http.Request) error {
			return storeProblem(f(w, r))
		}))).Methods(method)
	}
	const one = api.PathAdminOperators + "/{name}"
	handle(http.MethodGet, api.PathAdminOperators, Viewer, audit.None, d.list)
	handle(http.MethodPost, api.PathAdminOperators, Admin, audit.Add, d.add)
	handle(http.MethodPatch, one, Admin, audit.Change, d.change)
	handle(http.MethodDelete, one, Admin, audit.Remove, d.remove)
	handle(http.MethodGet, api.PathAudit, Viewer, audit.None, func(w http.ResponseWriter, r *http.Request) error { return d.Audit.Serve(w, r, zone) })
	handle(http.MethodPut, api.PathOwnPassword, Viewer, audit.Change, d.ownPassword)
}

// storeProblem returns the problem to answer for an error of Store, and other errors as they are.
func storeProblem(err error) error {
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

func (d *Door) list(w http.ResponseWriter, r *http.Request) error {
	list, err := d.Store.List(r.Context())
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, OperatorList{list})
}

func (d *Door) add(w http.ResponseWriter, r *http.Request) error {
	var wanted NewOperator
	if err := problem.ReadJSON(w, r, &wanted); err != nil {
		return err
	}
	audit.Note(r.Context(), audit.Row{Object: "operator " + wanted.Name, Reason: "role " + string(wanted.Role)})
	made, password, err := d.Store.Add(r.Context(), wanted.Operator, wanted.Password)
	if err != nil {
		return err
	}
	w.Header().Set("Location", api.PathAdminOperators+"/"+made.Name)
	return problem.JSON(w, http.StatusCreated, NewOperator{made, password})
}

func (d *Door) change(w http.ResponseWriter, r *http.Request) error {
	name := mux.Vars(r)["name"]
	var c OperatorChange
	if err := problem.ReadJSON(w, r, &c); err != nil {
		return err
	}
	audit.Note(r.Context(), audit.Row{Object: "operator " + name, Reason: c.String()})
	now, password, err := d.Store.Change(r.Context(), name, c)
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, NewOperator{now, password})
}

// String says what is changed, without the password.
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

func (d *Door) remove(w http.ResponseWriter, r *http.Request) error {
	name := mux.Vars(r)["name"]
	audit.About(r.Context(), "operator", name)
	if err := d.Store.Remove(r.Context(), name); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// ownPassword changes the password of the operator who asks. The old one is needed too: a browser
// that was left alone does not hand over the name. Its sessions end.
func (d *Door) ownPassword(w http.ResponseWriter, r *http.Request) error {
	o, _ := r.Context().Value(whoKey{}).(who)
	audit.Note(r.Context(), audit.Row{Object: "operator " + o.Name, Reason: "new password"})
	var wanted NewPassword
	if err := problem.ReadJSON(w, r, &wanted); err != nil {
		return err
	}
	if o.byToken {
		return problem.New(http.StatusConflict, "token", "the token of the data directory has no password; log in with a name to change one")
	}
	if wanted.New == "" {
		return problem.New(http.StatusUnprocessableEntity, "operator", "the new password is empty")
	}
	if _, _, err := d.Store.Login(r.Context(), o.Name, wanted.Old, r.RemoteAddr); err != nil {
		return err
	}
	if _, _, err := d.Store.Change(r.Context(), o.Name, OperatorChange{Password: &wanted.New}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
