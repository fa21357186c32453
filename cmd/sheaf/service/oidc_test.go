package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/servetest"
	"sheaf/ui/board"
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
	people   map[string]person
	users    string // the provider's file of people
}

// tell lets the provider say about a person what change makes of them.
func (site *oidcSite) tell(t *testing.T, id string, change func(*person)) {
	t.Helper()
	p := site.people[id]
	change(&p)
	site.people[id] = p
	text, err := json.Marshal(site.people)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(site.users, text, 0o600))
}

func newOIDCSite(t *testing.T, rules ...login.Rule) *oidcSite {
	t.Helper()
	at := testkit.Addresses(t, 2)
	base, issuer := "http://"+at[0], "http://"+at[1]+"/"
	site := &oidcSite{base: base, people: map[string]person{}, users: filepath.Join(t.TempDir(), "users.json")}
	for _, p := range []person{
		{ID: "1", Username: "alice", Email: "alice@example.jp", EmailVerified: true},
		{ID: "2", Username: "mallory", Email: "alice@example.jp"},
		{ID: "3", Username: "stranger", Email: "stranger@example.com", EmailVerified: true},
		{ID: "4", Username: "olga", Email: "olga@ops.example.jp", EmailVerified: true},
	} {
		p.Password = "at the provider"
		site.tell(t, p.ID, func(known *person) { *known = p })
	}
	site.provider = testkit.Start(t, "", exec.Command(testkit.BuildModule(t, "test/oidc"), at[1], base+"/login/oidc/callback", site.users))
	site.provider.Ready(t, func() error {
		resp, err := http.Get(issuer + ".well-known/openid-configuration")
		if err == nil {
			resp.Body.Close()
		}
		return err
	})
	cfg, err := Load("", map[string]any{
		"data": t.TempDir(), "http.listen": at[0], "http.public": base, "download.listen": "", "drop.listen": "", "publish.window": "never", "balance.at": "",
		"login.oidc.issuer": issuer, "login.oidc.client_id": "web", "login.oidc.client_secret": "secret", "login.oidc.label": "Example",
	})
	cfg.Login.OIDC.Rules, cfg.Login.Passwords = rules, servetest.Cheap
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
	return visitor{t, &http.Client{Jar: jar, Timeout: testkit.Patience}}
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

// People log in at a provider, and the rules say which account they are. Nobody is let in for a
// mail address that the provider has not verified, and nobody without a rule, an account, or while
// the account is suspended.
func TestOIDC(t *testing.T) {
	testkit.Slow(t)
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

// An operator logs in at the provider with the role that a claim gives at that moment, beside an
// account if there is one. Who is given another role, none, or is suspended here has it at the next
// log-in, also in sessions that began before. Nobody gets an operator's name who has not had it
// first.
func TestOIDCRoles(t *testing.T) {
	site := newOIDCSite(t,
		login.Rule{Claim: "email", Value: "*@admins.example.jp", Operator: "{preferred_username}", Role: operators.Admin},
		login.Rule{Claim: "email", Value: "*@ops.example.jp", Operator: "{preferred_username}", Role: operators.Viewer},
		login.Rule{Claim: "preferred_username", Value: "olga", Account: "alice"},
		login.Rule{Claim: "preferred_username", Value: "alice", Account: "alice"})
	log := audit.New(audit.Options{DB: site.state.db})
	newest := func() audit.Row {
		page, err := log.Page(t.Context(), audit.Filter{Act: audit.Login, Limit: 1})
		testkit.Must(t, err)
		return page.Rows[0]
	}
	status := func(v visitor, method, path string) int {
		_, status, _ := v.read(method, site.base+path, nil)
		return status
	}
	v := newVisitor(t)
	at, code, page := v.logIn(site, "/", "olga")
	if code != http.StatusOK || at.Path != board.Path {
		t.Fatalf("%v %d %s", at, code, page)
	}
	if row := newest(); row.Kind != audit.Operator || row.Name != "olga" || row.Outcome != audit.OK || row.Reason != "role viewer" || !strings.Contains(row.Object, "account alice") {
		t.Errorf("%+v", row)
	}
	if account, drop := status(v, http.MethodGet, "/account"), status(v, http.MethodDelete, "/v1/admin/operators/nobody"); account != http.StatusOK || drop != http.StatusForbidden {
		t.Errorf("a viewer: own account %d, removes operators %d", account, drop)
	}
	site.tell(t, "4", func(p *person) { p.Email = "olga@admins.example.jp" })
	other := newVisitor(t)
	other.logIn(site, "/board/", "olga")
	for _, v := range []visitor{v, other} {
		if code := status(v, http.MethodDelete, "/v1/admin/operators/nobody"); code != http.StatusNotFound {
			t.Errorf("the role of an admin: %d", code)
		}
	}
	password := httptest.NewRequest(http.MethodGet, "/v1/admin/operators", nil)
	password.SetBasicAuth("olga", "")
	w := httptest.NewRecorder()
	site.router.ServeHTTP(w, password)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("without a password: %d", w.Code)
	}
	store, err := operators.NewStore(site.state.db, servetest.Cheap, nil)
	testkit.Must(t, err)
	for what, c := range map[string]operators.OperatorChange{"role": {Role: new(operators.Admin)}, "password": {Password: new("")}} {
		if _, _, err := store.Change(t.Context(), "olga", c); !errors.Is(err, operators.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}

	site.tell(t, "4", func(p *person) { p.Email = "olga@example.com" })
	if at, code, _ := newVisitor(t).logIn(site, "/board/", "olga"); code != http.StatusOK || at.Path != "/login" {
		t.Errorf("without a role: %v %d", at, code)
	}
	if row := newest(); row.Kind != audit.Account || row.Reason != "no rule gives a role any more" {
		t.Errorf("%+v", row)
	}
	for _, v := range []visitor{v, other} {
		if at, _, _ := v.read(http.MethodGet, site.base+board.Path, nil); at.Path != "/login" {
			t.Errorf("a session goes on without a role: %v", at)
		}
	}

	site.tell(t, "4", func(p *person) { p.Email = "olga@ops.example.jp" })
	v.logIn(site, "/board/", "olga")
	_, _, err = store.Change(t.Context(), "olga", operators.OperatorChange{Suspended: new(true)})
	testkit.Must(t, err)
	for _, email := range []string{"olga@example.com", "olga@ops.example.jp"} {
		site.tell(t, "4", func(p *person) { p.Email = email })
		newVisitor(t).logIn(site, "/board/", "olga")
		if at, _, _ := v.read(http.MethodGet, site.base+board.Path, nil); at.Path != "/login" {
			t.Errorf("a session goes on while the operator is suspended: %v", at)
		}
	}
	if row := newest(); row.Outcome != audit.Failed || !strings.Contains(row.Reason, "suspended") {
		t.Errorf("%+v", row)
	}

	_, _, err = store.Add(t.Context(), operators.Operator{Name: "sato", Role: operators.Admin}, "")
	testkit.Must(t, err)
	for _, name := range []string{"sato", "token", "olga", "Not A Name"} {
		site.tell(t, "5", func(p *person) {
			*p = person{ID: "5", Username: name, Password: "at the provider", Email: "x@ops.example.jp", EmailVerified: true}
		})
		if name == "olga" { // both have that name at the provider
			site.tell(t, "4", func(p *person) { p.Username = "olga2" })
		}
		visitor := newVisitor(t)
		if _, code, _ := visitor.logIn(site, "/board/", name); code != http.StatusForbidden && name != "olga" {
			t.Errorf("%s: %d", name, code)
		}
		if at, _, _ := visitor.read(http.MethodGet, site.base+board.Path, nil); at.Path != "/login" {
			t.Errorf("somebody else works as %s: %v", name, at)
		}
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
		"operator":   {"login.oidc.rules", []map[string]any{{"claim": "x", "value": "x", "operator": "{sub}", "role": "viewer"}}, ""},
		"no role":    {"login.oidc.rules", []map[string]any{{"claim": "x", "value": "x", "operator": "{sub}"}}, "rules[0]"},
		"odd role":   {"login.oidc.rules", []map[string]any{{"claim": "x", "value": "x", "operator": "{sub}", "role": "king"}}, "rules[0]"},
		"one name":   {"login.oidc.rules", []map[string]any{{"claim": "x", "value": "x", "operator": "ops", "role": "viewer"}}, "rules[0]"},
		"both":       {"login.oidc.rules", []map[string]any{{"claim": "x", "value": "x", "account": "a", "operator": "{sub}", "role": "viewer"}}, "rules[0]"},
		"role alone": {"login.oidc.rules", []map[string]any{{"claim": "x", "value": "x", "account": "a", "role": "viewer"}}, "rules[0]"},
	} {
		set := good()
		set[c.key] = c.value
		if _, err := Load("", set); (err == nil) != (c.want == "") || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
