package accounts

import (
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/httpd/reply"
)

// registerTokens mounts /v1/tokens, by which accounts keep their own tokens, and the same for
// operators below each account.
func (h *Handler) registerTokens(r *mux.Router, g *guard.Guard) {
	type handler func(w http.ResponseWriter, r *http.Request, account string) error
	both := func(method, below string, f handler) {
		r.Handle(api.PathTokens+below, g.Owner(func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
			return accountProblem(f(w, r, a.Name))
		})).Methods(method)
		r.Handle(api.PathAdminAccounts+"/{name}/tokens"+below, g.Operator(func(w http.ResponseWriter, r *http.Request) error {
			return accountProblem(f(w, r, mux.Vars(r)["name"]))
		})).Methods(method)
	}
	both(http.MethodGet, "", h.listTokens)
	both(http.MethodPost, "", h.createToken)
	both(http.MethodDelete, "/{id}", h.revokeToken)
}

func (h *Handler) listTokens(w http.ResponseWriter, r *http.Request, name string) error {
	if _, err := h.Accounts.Account(r.Context(), name); err != nil {
		return err
	}
	tokens, err := h.Accounts.Tokens(r.Context(), name)
	if err != nil {
		return err
	}
	return reply.JSON(w, http.StatusOK, account.TokenList{Tokens: tokens})
}

func (h *Handler) createToken(w http.ResponseWriter, r *http.Request, name string) error {
	var wanted account.NewToken
	if err := reply.ReadJSON(w, r, &wanted, "body", "the body is no token"); err != nil {
		return err
	}
	made, secret, err := h.Accounts.CreateToken(r.Context(), name, wanted.Token)
	if err != nil {
		return err
	}
	w.Header().Set("Location", r.URL.Path+"/"+made.ID)
	return reply.JSON(w, http.StatusCreated, account.NewToken{Token: made, Secret: secret})
}

func (h *Handler) revokeToken(w http.ResponseWriter, r *http.Request, name string) error {
	if err := h.Accounts.RevokeToken(r.Context(), name, mux.Vars(r)["id"]); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
