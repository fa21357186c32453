package httpd

import (
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
	"sheaf/serve/account"
)

// PathAccounts is where operators keep accounts.
const PathAccounts = "/v1/admin/accounts"

// maxAccount bounds the body of a request to make an account, in bytes.
const maxAccount = 64 << 10

// NewAccount is the body of POST /v1/admin/accounts, and its answer. Without a
// password one is made up; the answer is the only place that ever shows it.
type NewAccount struct {
	account.Account
	Password string `json:"password,omitempty"`
}

// AccountList is the answer of GET /v1/admin/accounts.
type AccountList struct {
	Accounts []AccountLine `json:"accounts"`
}

// AccountLine is an account and how many bytes it has fetched today.
type AccountLine struct {
	account.Account
	Today int64 `json:"today"`
}

func (s *server) registerAdmin(r *mux.Router) {
	handle := func(path, method string, h func(http.ResponseWriter, *http.Request) error) {
		r.Handle(path, s.sameOrigin(s.Operator(problem.Handler(s.Log, h)))).Methods(method)
	}
	handle(PathAccounts, http.MethodGet, s.listAccounts)
	handle(PathAccounts, http.MethodPost, s.createAccount)
	handle(PathAccounts+"/{name}", http.MethodPatch, s.changeAccount)
	handle(PathAccounts+"/{name}", http.MethodDelete, s.deleteAccount)
}

func (s *server) listAccounts(w http.ResponseWriter, r *http.Request) error {
	accounts, err := s.Accounts.List(r.Context())
	if err != nil {
		return err
	}
	today, err := s.Library.Meter.Used(r.Context())
	if err != nil {
		return err
	}
	list := AccountList{Accounts: make([]AccountLine, 0, len(accounts))}
	for _, a := range accounts {
		list.Accounts = append(list.Accounts, AccountLine{a, today[a.Name]})
	}
	return answerJSON(w, http.StatusOK, list)
}

func (s *server) createAccount(w http.ResponseWriter, r *http.Request) error {
	var wanted NewAccount
	if err := decode(w, r, &wanted); err != nil {
		return err
	}
	created, password, err := s.Accounts.Create(r.Context(), wanted.Account, wanted.Password)
	switch {
	case errors.Is(err, account.ErrExists):
		return problem.New(http.StatusConflict, "exists", err.Error())
	case errors.Is(err, account.ErrInvalid):
		return problem.New(http.StatusUnprocessableEntity, "account", err.Error())
	case err != nil:
		return err
	}
	w.Header().Set("Location", PathAccounts+"/"+created.Name)
	return answerJSON(w, http.StatusCreated, NewAccount{created, password})
}

// changeAccount changes what the body, a account.Change, names; transfers that run go on under it.
func (s *server) changeAccount(w http.ResponseWriter, r *http.Request) error {
	var change account.Change
	if err := decode(w, r, &change); err != nil {
		return err
	}
	changed, err := s.Accounts.Change(r.Context(), mux.Vars(r)["name"], change)
	switch {
	case errors.Is(err, account.ErrNoAccount):
		return problem.New(http.StatusNotFound, "not_found", err.Error())
	case errors.Is(err, account.ErrInvalid):
		return problem.New(http.StatusUnprocessableEntity, "account", err.Error())
	case err != nil:
		return err
	}
	today, err := s.Library.Meter.Used(r.Context())
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, AccountLine{changed, today[changed.Name]})
}

// decode reads a request's body.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	var refused *problem.Error
	if err := readJSON(w, r, maxAccount, v); errors.As(err, &refused) {
		return refused
	} else if err != nil {
		return problem.New(http.StatusBadRequest, "body", "the body is no account: "+err.Error())
	}
	return nil
}

func (s *server) deleteAccount(w http.ResponseWriter, r *http.Request) error {
	err := s.Accounts.Delete(r.Context(), mux.Vars(r)["name"])
	if errors.Is(err, account.ErrNoAccount) {
		return problem.New(http.StatusNotFound, "not_found", err.Error())
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
