package accounts

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/serve/access"
)

// Operations of operators on access rules.
var (
	ListRules  = route.New[route.None, access.RuleList]("GET", api.PathAdminAccess, operators.Viewer, audit.None, "The rules in force that say who may see what of the archive, oldest first")
	AddRule    = route.New[access.Rule, access.Rule]("POST", api.PathAdminAccess, operators.Worker, audit.Add, "Add a rule").Answering(http.StatusCreated, "")
	RemoveRule = route.New[string, route.None]("DELETE", api.PathAdminAccess+"/{id}", operators.Worker, audit.Remove, "Remove a rule; what only it hid is visible again")
)

func (h *Handler) registerRules(mount route.Mount) {
	ListRules.On(mount, func(ctx context.Context, _ route.None) (access.RuleList, error) {
		rules, err := h.Rules.List(ctx)
		return access.RuleList{Rules: rules}, err
	})
	AddRule.On(mount, h.addRule)
	RemoveRule.On(mount, route.Done(h.removeRule))
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

func (h *Handler) addRule(ctx context.Context, wanted access.Rule) (access.Rule, error) {
	wanted.By = operators.By(ctx, wanted.By)
	made, err := h.Rules.Add(ctx, wanted)
	if err == nil {
		id := strconv.FormatInt(made.ID, 10)
		audit.Note(ctx, audit.Row{Object: "access rule " + id + " on " + made.Names(), Reason: made.Reason})
		route.Header(ctx).Set("Location", api.PathAdminAccess+"/"+id)
	}
	return made, err
}

func (h *Handler) removeRule(ctx context.Context, rule string) error {
	audit.About(ctx, "access rule", rule)
	id, err := strconv.ParseInt(rule, 10, 64)
	if err != nil {
		return access.ErrNoRule
	}
	return h.Rules.Remove(ctx, id)
}
