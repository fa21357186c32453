package service

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/servetest"
	"sheaf/test/mailtest"
)

// fillReaders gives the pages of readers something to show, by their own forms. Words of operators
// may be bad.
func fillReaders(t *testing.T, s *Service, bad string) {
	t.Helper()
	for _, one := range []struct {
		path string
		form url.Values
	}{
		{"/board/accounts", url.Values{"name": {"reader"}, "domains": {"jp waseda.ac.jp"}, "window": {"Mon-Fri 00:00-12:00 Asia/Tokyo"}, "rate": {"10MiB"}, "quota": {"50GiB"}, "email": {"reader@example.jp"}, "terms": {"research-2026"}, "purpose": {"a study" + bad}}},
		{"/board/accounts", url.Values{"name": {"former"}, "domains": {"*"}}},
		{"/board/accounts/former/suspend", url.Values{"suspended": {"true"}}},
		{"/board/operators", url.Values{"name": {"sato"}, "role": {"operator"}}},
		{"/board/operators", url.Values{"name": {"suzuki"}, "role": {"viewer"}}},
		{"/board/operators/suzuki", url.Values{"act": {"suspend"}}},
		{"/board/access", url.Values{"domain": {"example.jp"}, "days": {"365"}, "accounts": {"reader former"}, "addresses": {"192.0.2.0/24"}, "reason": {"contract 12" + bad}}},
		{"/board/access", url.Values{"prefix": {"http://www.example.jp/private/"}, "from": {"2026-11-01"}, "until": {"2027-04-01"}, "reason": {"the owner's wish"}}},
		{"/board/takedowns", url.Values{"host": {"www.example.jp"}, "reason": {"letter of 21 November" + bad}, "unknown": {"true"}}},
		{"/board/takedowns", url.Values{"host": {"old.example.jp"}, "prefix": {"http://old.example.jp/Private/"}, "reason": {"a privacy wish"}, "unknown": {"true"}}},
		{"/board/takedowns", url.Values{"host": {"court.example.jp"}, "reason": {"an order of a court"}, "unknown": {"true"}}},
		{"/board/takedowns/lift", url.Values{"host": {"court.example.jp"}, "reason": {"it was lifted"}}},
	} {
		if w := browse(s, http.MethodPost, one.path, "ops", s.OperatorToken(), one.form); w.Code != http.StatusSeeOther && w.Code != http.StatusOK {
			t.Fatalf("%s %v: %d %s", one.path, one.form, w.Code, w.Body)
		}
	}
	accounts, err := account.NewAccounts(s.state.db, nil, servetest.Cheap)
	testkit.Must(t, err)
	_, _, err = accounts.CreateToken(t.Context(), "reader", account.Token{Name: "cron" + bad, Uses: []account.Use{account.ForFiles}})
	testkit.Must(t, err)
}

// An operator makes an account on the board, whose password is shown once and logs in, changes its
// limits, suspends it and lets it in again, and takes it away. Each is an act in the audit log.
func TestAccountsOnTheBoard(t *testing.T) {
	s := newTestService(t)
	accounts, err := account.NewAccounts(s.state.db, nil, servetest.Cheap)
	testkit.Must(t, err)
	post := func(path string, form url.Values) (int, string) {
		w := browse(s, http.MethodPost, path, "ops", s.OperatorToken(), form)
		return w.Code, w.Body.String()
	}
	code, page := post("/board/accounts", url.Values{"name": {"alice"}, "domains": {"jp"}, "quota": {"50"}})
	if code != http.StatusUnprocessableEntity || !strings.Contains(page, "has no unit") || !strings.Contains(page, `value="alice"`) {
		t.Errorf("a quota without a unit: %d %s", code, page)
	}
	code, page = post("/board/accounts", url.Values{"name": {"alice"}, "domains": {"jp waseda.ac.jp"}, "quota": {"50GiB"}, "rate": {"10MiB"}, "email": {"alice@example.jp"}})
	made := regexp.MustCompile(`>alice  (\S+)</pre>`).FindStringSubmatch(page)
	if code != http.StatusOK || made == nil {
		t.Fatalf("%d %s", code, page)
	}
	if _, err := accounts.Login(t.Context(), "alice", made[1], "192.0.2.1:7"); err != nil {
		t.Errorf("the password that was shown: %v", err)
	}
	if again := browse(s, http.MethodGet, "/board/accounts", "ops", s.OperatorToken(), nil).Body.String(); strings.Contains(again, made[1]) || !strings.Contains(again, "alice") {
		t.Errorf("the list has the password, or no account: %s", again)
	}
	if code, page := post("/board/accounts", url.Values{"name": {"alice"}, "domains": {"jp"}}); code != http.StatusConflict || !strings.Contains(page, "exists already") {
		t.Errorf("a second of its name: %d %s", code, page)
	}
	for _, step := range []struct {
		path string
		form url.Values
		is   func(*account.Account) bool
	}{
		{"", url.Values{"domains": {"*"}, "window": {"never"}, "terms": {"research-2026"}, "purpose": {"a study"}, "accepted": {"2026-11-01"}}, func(a *account.Account) bool {
			return a.Domains[0] == "*" && a.Quota == 0 && a.Email == "" && a.Terms.Name == "research-2026" && !a.Window.Open(time.Now())
		}},
		{"/suspend", url.Values{"suspended": {"true"}}, func(a *account.Account) bool { return a.Suspended }},
		{"/suspend", url.Values{"suspended": {"false"}}, func(a *account.Account) bool { return !a.Suspended }},
	} {
		if code, page := post("/board/accounts/alice"+step.path, step.form); code != http.StatusSeeOther {
			t.Fatalf("%v: %d %s", step.form, code, page)
		}
		if now, err := accounts.Account(t.Context(), "alice"); err != nil || !step.is(now) {
			t.Errorf("after %v: %+v, %v", step.form, now, err)
		}
	}
	if w := browse(s, http.MethodPost, "/board/accounts/alice/remove", "ops", s.OperatorToken(), nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/board/accounts?done=1" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if code := browse(s, http.MethodGet, "/board/accounts/alice", "ops", s.OperatorToken(), nil).Code; code != http.StatusNotFound {
		t.Errorf("the page of an account that is gone: %d", code)
	}
	rows, err := audit.New(audit.Options{DB: s.state.db}).Page(t.Context(), audit.Filter{Object: "account alice", Limit: 10})
	testkit.Must(t, err)
	var acts []string
	for _, row := range rows.Rows {
		acts = append(acts, string(row.Act)+" "+string(row.Outcome))
	}
	if got := strings.Join(acts, ", "); got != "remove ok, change ok, change ok, change ok, add failed, add ok" {
		t.Errorf("the audit log has %s", got)
	}
}

// Who may not do something is shown no form for it, and is refused if the form comes anyway.
func TestReadersPagesByRole(t *testing.T) {
	s := newTestService(t)
	fillReaders(t, s, "")
	store, err := operators.NewStore(s.state.db, servetest.Cheap, nil)
	testkit.Must(t, err)
	forms := map[string]operators.Role{ // a form's path, and the least role for it
		"/board/accounts": operators.Worker, "/board/accounts/reader": operators.Worker, "/board/accounts/reader/suspend": operators.Worker, "/board/accounts/reader/remove": operators.Admin,
		"/board/access": operators.Worker, "/board/access/1/remove": operators.Worker, "/board/takedowns": operators.Worker, "/board/takedowns/lift": operators.Worker,
		"/board/operators": operators.Admin, "/board/operators/sato": operators.Admin, "/board/operators/sato/remove": operators.Admin,
	}
	passwords := map[operators.Role]string{}
	for _, role := range operators.Roles() {
		_, password, err := store.Add(t.Context(), operators.Operator{Name: "the-" + string(role), Role: role}, "")
		testkit.Must(t, err)
		passwords[role] = password
		shown := ""
		for _, path := range []string{"/board/accounts", "/board/accounts/reader", "/board/access", "/board/takedowns", "/board/operators", "/board/collections"} {
			w := browse(s, http.MethodGet, path, "the-"+string(role), password, nil)
			if w.Code != http.StatusOK {
				t.Errorf("%s as %s: %d", path, role, w.Code)
			}
			shown += w.Body.String()
		}
		for path, least := range forms {
			if has := strings.Contains(shown, `method="post" action="`+path+`"`); has != role.Includes(least) {
				t.Errorf("a %s is shown the form for %s: %v", role, path, has)
			}
		}
	}
	for role, password := range passwords {
		for path, least := range forms {
			w := browse(s, http.MethodPost, path, "the-"+string(role), password, url.Values{"act": {"none"}})
			if (w.Code == http.StatusForbidden) == role.Includes(least) {
				t.Errorf("%s as %s: %d", path, role, w.Code)
			}
		}
	}
}

// Admins cannot lock out themselves, neither on the board nor by the API. Another admin can.
func TestAdminsStay(t *testing.T) {
	s := newTestService(t)
	store, err := operators.NewStore(s.state.db, servetest.Cheap, nil)
	testkit.Must(t, err)
	passwords := map[string]string{}
	for _, name := range []string{"sato", "mori"} {
		_, passwords[name], err = store.Add(t.Context(), operators.Operator{Name: name, Role: operators.Admin}, "")
		testkit.Must(t, err)
	}
	shown := browse(s, http.MethodGet, "/board/operators", "sato", passwords["sato"], nil).Body.String()
	for name, want := range map[string]bool{"sato": false, "mori": true} {
		if strings.Contains(shown, `action="/board/operators/`+name+`/remove"`) != want {
			t.Errorf("sato is shown the form that removes %s: %v, want %v", name, !want, want)
		}
	}
	if n := strings.Count(shown, `value="suspend"`); n != 1 {
		t.Errorf("sato is shown %d buttons that suspend, want that of mori", n)
	}
	const path = "/board/operators/sato"
	for _, one := range []struct {
		path string
		form url.Values
	}{{path, url.Values{"act": {"suspend"}}}, {path, url.Values{"act": {"role"}, "role": {"viewer"}}}, {path + "/remove", nil}} {
		if w := browse(s, http.MethodPost, one.path, "sato", passwords["sato"], one.form); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "another admin can") {
			t.Errorf("%s %v by sato: %d, want 409 with what to do", one.path, one.form, w.Code)
		}
	}
	if w := browse(s, http.MethodDelete, "/v1/admin/operators/sato", "sato", passwords["sato"], nil); w.Code != http.StatusConflict {
		t.Errorf("sato removes sato by the API: %d, want 409", w.Code)
	}
	for _, act := range []string{"suspend", "resume"} {
		if w := browse(s, http.MethodPost, path, "mori", passwords["mori"], url.Values{"act": {act}}); w.Code != http.StatusSeeOther {
			t.Errorf("%s by mori: %d, want 303", act, w.Code)
		}
	}
	if w := browse(s, http.MethodGet, "/board/operators", "sato", passwords["sato"], nil); w.Code != http.StatusOK {
		t.Errorf("sato afterwards: %d, want 200", w.Code)
	}
}

// A form that cannot be read is shown again with what was typed, and says which field is wrong.
func TestWrongFormsAreShownAgain(t *testing.T) {
	s := newTestService(t)
	for _, c := range []struct {
		path  string
		form  url.Values
		says  string
		typed string
	}{
		{"/board/accounts", url.Values{"name": {"alice"}, "domains": {""}, "rate": {"7MiB"}}, "domains is not given", `value="7MiB"`},
		{"/board/accounts", url.Values{"name": {"alice"}, "domains": {"jp"}, "quota": {"-5"}}, "quota: &#34;-5&#34;", `value="alice"`},
		{"/board/access", url.Values{"domain": {"example.jp"}, "days": {"many"}, "reason": {"a wish"}}, "days=&#34;many&#34;: want a number from 0 on", `value="a wish"`},
	} {
		w := browse(s, http.MethodPost, c.path, "ops", s.OperatorToken(), c.form)
		if page := w.Body.String(); w.Code < 400 || w.Code > 499 || !strings.Contains(page, c.says) || !strings.Contains(page, c.typed) {
			t.Errorf("%s %v: %d, want %q and %q in %s", c.path, c.form, w.Code, c.says, c.typed, page)
		}
	}
}

// What operators and owners write is text on the pages, and each list finds a part of a name.
func TestReadersPagesShowText(t *testing.T) {
	s := newTestService(t)
	fillReaders(t, s, "<script>x</script>")
	for path, want := range map[string][2]string{ // what is found, and what is not
		"/board/accounts?q=READ": {"reader", "former"}, "/board/takedowns?q=/Private": {"/Private/", "court"}, "/board/access?q=private": {"private", "contract"}, "/board/takedowns?q=court": {"court", "old.example"}, "/board/operators?q=su": {"suzuki", "sato"},
		"/board/accounts/reader": {"a study&lt;script&gt;", "<script>x"}, "/board/access": {"contract 12&lt;", "<script>x"}, "/board/takedowns": {"November&lt;", "<script>x"},
	} {
		page := browse(s, http.MethodGet, path, "ops", s.OperatorToken(), nil).Body.String()
		if _, contents, _ := strings.Cut(page, "<table>"); !strings.Contains(page, want[0]) || strings.Contains(contents[:strings.Index(contents, "</table>")+1], want[1]) {
			t.Errorf("%s: want %q and no %q: %s", path, want[0], want[1], page)
		}
	}
}

// A take-down is lifted from its line, once; another of the same host stays.
func TestTakedownsOnTheBoard(t *testing.T) {
	s := newTestService(t)
	fillReaders(t, s, "")
	lines := func() int {
		return strings.Count(browse(s, http.MethodGet, "/board/takedowns", "ops", s.OperatorToken(), nil).Body.String(), `action="/board/takedowns/lift"`)
	}
	if n := lines(); n != 2 {
		t.Fatalf("%d take-downs are in force, want 2", n)
	}
	post := func(path string, form url.Values) int {
		return browse(s, http.MethodPost, path, "ops", s.OperatorToken(), form).Code
	}
	lift := url.Values{"host": {"old.example.jp"}, "prefix": {"http://old.example.jp/Private/"}, "reason": {"they agree"}}
	if code := post("/board/takedowns/lift", lift); code != http.StatusSeeOther || lines() != 1 {
		t.Errorf("%d; %d are in force", code, lines())
	}
	if code := post("/board/takedowns/lift", lift); code != http.StatusNotFound {
		t.Errorf("once more: %d", code)
	}
	if code := post("/board/takedowns", url.Values{"host": {"nothing.example.jp"}, "reason": {"x"}}); code != http.StatusNotFound {
		t.Errorf("of a host of which nothing was published: %d", code)
	}
	if code := post("/board/takedowns", url.Values{"host": {"www.example.jp"}}); code != http.StatusBadRequest {
		t.Errorf("without a reason: %d", code)
	}
	if code := post("/board/collections/takedown", url.Values{"collection": {"nothing"}, "reason": {"x"}}); code != http.StatusNotFound {
		t.Errorf("of a collection that is not there: %d", code)
	}
}

// An operator has the owner of an account sent a link by which the password is set anew, by the
// board and by the API, and is told why none is sent.
func TestOperatorsMailResets(t *testing.T) {
	post := mailtest.New(t)
	s := run(t, map[string]any{
		"data": t.TempDir(), "http.public": "https://archive.example.jp/",
		"watch.mail.server": post.Address, "watch.mail.from": "archive@example.jp", "watch.mail.tls": "none",
	})
	accounts := addAccount(t, s, "alice", "secret")
	ask := func(path string) (int, string) {
		w := browse(s, http.MethodPost, path, "ops", s.OperatorToken(), nil)
		return w.Code, w.Body.String()
	}
	if code, page := ask("/board/accounts/alice/reset"); code != http.StatusConflict || !strings.Contains(page, "has no mail address") {
		t.Errorf("without an address: %d %s", code, page)
	}
	_, err := accounts.Change(t.Context(), "alice", account.Change{Email: new("alice@example.jp")})
	testkit.Must(t, err)
	if code, page := ask("/board/accounts/alice/reset"); code != http.StatusSeeOther {
		t.Fatalf("%d %s", code, page)
	}
	testkit.Until(t, "the mail", func() bool { return len(post.To(t, "alice@example.jp")) > 0 })
	link := regexp.MustCompile(`https://archive\.example\.jp(/login/reset/\S+)`).FindStringSubmatch(post.To(t, "alice@example.jp")[0].Text)
	if link == nil || browse(s, http.MethodGet, link[1], "", "", nil).Code != http.StatusOK {
		t.Errorf("the link is %v", link)
	}
	for path, want := range map[string]struct {
		code int
		why  string
	}{"/v1/admin/accounts/alice/reset": {http.StatusConflict, "a few minutes ago"}, "/v1/admin/accounts/nobody/reset": {http.StatusNotFound, "no such account"}} {
		if code, page := ask(path); code != want.code || !strings.Contains(page, want.why) {
			t.Errorf("%s: %d %s", path, code, page)
		}
	}
}
