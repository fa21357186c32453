package httpd

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
	"sheaf/serve"
)

// PathAccounts is where operators keep accounts.
const PathAccounts = "/v1/admin/accounts"

// maxAccount bounds the body of a request to make an account, in bytes.
const maxAccount = 64 << 10

// NewAccount is the body of POST /v1/admin/accounts, and its answer. Without a
// password one is made up; the answer is the only place that ever shows it.
type NewAccount struct {
	serve.Account
	Password string `json:"password,omitempty"`
}

// AccountList is the answer of GET /v1/admin/accounts.
type AccountList struct {
	Accounts []serve.Account `json:"accounts"`
}

func (s *server) registerAdmin(r *mux.Router) {
	handle := func(path, method string, h func(http.ResponseWriter, *http.Request) error) {
		r.Handle(path, s.Operator(problem.Handler(s.Log, h))).Methods(method)
	}
	handle(PathAccounts, http.MethodGet, s.listAccounts)
	handle(PathAccounts, http.MethodPost, s.createAccount)
	handle(PathAccounts+"/{name}", http.MethodDelete, s.deleteAccount)
}

func (s *server) listAccounts(w http.ResponseWriter, r *http.Request) error {
	accounts, err := s.Accounts.List(r.Context())
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, AccountList{Accounts: append([]serve.Account{}, accounts...)})
}

func (s *server) createAccount(w http.ResponseWriter, r *http.Request) error {
	var wanted NewAccount
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAccount))
	body.DisallowUnknownFields()
	if err := body.Decode(&wanted); err != nil {
		return problem.New(http.StatusBadRequest, "body", "the body is no account: "+err.Error())
	}
	created, password, err := s.Accounts.Create(r.Context(), wanted.Account, wanted.Password)
	switch {
	case errors.Is(err, serve.ErrAccountExists):
		return problem.New(http.StatusConflict, "exists", err.Error())
	case errors.Is(err, serve.ErrAccount):
		return problem.New(http.StatusUnprocessableEntity, "account", err.Error())
	case err != nil:
		return err
	}
	w.Header().Set("Location", PathAccounts+"/"+created.Name)
	return answerJSON(w, http.StatusCreated, NewAccount{created, password})
}

func (s *server) deleteAccount(w http.ResponseWriter, r *http.Request) error {
	err := s.Accounts.Delete(r.Context(), mux.Vars(r)["name"])
	if errors.Is(err, serve.ErrNoAccount) {
		return problem.New(http.StatusNotFound, "not_found", err.Error())
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
