package ui_test

import (
	"context"
	"database/sql"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sheaf/internal/api"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/serve/account"
	"sheaf/serve/servetest"
	"sheaf/ui/removal"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// logIn fills in the log-in page as somebody does who was sent there, and sees where that leads.
func logIn(t *testing.T, ctx context.Context, base string) {
	t.Helper()
	testkit.Must(t, chromedp.Run(ctx,
		chromedp.Navigate(base+"/watches"), // which needs an account
		chromedp.SendKeys("input[name=name]", "reader"), chromedp.SendKeys("input[name=password]", "reader's password"),
		chromedp.Submit("input[name=password]"),
	))
	testkit.Watch(t, ctx, `location.href + " " + (document.querySelector("form.logout") !== null)`, base+"/watches true")
}

// linkOfReset returns the secret in a link by which the reader sets a forgotten password anew.
func linkOfReset(t *testing.T, site *servetest.Site) (secret string) {
	t.Helper()
	_, err := site.DB.ExecContext(t.Context(), `UPDATE accounts SET email = 'reader@mail.example' WHERE name = 'reader'`)
	testkit.Must(t, err)
	accounts, err := account.NewAccounts(site.DB, nil, servetest.Cheap)
	testkit.Must(t, err)
	testkit.Must(t, accounts.BeginReset(t.Context(), "reader", func(_ context.Context, _ *sql.Tx, _, s string) error {
		secret = s
		return nil
	}))
	return secret
}

// The pages for everybody, and those of an account, are accessible; so is the banner of a stored
// page. cmd/sheaf/service looks at the operators' pages.
func TestPagesAreAccessible(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	site := newSite(t)
	base := faceOf(t, site, "")
	robots := manager.New(site.DB, manager.Options{Key: servicekey.Fixed(robotKey), Dir: t.TempDir()}).Roster
	robot, err := robots.Page(t.Context(), "waseda")
	testkit.Must(t, err)
	token, _, err := robots.Admit(t.Context(), "keio")
	testkit.Must(t, err)
	_, err = robots.Join(t.Context(), wire.JoinRequest{Token: token, Version: "1.4.0", PublicKey: make([]byte, 32)})
	testkit.Must(t, err)
	testkit.Must(t, robots.Subscribe(t.Context(), "keio"))
	asked, err := http.PostForm(base+removal.Path, url.Values{"wish": {"removal"}, "kind": {"host"}, "target": {"www.waseda.ac.jp"}, "email": {"owner@mail.example"}, "reason": {"it is ours"}})
	testkit.Must(t, err)
	asked.Body.Close()
	if status, _ := as(t, "POST", base+"/watches", url.Values{"act": {"add"}, "kind": {"host"}, "target": {"www.waseda.ac.jp"}}); status != 200 {
		t.Fatalf("a watch: %d", status)
	}
	if status, text := as(t, "POST", base+"/watches", url.Values{"act": {"save"}, "target": {"http://www.waseda.ac.jp/now.html"}}); status != 200 || !strings.Contains(text, "It waits for its visit") {
		t.Fatalf("a page to be saved: %d %s", status, text)
	}
	reset := linkOfReset(t, site)
	const stored = "http://www.waseda.ac.jp/1.html"
	ctx := testkit.NewPage(t)
	testkit.Look(t, ctx, base, []testkit.Page{
		{Name: "login", Path: "/login?next=/browse/"}, {Name: "reset", Path: "/login/reset"}, {Name: "password", Path: "/login/reset/" + reset}, {Name: "expired", Path: "/login/reset/0"},
		{Name: "removal", Path: removal.Path + "?host=www.waseda.ac.jp"}, {Name: "request", Path: asked.Request.URL.Path}, {Name: "robot", Path: robot},
		{Name: "front", Path: "/"}, {Name: "browse", Path: "/browse/jp/ac/"}, {Name: "host", Path: "/browse/jp/ac/waseda/"},
		{Name: "webmasters", Path: "/webmasters"}, {Name: "robots", Path: api.PathRobots}, {Name: "lost", Path: "/find?q=nowhere.example"}, {Name: "found", Path: "/find?q=seda"},
		{Name: "ask", Path: "/web/"}, {Name: "versions", Path: "/web/*/" + stored}, {Name: "missing", Path: "/web/http://www.waseda.ac.jp/nothing"},
		{Name: "diff", Path: "/diff/20260928/20261106/" + stored}, {Name: "error", Path: "/web/1/x"},
		{Name: "stored", Path: "/web/20261010/" + stored, Part: "#sheaf-archive-banner"},
	})
	logIn(t, ctx, base)
	testkit.Look(t, ctx, base, []testkit.Page{{Name: "account", Path: "/account"}, {Name: "watches", Path: "/watches?url=" + stored}})
}
