package httpd

import (
	"context"
	"net/http"
	"strconv"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/route"
	"sheaf/serve/account"
)

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
