package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
)

// AccountsHandler serves operations on accounts, their tokens and access rules.
type AccountsHandler struct {
	Accounts *account.Accounts
	Meter    *account.Meter
	Rules    *account.Rules // nil: there are none
	Resets   *Resets        // nil: no links for new passwords are mailed
}

const oneAccount = api.PathAdminAccounts + "/{name}"

// Operations of operators on accounts.
var (
	ListAccounts  = route.New[route.None, account.AccountList]("GET", api.PathAdminAccounts, operators.Viewer, audit.None, "All accounts")
	CreateAccount = route.New[account.NewAccount, account.NewAccount]("POST", api.PathAdminAccounts, operators.Worker, audit.Add, "Make an account").Answering(http.StatusCreated, "")
	ChangeAccount = route.New[route.At[account.Change], account.AccountLine]("PATCH", oneAccount, operators.Worker, audit.Change, "Change an account")
	DeleteAccount = route.New[string, route.None]("DELETE", oneAccount, operators.Admin, audit.Remove, "Take an account away")
)

// Register mounts the operations. Those on access rules need Rules.
func (h *AccountsHandler) Register(r *mux.Router, g *guard.Guard) {
	h.register(g.Operators(r, Explain), g.Consumers(r, g.Owner, Explain))
	if h.Rules != nil {
		h.registerRules(g.Operators(r, Explain))
	}
}

func (h *AccountsHandler) register(operators, owners route.Mount) {
	ListAccounts.On(operators, h.List)
	CreateAccount.On(operators, h.Create)
	ChangeAccount.On(operators, h.Change)
	DeleteAccount.On(operators, route.Done(h.Delete))
	SendReset.On(operators, route.Done(h.SendReset))
	h.registerTokens(operators, owners)
}

// Explain turns an error of AccountsHandler into the problem to answer. It returns other errors as
// they are.
func Explain(err error) error {
	switch {
	case errors.Is(err, account.ErrExists):
		return problem.New(http.StatusConflict, "exists", err.Error())
	case errors.Is(err, account.ErrManyTokens):
		return problem.New(http.StatusConflict, "too_many_tokens", err.Error())
	case errors.Is(err, account.ErrNoAccount), errors.Is(err, account.ErrNoToken), errors.Is(err, account.ErrNoRule):
		return problem.New(http.StatusNotFound, "not_found", err.Error())
	case errors.Is(err, account.ErrInvalid):
		return problem.New(http.StatusUnprocessableEntity, "account", err.Error())
	case errors.Is(err, account.ErrInvalidRules):
		return problem.New(http.StatusUnprocessableEntity, "access_rule", err.Error())
	}
	return err
}

// List returns all accounts, each with the bytes that it has fetched today.
func (h *AccountsHandler) List(ctx context.Context, _ route.None) (list account.AccountList, err error) {
	accounts, err := h.Accounts.List(ctx)
	if err != nil {
		return list, err
	}
	today, err := h.Meter.Used(ctx)
	list.Accounts = make([]account.AccountLine, 0, len(accounts))
	for _, a := range accounts {
		list.Accounts = append(list.Accounts, account.AccountLine{Account: a, Today: today[a.Name]})
	}
	return list, err
}

// Create makes an account and returns it with its password.
func (h *AccountsHandler) Create(ctx context.Context, wanted account.NewAccount) (account.NewAccount, error) {
	audit.About(ctx, "account", wanted.Name)
	created, password, err := h.Accounts.Create(ctx, wanted.Account, wanted.Password)
	if err != nil {
		return account.NewAccount{}, err
	}
	route.Header(ctx).Set("Location", api.PathAdminAccounts+"/"+created.Name)
	return account.NewAccount{Account: created, Password: password}, nil
}

// Change sets the fields that the body has. Running transfers continue under the new limits.
func (h *AccountsHandler) Change(ctx context.Context, in route.At[account.Change]) (account.AccountLine, error) {
	audit.Note(ctx, audit.Row{Object: "account " + in.Name, Reason: changed(in.Body)})
	changed, err := h.Accounts.Change(ctx, in.Name, in.Body)
	if err != nil {
		return account.AccountLine{}, err
	}
	today, err := h.Meter.Used(ctx)
	return account.AccountLine{Account: changed, Today: today[changed.Name]}, err
}

// changed writes a change as text for the audit log, without the password and the mail address.
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

// Delete deletes an account. Its sessions and downloads end.
func (h *AccountsHandler) Delete(ctx context.Context, name string) error {
	audit.About(ctx, "account", name)
	return h.Accounts.Delete(ctx, name)
}
