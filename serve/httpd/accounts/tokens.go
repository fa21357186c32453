package accounts

import (
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
)

// registerTokens mounts /v1/tokens, by which accounts keep their own tokens, and the same for
// operators below each account.
func (h *Handler) registerTokens(r *mux.Router, g *guard.Guard) {
	type handler func(w http.ResponseWriter, r *http.Request, account string) error
	both := func(method, below string, least operators.Role, act audit.Act, f handler) {
		r.Handle(api.PathTokens+below, g.Owner(func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
			return accountProblem(f(w, r, a.Name))
		})).Methods(method)
		r.Handle(api.PathAdminAccounts+"/{name}/tokens"+below, g.Operator(least, act, func(w http.ResponseWriter, r *http.Request) error {
			return accountProblem(f(w, r, mux.Vars(r)["name"]))
		})).Methods(method)
	}
	both(http.MethodGet, "", operators.Viewer, audit.None, h.listTokens)
	both(http.MethodPost, "", operators.Worker, audit.Add, h.createToken)
	both(http.MethodDelete, "/{id}", operators.Worker, audit.Remove, h.revokeToken)
}

func (h *Handler) listTokens(w http.ResponseWriter, r *http.Request, name string) error {
	if _, err := h.Accounts.Account(r.Context(), name); err != nil {
		return err
	}
	tokens, err := h.Accounts.Tokens(r.Context(), name)
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, account.TokenList{Tokens: tokens})
}

func (h *Handler) createToken(w http.ResponseWriter, r *http.Request, name string) error {
	var wanted account.NewToken
	if err := problem.ReadJSON(w, r, &wanted); err != nil {
		return err
	}
	audit.About(r.Context(), "token of account", name)
	made, secret, err := h.Accounts.CreateToken(r.Context(), name, wanted.Token)
	if err != nil {
		return err
	}
	w.Header().Set("Location", r.URL.Path+"/"+made.ID)
	return problem.JSON(w, http.StatusCreated, account.NewToken{Token: made, Secret: secret})
}

func (h *Handler) revokeToken(w http.ResponseWriter, r *http.Request, name string) error {
	audit.About(r.Context(), "token "+mux.Vars(r)["id"]+" of account", name)
	if err := h.Accounts.RevokeToken(r.Context(), name, mux.Vars(r)["id"]); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
