package service

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"sheaf/internal/passwords"
	"sheaf/internal/peer"
	"sheaf/internal/settings"
	"sheaf/ui/login"
)

// Login is the settings for logging in with a browser.
type Login struct {
	Idle time.Duration `mapstructure:"idle" want:"at least 1m"` // a session ends after this time without use
	Life time.Duration `mapstructure:"life"`                    // every session ends after this time
	OIDC OIDC          `mapstructure:"oidc"`

	Passwords passwords.Cost `mapstructure:"-"` // for new passwords; only tests choose another
}

// OIDC is the settings of an OpenID provider.
type OIDC struct {
	Issuer           string       `mapstructure:"issuer"` // URL; empty: there is none
	ClientID         string       `mapstructure:"client_id"`
	ClientSecret     string       `mapstructure:"client_secret" secret:"yes"`
	ClientSecretFile string       `mapstructure:"client_secret_file"`
	Label            string       `mapstructure:"label"`  // text of the link on the log-in page
	Scopes           []string     `mapstructure:"scopes"` // in addition to openid
	Rules            []login.Rule `mapstructure:"rules"`  // say which account or operator a person is; the first that fits decides
}

func (l *Login) check(is *settings.Checks) {
	is.Require(l.Life >= l.Idle, "login.life", l.Life, "want at least login.idle")
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
func (o *OIDC) provider(base string) (*login.OIDC, error) {
	if o.Issuer == "" {
		return nil, nil
	}
	secret := o.ClientSecret
	if o.ClientSecretFile != "" {
		text, err := os.ReadFile(o.ClientSecretFile)
		if err != nil {
			return nil, fmt.Errorf("settings: login.oidc.client_secret_file: %w", err)
		}
		secret = strings.TrimSpace(string(text))
	}
	return &login.OIDC{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: secret, Label: o.Label, Scopes: o.Scopes,
		Rules: o.Rules, Base: base,
	}, nil
}
