package login

import "testing"

func TestRules(t *testing.T) {
	claims := map[string]any{
		"email": "Alice@example.jp", "email_verified": true, "preferred_username": "Alice", "groups": []any{"readers", "staff"},
		"level": 3.0, "empty": "",
	}
	for name, c := range map[string]struct {
		rule    Rule
		fits    bool
		account string
	}{
		"group":             {Rule{Claim: "groups", Value: "staff", Account: "readers"}, true, "readers"},
		"part of a group":   {Rule{Claim: "groups", Value: "sta", Account: "readers"}, false, ""},
		"both groups":       {Rule{Claim: "groups", Value: "readers staff", Account: "readers"}, false, ""},
		"domain":            {Rule{Claim: "email", Value: "*@example.jp", Account: "{preferred_username}"}, true, "alice"},
		"another domain":    {Rule{Claim: "email", Value: "*@example.com", Account: "x"}, false, ""},
		"dots are dots":     {Rule{Claim: "email", Value: "*@example?jp", Account: "x"}, false, ""},
		"longer domain":     {Rule{Claim: "email", Value: "*@example.j", Account: "x"}, false, ""},
		"number":            {Rule{Claim: "level", Value: "3", Account: "x"}, true, "x"},
		"anybody":           {Rule{Claim: "preferred_username", Value: "*", Account: "{groups}"}, true, "readers"},
		"no such claim":     {Rule{Claim: "department", Value: "*", Account: "x"}, false, ""},
		"empty claim":       {Rule{Claim: "empty", Value: "*", Account: "x"}, false, ""},
		"name of no claim":  {Rule{Claim: "groups", Value: "staff", Account: "{department}"}, true, ""},
		"part of the names": {Rule{Claim: "groups", Value: "staff", Account: "u-{preferred_username}"}, true, "u-alice"},
	} {
		if got := c.rule.fits(claims); got != c.fits {
			t.Errorf("%s: fits: %v", name, got)
			continue
		}
		if account, ok := c.rule.name(claims); c.fits && (ok != (c.account != "") || ok && account != c.account) {
			t.Errorf("%s: account %q, %v", name, account, ok)
		}
	}
	for _, verified := range []any{nil, false, "false", 1.0} {
		claims["email_verified"] = verified
		if (&Rule{Claim: "email", Value: "*", Account: "x"}).fits(claims) {
			t.Errorf("a mail address counts that is verified: %v", verified)
		}
	}
	claims["email_verified"] = "true" // some providers write it as a text
	if !(&Rule{Claim: "email", Value: "*", Account: "x"}).fits(claims) {
		t.Error("a verified address does not count")
	}
}
