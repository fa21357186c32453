package login

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sheaf/internal/operators"
)

// Rule says who is who: whoever has a claim with a value is an account, or an operator with a role.
type Rule struct {
	Claim string `mapstructure:"claim"` // such as email, groups or preferred_username
	Value string `mapstructure:"value"` // of it, or of one of its values; * stands for any text, as in *@example.jp

	Account string `mapstructure:"account"` // its name, in which {preferred_username} stands for a claim

	Operator string         `mapstructure:"operator"` // likewise; instead of an account
	Role     operators.Role `mapstructure:"role"`     // the operator's
}

// Check returns what is wrong with a rule; "" if nothing is.
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

// placeholder is a claim in a rule's name of an account or operator.
var placeholder = regexp.MustCompile(`\{([A-Za-z0-9_]+)\}`)

// values returns the texts that a claim has. A mail address that the provider has not verified
// counts as none: anybody could have entered it.
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

// first returns the first text of a claim; "" if it has none.
func first(claims map[string]any, claim string) string {
	if list := values(claims, claim); len(list) > 0 {
		return list[0]
	}
	return ""
}

// fits reports whether somebody with these claims is meant.
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
