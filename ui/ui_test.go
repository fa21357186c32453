package ui_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/internal/audit"
	"sheaf/internal/mailer"
	"sheaf/internal/operators"
	"sheaf/internal/servicekey"
	"sheaf/internal/session"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/window"
	"sheaf/manager"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/servetest"
	"sheaf/serve/watch"
	"sheaf/ui"
	"sheaf/ui/board"
	"sheaf/ui/login"
	"sheaf/ui/removal"
)

// newFace serves the pages of a small archive of two editions to an account that sees all of it.
func newFace(t *testing.T) string {
	t.Helper()
	return faceOf(t, newSite(t), "")
}

// newSite makes a small archive.
func newSite(t *testing.T) *servetest.Site {
	t.Helper()
	site := servetest.New(t, nil)
	for d := range 40 {
		at := time.Date(2026, 9, 28, 3, 0, 0, 0, time.UTC).AddDate(0, 0, d)
		hosts := make(map[string][]*archive.Record)
		for i, host := range []string{"www.waseda.ac.jp", "waseda.ac.jp", "www.keio.ac.jp", "ring.gr.jp", "www.example.com"} {
			if (d+i)%(i+1) != 0 {
				continue
			}
			for n := range 3 + (d*7+i)%20 {
				hosts[host] = append(hosts[host], servetest.Page(fmt.Sprintf("http://%s/%d.html", host, n), fmt.Sprintf("<html><p>%d %d</p>", d, n), at))
			}
		}
		site.Publish(at.Format("20060102"), hosts)
	}
	return site
}

// robotKey signs the links to robots' pages.
var robotKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

func faceOf(t *testing.T, site *servetest.Site, about string) string {
	t.Helper()
	everything := &account.Account{Domains: []string{"*"}}
	accounts, err := account.NewAccounts(site.DB, everything, servetest.Cheap)
	testkit.Must(t, err)
	noon, err := window.Parse("12:00-13:00 Asia/Tokyo")
	testkit.Must(t, err)
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	testkit.Must(t, err)
	_, _, err = accounts.Create(t.Context(), account.Account{Name: "reader", Domains: []string{"jp", "ac.jp"}}, "reader's password")
	testkit.Must(t, err)
	watches, err := watch.New(watch.Options{DB: site.DB, Records: site.Library.Records, Account: accounts.Find})
	testkit.Must(t, err)
	_, _, err = accounts.CreateToken(t.Context(), "reader", account.Token{Name: "nightly mirror", Uses: []account.Use{account.ForFiles}})
	testkit.Must(t, err)
	moved := transfers.New(site.DB)
	testkit.Must(t, moved.Record(t.Context(), transfers.Transfer{At: time.Now(), Direction: transfers.Download, Protocol: "ftp", Who: "reader",
		Name: "/jp/ac/waseda/www/current.tar.gz", Bytes: 123_456_789, Took: 42 * time.Second, Outcome: transfers.OK}))
	g := guard.New(accounts, nil, "", slog.New(slog.DiscardHandler))
	g.Sessions = session.New(session.Options{DB: site.DB, Slower: testkit.Slower})
	mails := mailer.NewOutbox(site.DB, new(mailer.Server), nil)
	keepers, err := operators.NewStore(site.DB, servetest.Cheap, nil)
	testkit.Must(t, err)
	router := mux.NewRouter()
	testkit.Must(t, ui.Register(router, ui.Options{
		Room: &serve.Room{Library: site.Library, Accounts: accounts, Watches: watches}, Transfers: moved,
		Site:  &webpage.Site{Name: "Kokubunji Web Archive", Contact: "archive@example.jp", Version: "1.0", Zone: tokyo},
		Guard: g, About: about, Publish: noon, FTP: "127.0.0.1:2121",
	}))
	testkit.Must(t, login.Register(router, login.Options{
		Site: &webpage.Site{Name: "Kokubunji Web Archive", Zone: tokyo}, Guard: g, Sessions: g.Sessions, Accounts: accounts, Resets: &httpd.Resets{Site: new(webpage.Site), Accounts: accounts, Mails: mails}, Board: "/board/",
		Operator: func(context.Context, string, string, string) (operators.Operator, string, error) {
			return operators.Operator{}, "", operators.ErrCredentials
		},
		Operators: keepers, OIDC: &login.OIDC{Provider: login.Provider{Issuer: "https://login.example.jp", Label: "Kokubunji University"}},
	}))
	removal.New(removal.Options{DB: site.DB, Site: &webpage.Site{Name: "Kokubunji Web Archive", Zone: tokyo}, Mails: mails}).Register(router, g)
	m := manager.New(site.DB, manager.Options{Key: servicekey.Fixed(robotKey), Dir: t.TempDir()})
	removal.NewVisits(&webpage.Site{Name: "Kokubunji Web Archive", Contact: "archive@example.jp", Zone: tokyo}, m.Roster).Register(router, g)
	_, _, err = m.Roster.Admit(t.Context(), "waseda")
	testkit.Must(t, err)
	board.NewPartners(board.PartnersOptions{
		Site: &webpage.Site{Name: "Kokubunji Web Archive", Zone: tokyo}, Manager: m, DB: site.DB, Transfers: site.Log, Mails: mails,
	}).Register(router, g)
	testkit.Must(t, httpd.Register(router, httpd.Options{
		Library: site.Library, Accounts: accounts, Recorder: site.Log, Watches: watches, Site: &webpage.Site{Name: "Kokubunji Web Archive", Zone: tokyo},
		Sessions: g.Sessions, Gate: func(operators.Role, audit.Act, http.Handler) http.Handler { return http.NotFoundHandler() },
	}))
	server := httptest.NewServer((&webpage.Site{Name: "Kokubunji Web Archive"}).Errors(router))
	t.Cleanup(server.Close)
	return server.URL
}

// get fetches a page as a browser does.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	testkit.Must(t, err)
	r.Header.Set("Accept", "text/html,*/*")
	resp, err := http.DefaultClient.Do(r)
	testkit.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return resp.StatusCode, string(text)
}

func TestFrontPageTellsProgramsTheSame(t *testing.T) {
	testkit.Slow(t)
	base := newFace(t)
	resp, err := http.Get(base + "/")
	testkit.Must(t, err)
	defer resp.Body.Close()
	var front ui.Front
	testkit.Must(t, json.NewDecoder(resp.Body).Decode(&front))
	if front.Hosts != 5 || len(front.Editions) != 10 || front.Stored == 0 {
		t.Errorf("%+v", front)
	}
	if front.Yours != 0 {
		t.Errorf("everybody sees everything, and is told of %d hosts", front.Yours)
	}
	r, err := http.NewRequest(http.MethodGet, base+"/", nil)
	testkit.Must(t, err)
	r.SetBasicAuth("reader", "reader's password")
	resp, err = http.DefaultClient.Do(r)
	testkit.Must(t, err)
	defer resp.Body.Close()
	var theirs ui.Front
	testkit.Must(t, json.NewDecoder(resp.Body).Decode(&theirs))
	if theirs.Hosts != 5 || theirs.Yours != 4 {
		t.Errorf("an account of jp and ac.jp is told of %d hosts, %d of them its own; want 5 and 4", theirs.Hosts, theirs.Yours)
	}
	status, page := get(t, base+"/")
	if status != http.StatusOK || !strings.Contains(page, "Kokubunji Web Archive") {
		t.Errorf("%d %s", status, page)
	}
}

// Whoever knows a part of a host's name finds the host, if the account may see it.
func TestHostsAreFoundByAPart(t *testing.T) {
	base := newFace(t)
	if status, page := get(t, base+"/find?q=ASEDA"); status != http.StatusOK || strings.Count(page, `<li><a href="/browse/jp/ac/waseda/`) != 2 || strings.Contains(page, "keio") {
		t.Errorf("%d %s", status, page)
	}
	if status, page := get(t, base+"/find?q=example"); status != http.StatusOK || !strings.Contains(page, `<a href="/browse/com/example/www/">www.example.com</a>`) {
		t.Errorf("%d %s", status, page)
	}
	if status, page := get(t, base+"/find?q=zzz"); status != http.StatusNotFound {
		t.Errorf("%d %s", status, page)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/find?q=example", nil)
	testkit.Must(t, err)
	r.SetBasicAuth("reader", "reader's password")
	resp, err := http.DefaultClient.Do(r)
	testkit.Must(t, err)
	testkit.Must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("an account of jp finds www.example.com: %d", resp.StatusCode)
	}
}

// A host with more hosts below it than one page lists is shown with its own files on each page.
func TestHostAboveManyHosts(t *testing.T) {
	site := servetest.New(t, nil)
	hosts := make(map[string][]*archive.Record)
	for n := range 502 {
		host := fmt.Sprintf("h%03d.big.jp", n)
		if n == 501 {
			host = "big.jp"
		}
		hosts[host] = []*archive.Record{servetest.Page("http://"+host+"/", "<p>here</p>", time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))}
	}
	site.Publish("20261121", hosts)
	base := faceOf(t, site, "")
	for _, query := range []string{"", "?after=h499"} {
		if status, page := get(t, base+"/browse/jp/big/"+query); status != http.StatusOK || !strings.Contains(page, "/pub/jp/big/20261121.tar.gz") || !strings.Contains(page, "/browse/jp/big/h") {
			t.Errorf("%q: %d %s", query, status, page)
		}
	}
}

// The front page names new pages by their titles, above the commands, and puts the editions of a
// day together.
func TestFrontPageShowsNewPages(t *testing.T) {
	site := servetest.New(t, nil)
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for n, edition := range []string{"20261120", "20261121", "20261121"} {
		site.Publish(edition, map[string][]*archive.Record{"www.waseda.ac.jp": {
			servetest.Page("http://www.waseda.ac.jp/", fmt.Sprintf("<title>Waseda, part %d</title><p>%d", n, n), at.Add(time.Duration(n)*time.Hour))}})
	}
	_, page := get(t, faceOf(t, site, "")+"/")
	title, commands := strings.Index(page, `<a href="/web/20261121050000/http://www.waseda.ac.jp/">Waseda, part 2</a>`), strings.Index(page, "sheaf mirror ")
	if title < 0 || title > commands || strings.Count(page, `<a href="/pub/days/20261121/">`) != 1 || !strings.Contains(page, `<a href="/pub/editions/20261121-2/">`) {
		t.Errorf("title at %d, commands at %d: %s", title, commands, page)
	}
}

// Commands lead readers elsewhere to nothing on loopback: neither to the service, if only a proxy
// knows its name, nor to FTP that listens there. Who is on the same machine is led there.
func TestCommandsLeadNobodyToLoopback(t *testing.T) {
	base := faceOf(t, newSite(t), "")
	front := func(header ...string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/", nil)
		testkit.Must(t, err)
		r.Header.Set("Accept", "text/html")
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		testkit.Must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		testkit.Must(t, err)
		return string(body)
	}
	if page := front(); !strings.Contains(page, "sheaf mirror "+base) || !strings.Contains(page, "ftp://127.0.0.1:2121") {
		t.Errorf("on the same machine: %s", page)
	}
	for _, header := range []string{"X-Forwarded-For", "Forwarded"} {
		if page := front(header, "192.0.2.7"); strings.Contains(page, "127.0.0.1") {
			t.Errorf("with %s: %s", header, page)
		}
	}
}

// A host's calendar leads to its home page as it was on a day, and names the days of the week.
func TestCalendarOpensTheDaysHomePage(t *testing.T) {
	base := faceOf(t, newSite(t), "")
	ask := func(language string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/browse/jp/ac/waseda/www/", nil)
		testkit.Must(t, err)
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Accept-Language", language)
		resp, err := http.DefaultClient.Do(r)
		testkit.Must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		testkit.Must(t, err)
		return string(body)
	}
	page := ask("en")
	if days := regexp.MustCompile(`<td><a href="/web/[0-9]{8}/http://www\.waseda\.ac\.jp/" title="[0-9]+ captures?">[0-9]+</a></td>`).FindAllString(page, -1); len(days) < 2 || !strings.Contains(page, `<th scope="col">Mo</th><th scope="col">Tu</th>`) {
		t.Errorf("%d days lead to the home page: %s", len(days), page)
	}
	if !strings.Contains(page, "<dd>22 pages, ") {
		t.Errorf("its pages are not counted: %s", page)
	}
	if page := ask("ja"); !strings.Contains(page, `<th scope="col">月</th>`) {
		t.Errorf("in Japanese: %s", page)
	}
}
