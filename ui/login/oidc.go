package login

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/session"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
)

// Provider is the settings of an OpenID provider.
type Provider struct {
	Issuer           string   `mapstructure:"issuer"` // URL; empty: there is none
	ClientID         string   `mapstructure:"client_id"`
	ClientSecret     string   `mapstructure:"client_secret" secret:"yes"`
	ClientSecretFile string   `mapstructure:"client_secret_file"`
	Label            string   `mapstructure:"label"`  // text of the link on the log-in page
	Scopes           []string `mapstructure:"scopes"` // in addition to openid
	Rules            []Rule   `mapstructure:"rules"`  // say which account or operator a person is; the first that fits decides
}

// OIDC lets people log in with an OpenID provider (OpenID Connect Core 1.0): by the code flow, with
// PKCE (RFC 7636). Rules say which account or operator a person is. Its methods may be called from
// many goroutines at once.
type OIDC struct {
	Provider
	Base string // the service's URL, without a slash at the end

	mu       sync.Mutex // guards provider
	provider *oidc.Provider
}

const (
	pathOIDC     = session.PathLogin + "/oidc"
	pathCallback = pathOIDC + "/callback"

	// flightCookie is the cookie that the browser must send together with the provider's answer.
	flightCookie = "sheaf_oidc"
	flightLife   = 10 * time.Minute

	// providerPatience bounds each request to the provider.
	providerPatience = 10 * time.Second
)

// client returns a context for requests to the provider.
func client(ctx context.Context) context.Context {
	c := *http.DefaultClient
	c.Timeout = providerPatience
	return oidc.ClientContext(ctx, &c)
}

// discover returns the provider's description. It asks the provider until it has answered once.
func (o *OIDC) discover() (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider == nil {
		p, err := oidc.NewProvider(client(context.Background()), o.Issuer) // the provider keeps the context for later requests
		if err != nil {
			return nil, fmt.Errorf("OpenID provider %s: %w", o.Issuer, err)
		}
		o.provider = p
	}
	return o.provider, nil
}

func (o *OIDC) config(p *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.ClientID, ClientSecret: o.ClientSecret, Endpoint: p.Endpoint(), RedirectURL: o.Base + pathCallback,
		Scopes: append([]string{oidc.ScopeOpenID}, o.Scopes...),
	}
}

// Name returns the text of the link on the log-in page.
func (o *OIDC) Name() string {
	if u, err := url.Parse(o.Issuer); err == nil {
		return cmp.Or(o.Label, u.Host)
	}
	return cmp.Or(o.Label, o.Issuer)
}

// startOIDC sends the browser to the provider, with a cookie that finishOIDC checks.
func (p *pages) startOIDC(w http.ResponseWriter, r *http.Request) error {
	provider, err := p.OIDC.discover()
	if err != nil {
		return p.providerFailed(r, err)
	}
	flight := url.Values{"state": {rand.Text()}, "nonce": {rand.Text()}, "verifier": {oauth2.GenerateVerifier()}, "next": {webpage.LocalPath(r.URL.Query().Get("next"))}}
	c := p.Sessions.Cookie(r, flightCookie, flight.Encode())
	c.MaxAge = int(flightLife.Seconds())
	http.SetCookie(w, c)
	return webpage.SeeOther(w, p.OIDC.config(provider).AuthCodeURL(flight.Get("state"), oidc.Nonce(flight.Get("nonce")), oauth2.S256ChallengeOption(flight.Get("verifier"))))
}

// finishOIDC checks the provider's answer, and begins a session.
func (p *pages) finishOIDC(w http.ResponseWriter, r *http.Request) error {
	var flight url.Values
	if c, err := r.Cookie(p.Sessions.CookieName(r, flightCookie)); err == nil {
		flight, _ = url.ParseQuery(c.Value) // if it fails, flight has no state
	}
	http.SetCookie(w, p.Sessions.Cookie(r, flightCookie, ""))
	q := r.URL.Query()
	state := flight.Get("state")
	if state == "" || subtle.ConstantTimeCompare([]byte(state), []byte(q.Get("state"))) != 1 {
		return problem.New(http.StatusBadRequest, "login_state", "this log-in did not begin in this browser, or took too long; begin again at "+session.PathLogin)
	}
	page := loginPage{Next: webpage.LocalPath(flight.Get("next"))}
	if q.Get("error") != "" { // the provider, or the person there, has refused
		page.Refused = true
		return p.show(w, r, http.StatusForbidden, page)
	}
	claims, err := p.OIDC.claims(client(r.Context()), q.Get("code"), flight)
	if err != nil {
		return p.providerFailed(r, err)
	}
	sub, _ := claims["sub"].(string)
	audit.Note(r.Context(), audit.Row{Kind: audit.Visitor, Name: cmp.Or(first(claims, "preferred_username"), sub), Object: "session by OpenID provider"})
	if err := audit.Begin(r.Context()); err != nil {
		return err
	}
	all, err := p.whoBy(r.Context(), claims)
	if err != nil {
		audit.Note(r.Context(), audit.Row{Reason: err.Error()})
	}
	switch {
	case errors.Is(err, account.ErrSuspended):
		page.Suspended = true
		return p.show(w, r, http.StatusForbidden, page)
	case errors.Is(err, account.ErrNoAccount):
		p.Log.InfoContext(r.Context(), "nobody here is who has logged in at the OpenID provider", "issuer", p.OIDC.Issuer, "sub", claims["sub"], "remote", r.RemoteAddr, "err", err)
		page.Unknown = true
		return p.show(w, r, http.StatusForbidden, page)
	case err != nil:
		return err
	}
	return p.begin(w, r, page.Next, all...)
}

// providerFailed returns the answer if the provider does not work, or sends a wrong answer.
func (p *pages) providerFailed(r *http.Request, err error) error {
	p.Log.WarnContext(r.Context(), "log-in by the OpenID provider failed", "issuer", p.OIDC.Issuer, "remote", r.RemoteAddr, "err", err)
	return problem.New(http.StatusBadGateway, "login_provider", "the OpenID provider does not answer as it should; the service's log says why. Try again, or log in with a password")
}

// claims exchanges a code for the provider's claims about the person. They come from the ID token,
// whose signature, issuer, audience, time and nonce are checked, and from the UserInfo endpoint.
func (o *OIDC) claims(ctx context.Context, code string, flight url.Values) (map[string]any, error) {
	provider, err := o.discover()
	if err != nil {
		return nil, err
	}
	token, err := o.config(provider).Exchange(ctx, code, oauth2.VerifierOption(flight.Get("verifier")))
	if err != nil {
		return nil, err
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return nil, errors.New("the answer has no ID token")
	}
	id, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: o.ClientID}).Verify(ctx, raw)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(flight.Get("nonce"))) != 1 {
		return nil, errors.New("the ID token was made for another log-in")
	}
	claims := make(map[string]any)
	if err := id.Claims(&claims); err != nil {
		return nil, err
	}
	if provider.UserInfoEndpoint() == "" {
		return claims, nil
	}
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, err
	}
	if info.Subject != id.Subject { // OpenID Connect Core, 5.3.2
		return nil, errors.New("the UserInfo endpoint speaks of another person than the ID token")
	}
	more := make(map[string]any)
	if err := info.Claims(&more); err != nil {
		return nil, err
	}
	maps.Copy(more, claims) // signed claims take precedence
	return more, nil
}

// whoBy returns the account and the operator that match these claims: for each, the first rule that
// fits decides. If no rule gives an operator a role any more, whoBy removes the operator. It fails
// with account.ErrNoAccount if neither matches, and with account.ErrSuspended.
func (p *pages) whoBy(ctx context.Context, claims map[string]any) (all []session.Who, err error) {
	o, err := p.operatorBy(ctx, claims)
	if err != nil && !errors.Is(err, account.ErrNoAccount) {
		return nil, err
	}
	if o.Name != "" {
		all = append(all, o)
	}
	rule, name := p.OIDC.rule(claims, func(r *Rule) bool { return r.Account != "" && p.Accounts != nil })
	if rule == nil {
		if len(all) == 0 {
			return nil, cmp.Or(err, fmt.Errorf("%w: no rule fits", account.ErrNoAccount))
		}
		return all, nil
	}
	a, mark, err := p.Accounts.Admit(ctx, name)
	switch {
	case errors.Is(err, account.ErrNoAccount) && len(all) > 0:
		return all, nil
	case err != nil:
		return nil, err
	}
	return append(all, session.Who{Kind: session.Account, Name: a.Name, Mark: mark}), nil
}

// rule returns the first rule of a kind that fits, and the name that it gives; nil if no rule fits.
func (o *OIDC) rule(claims map[string]any, kind func(*Rule) bool) (rule *Rule, name string) {
	for i := range o.Rules {
		r := &o.Rules[i]
		if !kind(r) || !r.fits(claims) {
			continue
		}
		if name, ok := r.name(claims); ok {
			return r, name
		}
	}
	return nil, ""
}

// operatorBy returns the operator that matches these claims; its name is "" if no rule fits. It
// fails with account.ErrNoAccount, which gives the reason, and with account.ErrSuspended.
func (p *pages) operatorBy(ctx context.Context, claims map[string]any) (session.Who, error) {
	sub, _ := claims["sub"].(string)
	if sub == "" {
		return session.Who{}, fmt.Errorf("%w: the provider does not say which person it is", account.ErrNoAccount)
	}
	subject := p.OIDC.Issuer + " " + sub
	rule, name := p.OIDC.rule(claims, func(r *Rule) bool { return r.Operator != "" })
	if rule == nil {
		ended, err := p.Operators.Dismiss(ctx, subject)
		if ended {
			const why = "no rule gives a role any more"
			audit.Note(ctx, audit.Row{Reason: why})
			err = fmt.Errorf("%w: %s", account.ErrNoAccount, why)
		}
		return session.Who{}, err
	}
	o, mark, err := p.Operators.Admit(ctx, subject, name, rule.Role)
	switch {
	case errors.Is(err, operators.ErrSuspended):
		return session.Who{}, fmt.Errorf("%w: %w", account.ErrSuspended, err)
	case errors.Is(err, operators.ErrInvalid), errors.Is(err, operators.ErrTaken):
		return session.Who{}, fmt.Errorf("%w: %w", account.ErrNoAccount, err)
	case err != nil:
		return session.Who{}, err
	}
	audit.Note(ctx, audit.Row{Reason: "role " + string(rule.Role)})
	return session.Who{Kind: session.Operator, Name: o.Name, Mark: mark}, nil
}

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
