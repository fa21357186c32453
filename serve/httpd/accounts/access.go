package accounts

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/serve/access"
	"sheaf/serve/httpd/guard"
)

// registerRules mounts the operators' paths of access rules.
func (h *Handler) registerRules(r *mux.Router, g *guard.Guard) {
	handle := func(method, path string, least operators.Role, act audit.Act, f func(http.ResponseWriter, *http.Request) error) {
		r.Handle(path, g.Operator(least, act, func(w http.ResponseWriter, r *http.Request) error { return ruleProblem(f(w, r)) })).Methods(method)
	}
	handle(http.MethodGet, api.PathAdminAccess, operators.Viewer, audit.None, h.listRules)
	handle(http.MethodPost, api.PathAdminAccess, operators.Worker, audit.Add, h.addRule)
	handle(http.MethodDelete, api.PathAdminAccess+"/{id}", operators.Worker, audit.Remove, h.removeRule)
}

func ruleProblem(err error) error {
	switch {
	case errors.Is(err, access.ErrInvalid):
		return problem.New(http.StatusUnprocessableEntity, "access_rule", err.Error())
	case errors.Is(err, access.ErrNoRule):
		return problem.New(http.StatusNotFound, "not_found", err.Error())
	}
	return err
}

func (h *Handler) listRules(w http.ResponseWriter, r *http.Request) error {
	rules, err := h.Rules.List(r.Context())
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, access.RuleList{Rules: rules})
}

func (h *Handler) addRule(w http.ResponseWriter, r *http.Request) error {
	var wanted access.Rule
	if err := problem.ReadJSON(w, r, &wanted); err != nil {
		return err
	}
	wanted.By = operators.By(r.Context(), wanted.By)
	made, err := h.Rules.Add(r.Context(), wanted)
	if err != nil {
		return err
	}
	audit.Note(r.Context(), audit.Row{Object: "access rule " + strconv.FormatInt(made.ID, 10) + " on " + made.Names(), Reason: made.Reason})
	w.Header().Set("Location", api.PathAdminAccess+"/"+strconv.FormatInt(made.ID, 10))
	return problem.JSON(w, http.StatusCreated, made)
}

func (h *Handler) removeRule(w http.ResponseWriter, r *http.Request) error {
	audit.About(r.Context(), "access rule", mux.Vars(r)["id"])
	id, err := strconv.ParseInt(mux.Vars(r)["id"], 10, 64)
	if err != nil {
		return access.ErrNoRule
	}
	if err := h.Rules.Remove(r.Context(), id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
