package login

import (
	"fmt"
	"regexp"
	"strings"
)

// Rule says who is who: whoever has a claim with a value is an account.
type Rule struct {
	Claim string `mapstructure:"claim"` // such as email, groups or preferred_username
	Value string `mapstructure:"value"` // of it, or of one of its values; * stands for any text, as in *@example.jp

	Account string `mapstructure:"account"` // its name, in which {preferred_username} stands for a claim
}

// placeholder is a claim in the name of a rule's account.
var placeholder = regexp.MustCompile(`\{([A-Za-z0-9_]+)\}`)

// values returns the texts that a claim has. A mail address that the provider has not verified counts
// as none: anybody could have entered it.
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

// account returns the name of the account; ok is false if a claim in it is missing.
func (r *Rule) account(claims map[string]any) (name string, ok bool) {
	ok = true
	name = placeholder.ReplaceAllStringFunc(r.Account, func(p string) string {
		v := strings.ToLower(first(claims, strings.Trim(p, "{}")))
		ok = ok && v != ""
		return v
	})
	return name, ok
}
