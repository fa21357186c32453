package service

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"sheaf/internal/operators"
	"sheaf/internal/passwords"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/servetest"
	"sheaf/test/mailtest"
)

// addAccount makes an account that sees every host.
func addAccount(t testing.TB, s *Service, name, password string) *account.Accounts {
	t.Helper()
	accounts, err := account.NewAccounts(s.state.db, nil, servetest.Cheap)
	testkit.Must(t, err)
	_, _, err = accounts.Create(t.Context(), account.Account{Name: name, Domains: []string{"*"}}, password)
	testkit.Must(t, err)
	return accounts
}

// logIn logs in by the page and returns the cookie for further requests.
func logIn(t *testing.T, s *Service, name, password, next, leads string) (cookie string) {
	t.Helper()
	w := browse(s, http.MethodPost, "/login", "", "", url.Values{"name": {name}, "password": {password}, "next": {next}})
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != leads {
		t.Fatalf("log-in of %s: %d %v %s", name, w.Code, w.Header(), w.Body)
	}
	return cookieOf(t, w)
}

func cookieOf(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	for _, c := range w.Result().Cookies() {
		if strings.HasSuffix(c.Name, "sheaf_session") { // after __Host- over TLS
			return c.Name + "=" + c.Value
		}
	}
	t.Fatalf("no cookie: %v", w.Header())
	return ""
}

// Somebody without a log-in is asked for it and led back, within this service only. Then account
// and operator have their pages, and not each other's, until they log out.
func TestLogin(t *testing.T) {
	s := newTestService(t)
	addAccount(t, s, "alice", "secret")
	for path, kind := range map[string]string{"/account": "account", "/board/hosts?x=1": "operator"} {
		w := browse(s, http.MethodGet, path, "", "", nil)
		if asked := "/login?next=" + url.QueryEscape(path); w.Code != http.StatusSeeOther || w.Header().Get("Location") != asked {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		name, password := "alice", "secret"
		if kind == "operator" {
			name, password = "<b>ops", s.OperatorToken()
		}
		cookie := logIn(t, s, name, password, path, path)
		page := browse(s, http.MethodGet, path, "", "", nil, "Cookie", cookie)
		if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), `action="/logout"`) || strings.Contains(page.Body.String(), "<b>ops") {
			t.Errorf("%s: %d %s", path, page.Code, page.Body)
		}
		other := map[string]string{"account": "/board/", "operator": "/account"}[kind]
		if w := browse(s, http.MethodGet, other, "", "", nil, "Cookie", cookie); w.Code != http.StatusSeeOther {
			t.Errorf("%s of %s: %d", other, kind, w.Code)
		}
		if w := browse(s, http.MethodPost, "/logout", "", "", nil, "Cookie", cookie); w.Code != http.StatusSeeOther {
			t.Errorf("log-out: %d %s", w.Code, w.Body)
		}
		if w := browse(s, http.MethodGet, path, "", "", nil, "Cookie", cookie); w.Code != http.StatusSeeOther {
			t.Errorf("%s after log-out: %d", path, w.Code)
		}
	}
	for next, want := range map[string]string{
		"": "/account", "https://evil.example/": "/account", "//evil.example": "/account", `/\evil.example`: "/account", "javascript:alert(1)": "/account",
		"/browse/?after=x": "/browse/?after=x",
	} {
		logIn(t, s, "alice", "secret", next, want)
	}
	logIn(t, s, "ops", s.OperatorToken(), "", "/board/")
	if w := browse(s, http.MethodGet, "/login?next=//evil.example", "", "", nil); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `name="next" value="/"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Forms of other sites log nobody in or out, and change nothing in a session's name.
func TestLoginFromOtherSites(t *testing.T) {
	s := newTestService(t)
	addAccount(t, s, "alice", "secret")
	account, operator := logIn(t, s, "alice", "secret", "", "/account"), logIn(t, s, "ops", s.OperatorToken(), "", "/board/")
	for path, cookie := range map[string]string{
		"/login": "", "/logout": account, "/v1/watches": account, "/board/publish": operator, "/board/hosts": operator, "/v1/admin/accounts": operator,
	} {
		for name, header := range map[string][]string{
			"browser": {"Sec-Fetch-Site", "cross-site"}, "other host of the domain": {"Sec-Fetch-Site", "same-site"}, "old browser": {"Origin", "https://evil.example"}, "sandbox": {"Origin", "null"},
		} {
			form := url.Values{"name": {"alice"}, "password": {"secret"}, "host": {"a.jp"}, "act": {"refused"}}
			if w := browse(s, http.MethodPost, path, "", "", form, append(header, "Cookie", cookie)...); w.Code != http.StatusForbidden {
				t.Errorf("%s from a %s: %d %s", path, name, w.Code, w.Body)
			}
		}
	}
	if w := browse(s, http.MethodGet, "/account", "", "", nil, "Cookie", account); w.Code != http.StatusOK {
		t.Errorf("the account was logged out: %d", w.Code)
	}
}

// Sessions of an account end when its password changes, when it is suspended and when it is
// removed; a new account of the same name has none.
func TestSessionsEndWithTheirAccount(t *testing.T) {
	s := newTestService(t)
	accounts := addAccount(t, s, "alice", "secret")
	is := func(want int, what, cookie string) {
		t.Helper()
		if w := browse(s, http.MethodGet, "/account", "", "", nil, "Cookie", cookie); w.Code != want {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	cookie := logIn(t, s, "alice", "secret", "", "/account")
	change := func(c account.Change) {
		t.Helper()
		_, err := accounts.Change(t.Context(), "alice", c)
		testkit.Must(t, err)
	}
	change(account.Change{Domains: []string{"jp"}})
	is(200, "other domains", cookie)
	change(account.Change{Password: new("other")})
	is(303, "another password", cookie)
	cookie = logIn(t, s, "alice", "other", "", "/account")
	change(account.Change{Suspended: new(true)})
	is(303, "suspended", cookie)
	w := browse(s, http.MethodPost, "/login", "", "", url.Values{"name": {"alice"}, "password": {"other"}})
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "suspended") {
		t.Errorf("log-in while suspended: %d %s", w.Code, w.Body)
	}
	if w := browse(s, http.MethodGet, "/account", "alice", "other", nil); w.Code != http.StatusForbidden {
		t.Errorf("Basic while suspended: %d %s", w.Code, w.Body)
	}
	change(account.Change{Suspended: new(false)})
	is(200, "no longer suspended", cookie)
	testkit.Must(t, accounts.Delete(t.Context(), "alice"))
	is(303, "removed", cookie)
	addAccount(t, s, "alice", "other")
	is(303, "a new account of the name", cookie)
}

// The log-in page lets nobody guess on and says so, and a wrong password is not told from a wrong
// name.
func TestGuessesAtTheLoginPage(t *testing.T) {
	s := newTestService(t)
	addAccount(t, s, "alice", "secret")
	try := func(name, password string) *httptest.ResponseRecorder {
		return browse(s, http.MethodPost, "/login", "", "", url.Values{"name": {name}, "password": {password}})
	}
	wrong, nobody := try("alice", "x"), try("nobody", "x")
	if wrong.Code != 403 || nobody.Code != 403 || strings.ReplaceAll(wrong.Body.String(), "alice", "nobody") != nobody.Body.String() {
		t.Errorf("%d %s\n%d %s", wrong.Code, wrong.Body, nobody.Code, nobody.Body)
	}
	if w := try(account.Anonymous, "x"); w.Code != 403 {
		t.Errorf("anonymous logs in: %d", w.Code)
	}
	for range passwords.Burst {
		wrong = try("alice", "x")
	}
	if wrong.Code != http.StatusTooManyRequests || wrong.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v %s", wrong.Code, wrong.Header(), wrong.Body)
	}
}

// Who changes the password stays logged in, with another token; all others are logged out.
func TestPasswordChangeEndsOtherSessions(t *testing.T) {
	s := newTestService(t)
	addAccount(t, s, "alice", "secret")
	own, other := logIn(t, s, "alice", "secret", "", "/account"), logIn(t, s, "alice", "secret", "", "/account")
	w := browse(s, http.MethodPost, "/account", "", "", url.Values{"act": {"password"}, "old": {"secret"}, "new": {"another secret"}}, "Cookie", own)
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for cookie, want := range map[string]int{cookieOf(t, w): 200, own: 303, other: 303} {
		if w := browse(s, http.MethodGet, "/account", "", "", nil, "Cookie", cookie); w.Code != want {
			t.Errorf("%d, want %d", w.Code, want)
		}
	}
}

// Who has forgotten the password sets another one by a link in a mail, in the reader's language.
// The answer does not tell whether there is such an account.
func TestForgottenPassword(t *testing.T) {
	post := mailtest.New(t)
	cfg := testConfig(t, map[string]any{
		"data": t.TempDir(), "http.public": "https://archive.example.jp/",
		"watch.mail.server": post.Address, "watch.mail.from": "archive@example.jp", "watch.mail.tls": "none",
	})
	ctx, stop := context.WithCancel(t.Context())
	s, err := New(ctx, cfg, slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		testkit.Must(t, testkit.Receive(t, "the service's end", ended))
	}()
	accounts := addAccount(t, s, "alice", "secret")
	_, err = accounts.Change(t.Context(), "alice", account.Change{Email: new("alice@example.jp")})
	testkit.Must(t, err)
	old := logIn(t, s, "alice", "secret", "", "/account")
	known := browse(s, http.MethodPost, "/login/reset", "", "", url.Values{"name": {"alice"}}, "Accept-Language", "ja", "Host", "evil.example")
	unknown := browse(s, http.MethodPost, "/login/reset", "", "", url.Values{"name": {"nobody"}}, "Accept-Language", "ja")
	if known.Code != http.StatusOK || known.Body.String() != unknown.Body.String() {
		t.Errorf("%d %s\n%d %s", known.Code, known.Body, unknown.Code, unknown.Body)
	}
	testkit.Until(t, "the mail", func() bool { return len(post.To(t, "alice@example.jp")) > 0 })
	letter := post.To(t, "alice@example.jp")[0]
	path, ok := strings.CutPrefix(regexp.MustCompile(`https?://\S+`).FindString(letter.Text), "https://archive.example.jp")
	if !ok || !strings.Contains(letter.Text, "一時間以内") {
		t.Fatalf("%s", letter.Text)
	}
	if w := browse(s, http.MethodGet, path, "", "", nil); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Account: alice") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := browse(s, http.MethodPost, path, "", "", url.Values{"new": {"short"}}); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := browse(s, http.MethodPost, path, "", "", url.Values{"new": {"a new password"}}); w.Code != http.StatusSeeOther {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	logIn(t, s, "alice", "a new password", "", "/account")
	if w := browse(s, http.MethodGet, "/account", "", "", nil, "Cookie", old); w.Code != http.StatusSeeOther {
		t.Errorf("a session with the old password: %d", w.Code)
	}
	for method, form := range map[string]url.Values{http.MethodGet: nil, http.MethodPost: {"new": {"another password"}}} {
		if w := browse(s, method, path, "", "", form); w.Code != http.StatusGone {
			t.Errorf("%s of a link that was used: %d", method, w.Code)
		}
	}
	if n := len(post.Letters()); n != 1 {
		t.Errorf("%d letters", n)
	}
}

// An operator's session reads the archive: the pages that everybody's hosts link to, and files. It
// leads back to the board, has no account of its own, changes nothing as a reader, and sees nothing
// that access rules hide. When it is over, the pages ask for a log-in.
func TestOperatorsReadTheArchive(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := newTestService(t)
	publishPage(t, s, "http://www.example.jp/")
	password := "long enough for sato"
	store, err := operators.NewStore(s.state.db, servetest.Cheap, nil)
	testkit.Must(t, err)
	_, _, err = store.Add(t.Context(), operators.Operator{Name: "sato", Role: operators.Viewer}, password)
	testkit.Must(t, err)
	cookie := logIn(t, s, "sato", password, "/board/hosts", "/board/hosts")
	host := "/browse/jp/example/www/"
	ask := func(method, path, cookie string) (int, string) {
		w := browse(s, method, path, "", "", nil, "Cookie", cookie)
		return w.Code, w.Header().Get("Location") + w.Body.String()
	}
	reads := map[string]int{"/": 200, "/browse/": 200, host: 200, "/find?q=www.example.jp": 303, "/find?q=nobody.example.jp": 404,
		"/web/http://www.example.jp/": 302, "/web/*/http://www.example.jp/": 200, "/pub/jp/example/www/": 200, "/v1/cdx?url=http://www.example.jp/": 200}
	for path, want := range reads {
		if status, text := ask(http.MethodGet, path, cookie); status != want || strings.Contains(text, "/login") {
			t.Errorf("%s: %d, want %d: %s", path, status, want, text)
		}
	}
	for _, path := range []string{"/", host} {
		if _, page := ask(http.MethodGet, path, cookie); !strings.Contains(page, `<a href="/board/">Board</a>`) || !strings.Contains(page, "sato") || !strings.Contains(page, `action="/logout"`) {
			t.Errorf("%s leads not back to the board: %s", path, page)
		}
	}
	for path, method := range map[string]string{"/account": http.MethodGet, "/v1/account": http.MethodGet, "/watches": http.MethodGet, "/v1/cdx/jobs": http.MethodPost} {
		if status, text := ask(method, path, cookie); status == http.StatusOK {
			t.Errorf("%s %s: %d %s", method, path, status, text)
		}
	}
	_, err = account.NewRules(s.state.db, slog.New(slog.DiscardHandler)).Add(t.Context(), account.Rule{Domain: "example.jp", Accounts: []string{"alice"}, Reason: "asked for"})
	testkit.Must(t, err)
	testkit.Until(t, "the rule holds", func() bool { status, _ := ask(http.MethodGet, host, cookie); return status == http.StatusNotFound })
	_, _, err = store.Change(t.Context(), "sato", operators.OperatorChange{Suspended: new(true)})
	testkit.Must(t, err)
	if status, text := ask(http.MethodGet, "/browse/", cookie); status != http.StatusSeeOther || !strings.HasPrefix(text, "/login?") {
		t.Errorf("a suspended operator reads on: %d %s", status, text)
	}
}
