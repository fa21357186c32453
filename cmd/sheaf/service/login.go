package service

import (
	"fmt"
	"net/url"

	"sheaf/internal/operators"
	"sheaf/internal/peer"
	"sheaf/internal/settings"
	"sheaf/ui/login"
)

// Login is the settings for logging in with a browser.
type Login struct {
	operators.Settings `mapstructure:",squash"`
	OIDC               login.Provider `mapstructure:"oidc"`
}

func (l *Login) check(is *settings.Checks) {
	l.Settings.Check(is)
	o := &l.OIDC
	if o.Issuer == "" {
		return
	}
	u, err := url.Parse(o.Issuer)
	is.Require(err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && peer.IsLoopback(u.Hostname())), "login.oidc.issuer", o.Issuer,
		"want the https URL of an OpenID provider")
	is.Require(o.ClientID != "", "login.oidc.client_id", o.ClientID, "is needed with login.oidc.issuer")
	is.Require(o.ClientSecret == "" || o.ClientSecretFile == "", "login.oidc.client_secret_file", o.ClientSecretFile, "give login.oidc.client_secret or this")
	is.Require(len(o.Rules) > 0, "login.oidc.rules", "", "want rules that say who is who, such as {claim: email, value: \"*@example.jp\", account: readers}")
	for i, r := range o.Rules {
		wrong := r.Check()
		is.Require(wrong == "", fmt.Sprintf("login.oidc.rules[%d]", i), fmt.Sprintf("%s=%s", r.Claim, r.Value), wrong)
	}
}

// provider returns the OpenID provider of the settings, or nil if they name no provider. base is
// the service's URL.
func (l *Login) provider(base string) (*login.OIDC, error) {
	p := l.OIDC
	if p.Issuer == "" {
		return nil, nil
	}
	if err := settings.ReadSecret("login.oidc.client_secret_file", p.ClientSecretFile, &p.ClientSecret); err != nil {
		return nil, err
	}
	return &login.OIDC{Provider: p, Base: base}, nil
}
