package service

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/ui/login"
)

// person is what the provider of test/oidc knows of somebody.
type person struct {
	ID, Username, Password, FirstName, LastName, Email string
	EmailVerified                                      bool
}

// oidcSite is a running service beside a running OpenID provider.
type oidcSite struct {
	*Service
	base     string
	accounts *account.Accounts
	provider *testkit.Process
}

func newOIDCSite(t *testing.T, rules ...login.Rule) *oidcSite {
	t.Helper()
	at := testkit.Addresses(t, 2)
	base, issuer := "http://"+at[0], "http://"+at[1]+"/"
	people := map[string]person{}
	for _, p := range []person{
		{ID: "1", Username: "alice", Email: "alice@example.jp", EmailVerified: true},
		{ID: "2", Username: "mallory", Email: "alice@example.jp"},
		{ID: "3", Username: "stranger", Email: "stranger@example.com", EmailVerified: true},
		{ID: "4", Username: "olga", Email: "olga@ops.example.jp", EmailVerified: true},
	} {
		p.Password = "at the provider"
		people[p.ID] = p
	}
	text, err := json.Marshal(people)
	testkit.Must(t, err)
	users := filepath.Join(t.TempDir(), "users.json")
	testkit.Must(t, os.WriteFile(users, text, 0o600))
	site := &oidcSite{base: base}
	site.provider = testkit.Start(t, "", exec.Command(testkit.BuildModule(t, "test/oidc"), at[1], base+"/login/oidc/callback", users))
	site.provider.Ready(t, func() error {
		resp, err := http.Get(issuer + ".well-known/openid-configuration")
		if err == nil {
			resp.Body.Close()
		}
		return err
	})
	cfg, err := Load("", map[string]any{
		"data": t.TempDir(), "http.listen": at[0], "http.public": base, "download.listen": "", "drop.listen": "",
		"login.oidc.issuer": issuer, "login.oidc.client_id": "web", "login.oidc.client_secret": "secret", "login.oidc.label": "Example",
	})
	cfg.Login.OIDC.Rules = rules
	if err != nil && !strings.Contains(err.Error(), "login.oidc.rules") {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	site.Service, err = New(ctx, cfg, slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- site.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		testkit.Must(t, testkit.Receive(t, "the service's end", ended))
	})
	site.accounts = addAccount(t, site.Service, "alice", "secret")
	return site
}

// visitor is a browser.
type visitor struct {
	*testing.T
	*http.Client
}

func newVisitor(t *testing.T) visitor {
	jar, err := cookiejar.New(nil)
	testkit.Must(t, err)
	return visitor{t, &http.Client{Jar: jar, Timeout: 20 * time.Second}}
}

// read sends a request as a browser does and follows redirects. It returns where that ends.
func (v visitor) read(method, address string, form url.Values) (at *url.URL, status int, page string) {
	v.Helper()
	r, err := http.NewRequestWithContext(v.Context(), method, address, strings.NewReader(form.Encode()))
	testkit.Must(v, err)
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := v.Do(r)
	testkit.Must(v, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testkit.Must(v, err)
	return resp.Request.URL, resp.StatusCode, string(text)
}

// logIn begins at a page of the service and fills in the provider's form.
func (v visitor) logIn(site *oidcSite, path, username string) (at *url.URL, status int, page string) {
	v.Helper()
	at, status, page = v.read(http.MethodGet, site.base+"/login/oidc?next="+url.QueryEscape(path), nil)
	id := regexp.MustCompile(`name="id" value="([^"]+)"`).FindStringSubmatch(page)
	if id == nil {
		v.Fatalf("%v %d has no form: %s", at, status, page)
	}
	return v.read(http.MethodPost, "http://"+at.Host+"/login/username", url.Values{"id": {id[1]}, "username": {username}, "password": {"at the provider"}})
}

// People log in at a provider, and the rules say which account they are. Nobody is let in for a mail
// address that the provider has not verified, and nobody without a rule, an account, or while the
// account is suspended.
func TestOIDC(t *testing.T) {
	site := newOIDCSite(t, login.Rule{Claim: "email", Value: "*@example.jp", Account: "{preferred_username}"})
	v := newVisitor(t)
	_, _, page := v.read(http.MethodGet, site.base+"/login?next=/account", nil)
	if !strings.Contains(page, "Log in with Example") || !strings.Contains(page, `href="/login/oidc?next=%2Faccount"`) {
		t.Errorf("%s", page)
	}
	at, status, page := v.logIn(site, "/account?x=1", "alice")
	if status != http.StatusOK || at.RequestURI() != "/account?x=1" || !strings.Contains(page, "Your account: alice") {
		t.Fatalf("%v %d %s", at, status, page)
	}
	for _, c := range v.Jar.Cookies(at) {
		if c.Name == "sheaf_oidc" {
			t.Error("the cookie of the log-in under way is left")
		}
	}
	for _, username := range []string{"mallory", "stranger"} {
		at, status, page := newVisitor(t).logIn(site, "/account", username)
		if status != http.StatusForbidden || !strings.Contains(page, "there is no account for you here") {
			t.Errorf("%s: %v %d %s", username, at, status, page)
		}
	}
	_, err := site.accounts.Change(t.Context(), "alice", account.Change{Suspended: new(true)})
	testkit.Must(t, err)
	if _, status, page := newVisitor(t).logIn(site, "/account", "alice"); status != http.StatusForbidden || !strings.Contains(page, "suspended") {
		t.Errorf("suspended: %d %s", status, page)
	}
	if at, _, _ := v.read(http.MethodGet, site.base+"/account", nil); at.Path != "/login" {
		t.Errorf("a session goes on while the account is suspended: %v", at)
	}
}

// The provider's answer counts only in the browser that asked, once, and with what the service had
// sent along.
func TestOIDCAnswersOfOthers(t *testing.T) {
	site := newOIDCSite(t, login.Rule{Claim: "preferred_username", Value: "alice", Account: "alice"})
	v := newVisitor(t)
	var answer string
	v.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/login/oidc/callback" {
			answer = r.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	v.logIn(site, "/account", "alice")
	if answer == "" {
		t.Fatal("the provider has not answered")
	}
	forged, err := url.Parse(answer)
	testkit.Must(t, err)
	q := forged.Query()
	q.Set("state", "forged")
	forged.RawQuery = q.Encode()
	victim := newVisitor(t)
	victim.read(http.MethodGet, site.base+"/login", nil)
	for name, c := range map[string]struct {
		by      visitor
		address string
	}{"another browser": {victim, answer}, "another state": {newVisitor(t), forged.String()}, "no state": {newVisitor(t), site.base + "/login/oidc/callback?code=x&state="}} {
		if _, status, page := c.by.read(http.MethodGet, c.address, nil); status != http.StatusBadRequest || !strings.Contains(page, "begin again") {
			t.Errorf("%s: %d %s", name, status, page)
		}
	}
	v.CheckRedirect = nil
	if at, status, _ := v.read(http.MethodGet, answer, nil); status != http.StatusOK || at.Path != "/account" {
		t.Errorf("the browser that asked: %v %d", at, status)
	}
	if _, status, _ := v.read(http.MethodGet, answer, nil); status != http.StatusBadRequest {
		t.Errorf("the same answer again: %d", status)
	}
	refusing := newVisitor(t)
	refusing.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		answer = r.URL.Query().Get("state")
		return http.ErrUseLastResponse
	}
	refusing.read(http.MethodGet, site.base+"/login/oidc", nil)
	_, status, page := refusing.read(http.MethodGet, site.base+"/login/oidc/callback?error=access_denied&error_description="+url.QueryEscape("<b>no</b>")+"&state="+answer, nil)
	if status != http.StatusForbidden || !strings.Contains(page, "Example has refused the log-in") || strings.Contains(page, "<b>no") {
		t.Errorf("refused: %d %s", status, page)
	}
	refusing.read(http.MethodGet, site.base+"/login/oidc", nil)
	site.provider.Kill()
	if _, status, page := refusing.read(http.MethodGet, site.base+"/login/oidc/callback?code=x&state="+answer, nil); status != http.StatusBadGateway || !strings.Contains(page, "log in with a password") {
		t.Errorf("the provider is away: %d %s", status, page)
	}
}

// Settings that would let nobody in, or somebody else, are refused at the start.
func TestOIDCSettings(t *testing.T) {
	good := func() map[string]any {
		return map[string]any{"login.oidc.issuer": "https://login.example.jp", "login.oidc.client_id": "web",
			"login.oidc.rules": []map[string]any{{"claim": "groups", "value": "readers", "account": "readers"}}}
	}
	for name, c := range map[string]struct {
		key   string
		value any
		want  string
	}{
		"good":       {"login.oidc.label", "x", ""},
		"no client":  {"login.oidc.client_id", "", "login.oidc.client_id"},
		"plain http": {"login.oidc.issuer", "http://login.example.jp", "login.oidc.issuer"},
		"no rules":   {"login.oidc.rules", []map[string]any{}, "login.oidc.rules"},
		"no claim":   {"login.oidc.rules", []map[string]any{{"value": "x", "account": "a"}}, "rules[0]"},
		"neither":    {"login.oidc.rules", []map[string]any{{"claim": "x", "value": "x"}}, "rules[0]"},
	} {
		set := good()
		set[c.key] = c.value
		if _, err := Load("", set); (err == nil) != (c.want == "") || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
