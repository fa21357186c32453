package login

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sheaf/internal/operators"
)

// Rule maps people to accounts or operators: whoever has a claim with the value is this account, or
// this operator with the role.
type Rule struct {
	Claim string `mapstructure:"claim"` // such as email, groups or preferred_username
	Value string `mapstructure:"value"` // the claim's value, or one of its values; * stands for any text, as in *@example.jp

	Account string `mapstructure:"account"` // name of the account, in which {preferred_username} stands for a claim

	Operator string         `mapstructure:"operator"` // name of the operator, instead of Account
	Role     operators.Role `mapstructure:"role"`     // the operator's
}

// Check returns what is wrong with a rule, or "".
func (r *Rule) Check() string {
	switch {
	case r.Claim == "" || r.Value == "":
		return "want a claim and a value; * is any value"
	case (r.Account == "") == (r.Operator == ""):
		return "want the name of an account or of an operator"
	case r.Account != "" && r.Role != "":
		return "accounts have no roles; give operator instead of account"
	case r.Operator != "" && !slices.Contains(operators.Roles(), r.Role):
		return "want the role viewer, operator or admin"
	case r.Operator != "" && !placeholder.MatchString(r.Operator):
		return "each operator has a name of their own: want a claim in it, such as {preferred_username}"
	}
	return ""
}

// placeholder matches a claim in the name of an account or operator.
var placeholder = regexp.MustCompile(`\{([A-Za-z0-9_]+)\}`)

// values returns a claim's texts. A mail address that the provider has not verified is left out,
// because anybody could have entered it.
func values(claims map[string]any, claim string) (list []string) {
	if claim == "email" && fmt.Sprint(claims["email_verified"]) != "true" {
		return nil
	}
	switch v := claims[claim].(type) {
	case nil:
	case []any:
		for _, one := range v {
			list = append(list, fmt.Sprint(one))
		}
	default:
		list = append(list, fmt.Sprint(v))
	}
	return list
}

// first returns the first text of a claim, or "".
func first(claims map[string]any, claim string) string {
	if list := values(claims, claim); len(list) > 0 {
		return list[0]
	}
	return ""
}

// fits reports whether the rule fits somebody with these claims.
func (r *Rule) fits(claims map[string]any) bool {
	pattern := regexp.MustCompile(`^(?s:` + strings.ReplaceAll(regexp.QuoteMeta(r.Value), `\*`, `.*`) + `)$`)
	for _, v := range values(claims, r.Claim) {
		if v != "" && pattern.MatchString(v) {
			return true
		}
	}
	return false
}

// name returns the name of the account or operator; ok is false if a claim in it is missing.
func (r *Rule) name(claims map[string]any) (name string, ok bool) {
	ok = true
	name = placeholder.ReplaceAllStringFunc(cmp.Or(r.Account, r.Operator), func(p string) string {
		v := strings.ToLower(first(claims, strings.Trim(p, "{}")))
		ok = ok && v != ""
		return v
	})
	return name, ok
}
