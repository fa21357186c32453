package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/servetest"
	"sheaf/ui"
)

// newOwner serves the pages to the account alice, whose password is "alice's secret". ask sends a
// form as her, or gets the page if the form is nil.
func newOwner(t *testing.T) (accounts *account.Accounts, log *transfers.Log, ask func(secret string, form url.Values) *httptest.ResponseRecorder) {
	t.Helper()
	site := servetest.New(t, nil)
	accounts, err := account.NewAccounts(site.DB, nil, servetest.Cheap)
	testkit.Must(t, err)
	_, _, err = accounts.Create(t.Context(), account.Account{Name: "alice", Domains: []string{"*"}, Quota: 1000}, "alice's secret")
	testkit.Must(t, err)
	log = transfers.New(site.DB)
	router := mux.NewRouter()
	testkit.Must(t, ui.Register(router, ui.Options{
		Site: new(webpage.Site), Room: &serve.Room{Library: site.Library, Accounts: accounts}, Guard: guard.New(accounts, nil, "", nil), Transfers: log, Running: site.Running,
	}))
	return accounts, log, func(secret string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/account", nil)
		if form != nil {
			r = httptest.NewRequest(http.MethodPost, "/account", strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		r.SetBasicAuth("alice", secret)
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		return w
	}
}

// An account's owner makes a token, which is shown once and is good from then on, and revokes it.
// The token itself is good for none of this.
func TestOwnTokens(t *testing.T) {
	accounts, _, ask := newOwner(t)
	made := ask("alice's secret", url.Values{"act": {"token"}, "name": {"<i>cron</i>"}, "use": {"all"}, "days": {"30"}})
	secret := regexp.MustCompile(`sheaf_[a-z2-7]{26}`).FindString(made.Body.String())
	if made.Code != http.StatusOK || secret == "" || made.Header().Get("Cache-Control") == "" {
		t.Fatalf("%d %s", made.Code, made.Body)
	}
	page := ask("alice's secret", nil).Body.String()
	if strings.Contains(page, secret) || strings.Contains(page, "<i>cron") || !strings.Contains(page, "&lt;i&gt;cron") {
		t.Errorf("%s", page)
	}
	byToken := ask(secret, nil)
	if byToken.Code != http.StatusOK || strings.Contains(byToken.Body.String(), `value="token"`) {
		t.Errorf("the page by a token: %d %s", byToken.Code, byToken.Body)
	}
	list, err := accounts.Tokens(t.Context(), "alice")
	testkit.Must(t, err)
	if len(list) != 1 || time.Until(list[0].Expires) < 29*24*time.Hour {
		t.Fatalf("%+v", list)
	}
	for act, form := range map[string]url.Values{
		"token": {"name": {"x"}, "use": {"all"}}, "password": {"old": {"alice's secret"}, "new": {"another secret"}}, "email": {"old": {"alice's secret"}, "email": {"a@b.example"}}, "revoke": {"token": {list[0].ID}},
	} {
		form.Set("act", act)
		if w := ask(secret, form); w.Code != http.StatusForbidden {
			t.Errorf("%s by a token: %d", act, w.Code)
		}
	}
	for range 2 { // the second time it is gone already
		if w := ask("alice's secret", url.Values{"act": {"revoke"}, "token": {list[0].ID}}); w.Code != http.StatusSeeOther {
			t.Errorf("revoke: %d %s", w.Code, w.Body)
		}
	}
	if w := ask(secret, nil); w.Code != http.StatusUnauthorized {
		t.Errorf("a token that is revoked: %d", w.Code)
	}
	if w := ask("alice's secret", url.Values{"act": {"token"}, "name": {"x"}, "use": {"root"}}); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "role=\"alert\"") {
		t.Errorf("an odd use: %d", w.Code)
	}
	for _, days := range []string{"soon", "-1", "1e3", "9999999999"} { // no such token is good for ever
		if w := ask("alice's secret", url.Values{"act": {"token"}, "name": {"x"}, "use": {"all"}, "days": {days}}); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "want a number from 0 to 36500") {
			t.Errorf("for %s days: %d %s", days, w.Code, w.Body)
		}
	}
}

// Only who knows the old password sets another one, or the mail address by which it can be set
// anew.
func TestOwnPassword(t *testing.T) {
	accounts, _, ask := newOwner(t)
	for name, c := range map[string]struct {
		form url.Values
		want string
	}{
		"wrong old":     {url.Values{"act": {"password"}, "old": {"x"}, "new": {"another secret"}}, "The old password is wrong."},
		"short":         {url.Values{"act": {"password"}, "old": {"alice's secret"}, "new": {"short"}}, "at least 10"},
		"name":          {url.Values{"act": {"password"}, "old": {"alice's secret"}, "new": {"Alice12345!"}}, "first that somebody would guess"},
		"one letter":    {url.Values{"act": {"password"}, "old": {"alice's secret"}, "new": {"aaaaaaaaaaaa"}}, "first that somebody would guess"},
		"mail, no old":  {url.Values{"act": {"email"}, "email": {"a@b.example"}}, "The old password is wrong."},
		"mail, no mail": {url.Values{"act": {"email"}, "old": {"alice's secret"}, "email": {"Alice <a@b.example>"}}, "want a bare one"},
	} {
		if w := ask("alice's secret", c.form); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := ask("alice's secret", url.Values{"act": {"email"}, "old": {"alice's secret"}, "email": {"a@b.example"}}); w.Code != http.StatusSeeOther {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if a, err := accounts.Account(t.Context(), "alice"); err != nil || a.Email != "a@b.example" {
		t.Errorf("%+v, %v", a, err)
	}
	if w := ask("alice's secret", url.Values{"act": {"password"}, "old": {"alice's secret"}, "new": {"another secret"}}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/account?done=password" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if ask("alice's secret", nil).Code != http.StatusUnauthorized || ask("another secret", nil).Code != http.StatusOK {
		t.Error("the password is the old one")
	}
}

// The page has the account's own downloads, under way and past, and nobody else's.
func TestOwnDownloads(t *testing.T) {
	_, log, ask := newOwner(t)
	one := func(who, name, outcome string) transfers.Transfer {
		return transfers.Transfer{At: time.Now(), Direction: transfers.Download, Protocol: "ftp", Who: who, Name: name, Bytes: 5000, Took: time.Second, Outcome: outcome}
	}
	testkit.Must(t, log.RecordAll(t.Context(), []transfers.Transfer{one("alice", "/jp/mine.tar.gz", transfers.Aborted), one("bob", "/jp/his.tar.gz", transfers.OK)}))
	page := ask("alice's secret", nil).Body.String()
	for text, want := range map[string]bool{"/jp/mine.tar.gz": true, "broken off": true, "5.0 kB/s": true, "/jp/his.tar.gz": false, "The last 30 days": true} {
		if strings.Contains(page, text) != want {
			t.Errorf("%q: %v\n%s", text, !want, page)
		}
	}
}
