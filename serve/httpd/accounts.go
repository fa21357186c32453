package httpd

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/mailer"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/session"
	"sheaf/internal/webpage"
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

// Operations of operators on access rules.
var (
	ListRules  = route.New[route.None, account.RuleList]("GET", api.PathAdminAccess, operators.Viewer, audit.None, "The rules in force that say who may see what of the archive, oldest first")
	AddRule    = route.New[account.Rule, account.Rule]("POST", api.PathAdminAccess, operators.Worker, audit.Add, "Add a rule").Answering(http.StatusCreated, "")
	RemoveRule = route.New[string, route.None]("DELETE", api.PathAdminAccess+"/{id}", operators.Worker, audit.Remove, "Remove a rule; what only it hid is visible again")
)

func (h *AccountsHandler) registerRules(mount route.Mount) {
	ListRules.On(mount, h.ListRules)
	AddRule.On(mount, h.AddRule)
	RemoveRule.On(mount, route.Done(h.RemoveRule))
}

// ListRules returns the rules in force, the oldest first.
func (h *AccountsHandler) ListRules(ctx context.Context, _ route.None) (account.RuleList, error) {
	rules, err := h.Rules.List(ctx)
	return account.RuleList{Rules: rules}, err
}

// AddRule adds a rule. It holds at once in this process, and within seconds in others.
func (h *AccountsHandler) AddRule(ctx context.Context, wanted account.Rule) (account.Rule, error) {
	wanted.By = operators.By(ctx, wanted.By)
	made, err := h.Rules.Add(ctx, wanted)
	if err == nil {
		id := strconv.FormatInt(made.ID, 10)
		audit.Note(ctx, audit.Row{Object: "access rule " + id + " on " + made.Names(), Reason: made.Reason})
		route.Header(ctx).Set("Location", api.PathAdminAccess+"/"+id)
	}
	return made, err
}

// RemoveRule ends the rule with an ID. It fails with account.ErrNoRule, also if the ID is no
// number.
func (h *AccountsHandler) RemoveRule(ctx context.Context, rule string) error {
	audit.About(ctx, "access rule", rule)
	id, err := strconv.ParseInt(rule, 10, 64)
	if err != nil {
		return account.ErrNoRule
	}
	return h.Rules.Remove(ctx, id)
}

const (
	tokensOf = oneAccount + "/tokens"

	listTokens  = "The account's tokens, oldest first"
	makeToken   = "Make a token, which programs give instead of the password; the answer alone shows it"
	revokeToken = "Revoke a token; what is under way with it ends"
)

// TokenOf names a token of an account.
type TokenOf struct {
	Account string `path:"name"`
	ID      string `path:"id" doc:"of a token"`
}

// Operations on tokens: operators' on all, and accounts' on their own.
var (
	ListTokens  = route.New[string, account.TokenList]("GET", tokensOf, operators.Viewer, audit.None, listTokens)
	MakeToken   = route.New[route.At[account.NewToken], account.NewToken]("POST", tokensOf, operators.Worker, audit.Add, makeToken).Answering(http.StatusCreated, "")
	RevokeToken = route.New[TokenOf, route.None]("DELETE", tokensOf+"/{id}", operators.Worker, audit.Remove, revokeToken)

	listOwn   = route.New[route.None, account.TokenList]("GET", api.PathTokens, route.Account, audit.None, listTokens)
	makeOwn   = route.New[account.NewToken, account.NewToken]("POST", api.PathTokens, route.Account, audit.None, makeToken).Answering(http.StatusCreated, "")
	revokeOwn = route.New[string, route.None]("DELETE", api.PathTokens+"/{id}", route.Account, audit.None, revokeToken)
)

func (h *AccountsHandler) registerTokens(operators, owners route.Mount) {
	ListTokens.On(operators, h.Tokens)
	MakeToken.On(operators, func(ctx context.Context, in route.At[account.NewToken]) (account.NewToken, error) {
		return h.makeToken(ctx, in.Name, in.Body)
	})
	RevokeToken.On(operators, route.Done(h.Revoke))
	listOwn.On(owners, func(ctx context.Context, _ route.None) (account.TokenList, error) {
		return h.Tokens(ctx, guard.Account(ctx).Name)
	})
	makeOwn.On(owners, func(ctx context.Context, in account.NewToken) (account.NewToken, error) {
		return h.makeToken(ctx, guard.Account(ctx).Name, in)
	})
	revokeOwn.On(owners, func(ctx context.Context, id string) (route.None, error) {
		return route.None{}, h.Revoke(ctx, TokenOf{guard.Account(ctx).Name, id})
	})
}

// Tokens returns the tokens of an account, the oldest first.
func (h *AccountsHandler) Tokens(ctx context.Context, name string) (list account.TokenList, err error) {
	if _, err := h.Accounts.Account(ctx, name); err != nil {
		return list, err
	}
	list.Tokens, err = h.Accounts.Tokens(ctx, name)
	return list, err
}

func (h *AccountsHandler) makeToken(ctx context.Context, name string, wanted account.NewToken) (account.NewToken, error) {
	audit.About(ctx, "token of account", name)
	made, secret, err := h.Accounts.CreateToken(ctx, name, wanted.Token)
	if err == nil {
		route.Header(ctx).Set("Location", route.Request(ctx).URL.Path+"/"+made.ID)
	}
	return account.NewToken{Token: made, Secret: secret}, err
}

// Revoke deletes a token. The sessions and downloads that began with it end.
func (h *AccountsHandler) Revoke(ctx context.Context, of TokenOf) error {
	audit.About(ctx, "token "+of.ID+" of account", of.Account)
	return h.Accounts.RevokeToken(ctx, of.Account, of.ID)
}

// Resets mails links by which accounts' owners choose new passwords. All fields but Mails are
// needed.
type Resets struct {
	Site     *webpage.Site
	Accounts *account.Accounts
	Mails    *mailer.Outbox // nil: none are sent
	Base     string         // the service's URL in mails, without a slash at the end
}

// SendReset is the operation by which operators mail an account's owner a link for a new password.
var SendReset = route.New[string, route.None](http.MethodPost, oneAccount+"/reset", operators.Worker, audit.Change, "Mail the owner of an account a link by which the password is set anew").
	Answering(http.StatusNoContent, "The mail is under way").Also(http.StatusConflict, route.Problem, "The account has no mail address, is suspended or was sent a link just now, or the service sends no mails")

// Sends reports whether this service sends mails. x may be nil.
func (x *Resets) Sends() bool { return x != nil && x.Mails != nil && x.Mails.Sends() }

// SendReset mails the owner of an account a link for a new password, or fails with a problem that
// says why it cannot.
func (h *AccountsHandler) SendReset(ctx context.Context, name string) error {
	x := h.Resets
	audit.Note(ctx, audit.Row{Object: "account " + name, Reason: "sent a link by mail to set the password anew"})
	a, err := h.Accounts.Account(ctx, name)
	if err != nil {
		return err
	}
	no := func(reason, why string) error { return problem.New(http.StatusConflict, reason, why) }
	switch {
	case !x.Sends():
		return no("no_mails", "this service sends no mails; watch.mail.server names the server for them")
	case a.Email == "":
		return no("no_address", "account "+name+" has no mail address")
	case a.Suspended:
		return no("suspended", "account "+name+" is suspended")
	}
	sent, err := x.Mail(ctx, x.Site.For(route.Request(ctx)), name)
	if err == nil && !sent {
		err = no("sent_before", "account "+name+" was sent a link a few minutes ago")
	}
	return err
}

// Mail mails an account's owner a link for a new password, in the language of a page. sent is false
// if the account cannot be sent a link now.
func (x *Resets) Mail(ctx context.Context, page webpage.Page, name string) (sent bool, err error) {
	err = x.Accounts.BeginReset(ctx, name, func(ctx context.Context, tx *sql.Tx, to, secret string) error {
		sent = true
		return x.Mails.Add(ctx, tx, mailer.Letter{
			To: to, Subject: page.T("Your password at %s", page.SiteName()),
			Text: page.T("Somebody, most likely you, wants to set the password of the account %s anew. Open this link within an hour:", name) +
				"\n\n  " + x.Base + session.PathReset + "/" + secret + "\n\n" + page.T("If you do not want that, do nothing: the password stays as it is.") + "\n",
		})
	})
	if err == nil {
		x.Mails.Hurry()
	}
	return sent, err
}
