// Package accounts serves /v1/admin/accounts, by which operators keep consumers' accounts,
// /v1/tokens, by which these keep their tokens, and /v1/admin/access, by which operators say who
// may see what.
package accounts

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/serve/access"
	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
	"sheaf/serve/httpd/guard"
)

// Handler serves the accounts.
type Handler struct {
	Accounts *account.Accounts
	Meter    *bandwidth.Meter
	Rules    *access.Rules // nil: there are none
}

// Register mounts the handlers.
func (h *Handler) Register(r *mux.Router, g *guard.Guard) {
	handle := func(method, path string, least operators.Role, act audit.Act, f func(http.ResponseWriter, *http.Request) error) {
		r.Handle(path, g.Operator(least, act, func(w http.ResponseWriter, r *http.Request) error { return accountProblem(f(w, r)) })).Methods(method)
	}
	handle(http.MethodGet, api.PathAdminAccounts, operators.Viewer, audit.None, h.list)
	handle(http.MethodPost, api.PathAdminAccounts, operators.Worker, audit.Add, h.create)
	handle(http.MethodPatch, api.PathAdminAccounts+"/{name}", operators.Worker, audit.Change, h.change)
	handle(http.MethodDelete, api.PathAdminAccounts+"/{name}", operators.Admin, audit.Remove, h.delete)
	h.registerTokens(r, g)
	if h.Rules != nil {
		h.registerRules(r, g)
	}
}

// accountProblem returns the problem to answer for an error of account.Accounts, and other errors
// as they are.
func accountProblem(err error) error {
	switch {
	case errors.Is(err, account.ErrExists):
		return problem.New(http.StatusConflict, "exists", err.Error())
	case errors.Is(err, account.ErrManyTokens):
		return problem.New(http.StatusConflict, "too_many_tokens", err.Error())
	case errors.Is(err, account.ErrNoAccount), errors.Is(err, account.ErrNoToken):
		return problem.New(http.StatusNotFound, "not_found", err.Error())
	case errors.Is(err, account.ErrInvalid):
		return problem.New(http.StatusUnprocessableEntity, "account", err.Error())
	}
	return err
}

func (h *Handler) list(w http.ResponseWriter, r *http.Request) error {
	accounts, err := h.Accounts.List(r.Context())
	if err != nil {
		return err
	}
	today, err := h.Meter.Used(r.Context())
	if err != nil {
		return err
	}
	list := account.AccountList{Accounts: make([]account.AccountLine, 0, len(accounts))}
	for _, a := range accounts {
		list.Accounts = append(list.Accounts, account.AccountLine{Account: a, Today: today[a.Name]})
	}
	return problem.JSON(w, http.StatusOK, list)
}

func (h *Handler) create(w http.ResponseWriter, r *http.Request) error {
	var wanted account.NewAccount
	if err := problem.ReadJSON(w, r, &wanted); err != nil {
		return err
	}
	audit.About(r.Context(), "account", wanted.Name)
	created, password, err := h.Accounts.Create(r.Context(), wanted.Account, wanted.Password)
	if err != nil {
		return err
	}
	w.Header().Set("Location", api.PathAdminAccounts+"/"+created.Name)
	return problem.JSON(w, http.StatusCreated, account.NewAccount{Account: created, Password: password})
}

// change changes what the body, an account.Change, names. Transfers that run go on under the new
// limits.
func (h *Handler) change(w http.ResponseWriter, r *http.Request) error {
	var change account.Change
	if err := problem.ReadJSON(w, r, &change); err != nil {
		return err
	}
	audit.Note(r.Context(), audit.Row{Object: "account " + mux.Vars(r)["name"], Reason: changed(change)})
	changed, err := h.Accounts.Change(r.Context(), mux.Vars(r)["name"], change)
	if err != nil {
		return err
	}
	today, err := h.Meter.Used(r.Context())
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, account.AccountLine{Account: changed, Today: today[changed.Name]})
}

// changed says what a change changes, without what nobody is to read.
func changed(c account.Change) string {
	const hidden = "…"
	if c.Password != nil {
		c.Password = new(hidden)
	}
	if c.Email != nil {
		c.Email = new(hidden)
	}
	text, _ := json.Marshal(c) // cannot fail
	return string(text)
}

func (h *Handler) delete(w http.ResponseWriter, r *http.Request) error {
	audit.About(r.Context(), "account", mux.Vars(r)["name"])
	if err := h.Accounts.Delete(r.Context(), mux.Vars(r)["name"]); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
