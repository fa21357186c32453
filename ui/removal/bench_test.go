package removal_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/mailer"
	"sheaf/internal/testkit"
	"sheaf/internal/webpage"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
	"sheaf/serve/httpd/guard"
	"sheaf/test/mailtest"
	"sheaf/test/removaltest"
	"sheaf/ui/removal"
)

// downs notes what is taken down.
type downs struct {
	mu     sync.Mutex
	stones []catalog.Tombstone
	fail   error
}

func (d *downs) Take(_ context.Context, stones ...catalog.Tombstone) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return 0, d.fail
	}
	d.stones = append(d.stones, stones...)
	return 1, nil
}

func (d *downs) TakeDomain(ctx context.Context, domain, reason, by string) (int, error) {
	_, err := d.Take(ctx, catalog.Tombstone{Host: "*." + domain, Reason: reason, By: by})
	return 1, err
}

func (d *downs) TakePorts(ctx context.Context, host, reason, by string) (int, error) {
	_, err := d.Take(ctx, catalog.Tombstone{Host: host + ":*", Reason: reason, By: by})
	return 1, err
}

// bench is a desk with its pages, mail server, and an internet of its own.
type bench struct {
	*removal.Desk
	*testing.T
	internet *removaltest.Internet
	mails    *mailtest.Server
	downs    *downs
	hosts    *hosts.Registry
	router   *mux.Router
	now      time.Time
	db       *sql.DB
}

func newBench(t *testing.T) *bench {
	t.Helper()
	d, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	t.Cleanup(func() { d.Close() })
	b := &bench{T: t, mails: mailtest.New(t), downs: new(downs), now: time.Now(), db: d, internet: removaltest.New(t), router: mux.NewRouter()}
	b.internet.Name(www, removaltest.Public)
	outbox := mailer.NewOutbox(d, b.mails.Server, nil)
	b.hosts = hosts.New(d, assign.New(d, 0, nil), hosts.Policy{Accept: []string{"*"}}, b.internet, nil)
	b.Desk = removal.New(removal.Options{
		DB: d, Site: &webpage.Site{Name: "Archive", Contact: "ops@archive.example.jp"}, Mails: outbox, Base: "https://archive.test",
		Network: b.internet.Network(), Takedowns: b.downs, Hosts: b.hosts,
	})
	b.At(func() time.Time { return b.now })
	b.Register(b.router, guard.New(nil, nil, "", slog.New(slog.DiscardHandler)))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- outbox.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return b
}

// browse sends what a browser sends.
func (b *bench) browse(method, path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	r.Header.Set("Accept", "text/html")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.router.ServeHTTP(w, r)
	return w
}

func wishFor(kind, target string) url.Values {
	return url.Values{"wish": {"removal"}, "kind": {kind}, "target": {target}, "email": {"owner@mail.example"}, "reason": {"it is private"}}
}

// ask files a request and returns the path of its page.
func (b *bench) ask(form url.Values, header ...string) string {
	b.Helper()
	w := b.browse("POST", removal.Path, form, header...)
	if w.Code != http.StatusSeeOther {
		b.Fatalf("%v: %d %s", form, w.Code, w.Body)
	}
	return w.Header().Get("Location")
}

// act takes a step on a request's page.
func (b *bench) act(status int, page string, pairs ...string) string {
	b.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	w := b.browse("POST", page, form)
	if w.Code != status {
		b.Errorf("%v: %d, want %d: %s", pairs, w.Code, status, w.Body)
	}
	b.now = b.now.Add(time.Minute) // between two steps
	return w.Body.String()
}

func idOf(page string) string { return strings.Split(page, "/")[2] }

func (b *bench) state(page string) removal.State {
	b.Helper()
	r, err := b.Get(b.Context(), idOf(page))
	testkit.Must(b, err)
	return r.State
}

var tokens = regexp.MustCompile(`sheaf-removal-[0-9a-f]{32}`)

func (b *bench) token(page string) string {
	b.Helper()
	token := tokens.FindString(b.browse("GET", page, nil).Body.String())
	if token == "" {
		b.Fatalf("%s shows no token", page)
	}
	return token
}

// letters waits until so many letters to an address have come.
func (b *bench) letters(address string, n int) []mailtest.Letter {
	b.Helper()
	var list []mailtest.Letter
	testkit.Until(b, "letters to "+address, func() bool { list = b.mails.To(b, address); return len(list) >= n })
	return list
}

var codes = regexp.MustCompile(`[A-Z2-7]{5}-[A-Z2-7]{5}`)

// code has the n-th code sent to an address, and returns it.
func (b *bench) code(page, address string, n int) string {
	b.Helper()
	b.act(http.StatusSeeOther, page, "act", "send", "address", address)
	return codes.FindString(b.letters(address, n)[n-1].Text)
}

func contains(list []catalog.Tombstone, want catalog.Tombstone) bool {
	return slices.ContainsFunc(list, func(t catalog.Tombstone) bool { return t.Host == want.Host && t.URLPrefix == want.URLPrefix })
}
