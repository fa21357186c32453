package httpd

import (
	"context"
	"net/http"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
)

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
