package operators_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/session"
	"sheaf/internal/testkit"
)

func openAt(t *testing.T, source string) *sql.DB {
	t.Helper()
	d, err := db.Open(t.Context(), source)
	testkit.Must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// browser keeps a cookie.
type browser struct{ cookie string }

func (b *browser) request() *http.Request {
	r := httptest.NewRequest("GET", "/account?x=1", nil)
	if b.cookie != "" {
		r.Header.Set("Cookie", "sheaf_session="+b.cookie)
	}
	return r
}

func (b *browser) take(t *testing.T, w *httptest.ResponseRecorder) *http.Cookie {
	t.Helper()
	cookies := w.Result().Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d cookies", len(cookies))
	}
	b.cookie = cookies[0].Value
	return cookies[0]
}

func (b *browser) login(t *testing.T, s *session.Sessions, kind session.Kind, name string) *http.Cookie {
	t.Helper()
	w := httptest.NewRecorder()
	testkit.Must(t, s.Begin(w, b.request(), session.Who{Kind: kind, Name: name, Mark: "m"}))
	return b.take(t, w)
}

func (b *browser) who(t *testing.T, s *session.Sessions, kind session.Kind) string {
	t.Helper()
	who, _, err := s.Who(b.request(), kind)
	testkit.Must(t, err)
	return who.Name
}

// A session that begins in one process is known in another, in both databases. A token that was in
// the browser before the log-in is worth nothing afterwards, and a copy of a token nothing after
// log-out.
func TestSessions(t *testing.T) {
	testkit.Slow(t)
	for engine, source := range map[string]func(testing.TB) string{"SQLite": dbtest.SQLite, "PostgreSQL": dbtest.Postgres} {
		t.Run(engine, func(t *testing.T) {
			d := openAt(t, source(t))
			one, two := session.New(session.Options{DB: d, Slower: testkit.Slower}), session.New(session.Options{DB: d, Slower: testkit.Slower})
			b := &browser{cookie: "planted"}
			c := b.login(t, one, session.Account, "alice")
			if b.cookie == "planted" || !c.HttpOnly || c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" {
				t.Errorf("%+v", c)
			}
			if got := b.who(t, two, session.Account); got != "alice" {
				t.Errorf("the other process knows %q", got)
			}
			if got := b.who(t, two, session.Operator); got != "" {
				t.Errorf("an account is the operator %q", got)
			}
			before := *b
			b.login(t, two, session.Operator, "ops")
			if b.cookie == before.cookie || before.who(t, one, session.Account) != "" {
				t.Error("the token from before the log-in is good after it")
			}
			if b.who(t, one, session.Account) != "alice" || b.who(t, one, session.Operator) != "ops" {
				t.Error("one log-in ends the other")
			}
			var stored string
			testkit.Must(t, d.QueryRow(`SELECT token FROM sessions`).Scan(&stored)) // there is one
			if strings.Contains(stored, b.cookie) {
				t.Error("the database has the token")
			}
			copied := *b
			w := httptest.NewRecorder()
			testkit.Must(t, one.End(w, b.request()))
			if c := b.take(t, w); c.MaxAge >= 0 || copied.who(t, two, session.Account) != "" {
				t.Errorf("after log-out: %+v, %q", c, copied.who(t, two, session.Account))
			}
		})
	}
}

// A session that is used goes on, to the end of its life; one that is not used ends. Both are then
// deleted.
func TestSessionsEnd(t *testing.T) {
	source := dbtest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		d := openAt(t, source)
		s := session.New(session.Options{DB: d, Idle: time.Hour, Life: 5 * time.Hour})
		used, idle := new(browser), new(browser)
		used.login(t, s, session.Account, "used")
		idle.login(t, s, session.Account, "idle")
		for n := range 9 {
			time.Sleep(30 * time.Minute)
			if used.who(t, s, session.Account) != "used" {
				t.Fatalf("a session that is used ends after %d half hours", n+1)
			}
		}
		if idle.who(t, s, session.Account) != "" {
			t.Error("an idle session does not end")
		}
		time.Sleep(31 * time.Minute)
		if used.who(t, s, session.Account) != "" {
			t.Error("a session has no end")
		}
		ctx, stop := context.WithCancel(t.Context())
		go s.Run(ctx, func(err error) { t.Error(err) })
		synctest.Wait()
		stop()
		synctest.Wait()
		var left int
		testkit.Must(t, d.QueryRow(`SELECT COUNT(*) FROM sessions`).Scan(&left))
		if left != 0 {
			t.Errorf("%d sessions are left", left)
		}
	})
}

// A session that began while the clock was a year ahead does not go on for a year once the clock is
// right: it is over.
func TestSessionOfAClockThatWasAhead(t *testing.T) {
	source := dbtest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		d := openAt(t, source)
		s := session.New(session.Options{DB: d, Idle: time.Hour, Life: 5 * time.Hour})
		for ahead, want := range map[time.Duration]string{time.Minute: "sato", 365 * 24 * time.Hour: ""} {
			b := new(browser)
			b.login(t, s, session.Account, "sato")
			_, err := d.Exec(`UPDATE sessions SET begun = begun + ?, expires = expires + ?`, ahead.Milliseconds(), ahead.Milliseconds())
			testkit.Must(t, err)
			if got := b.who(t, s, session.Account); got != want {
				t.Errorf("the clock was %v ahead: %q is logged in, want %q", ahead, got, want)
			}
			_, err = d.Exec(`DELETE FROM sessions`)
			testkit.Must(t, err)
		}
	})
}

// While the database hangs, a request learns in time that nobody can say who has logged in.
func TestSessionsWhileTheDatabaseHangs(t *testing.T) {
	source := dbtest.SQLite(t)
	for slower, want := range map[int]time.Duration{0: 3 * time.Second, 1: 3 * time.Second, testkit.Slower: testkit.Slower * 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			d := openAt(t, source)
			d.SetMaxOpenConns(1) // and the one is taken
			taken, err := d.Conn(t.Context())
			testkit.Must(t, err)
			defer taken.Close()
			s, began := session.New(session.Options{DB: d, Slower: slower}), time.Now()
			_, _, err = s.Who((&browser{"a token"}).request(), session.Account)
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != want {
				t.Errorf("%d times slower: %v after %v, want it after %v", slower, err, took, want)
			}
		})
	}
}

// Cookies are kept to TLS where the client came by TLS, also if that ends at a proxy.
func TestSecureCookies(t *testing.T) {
	d := openAt(t, dbtest.SQLite(t))
	for name, c := range map[string]struct {
		public, url string
		want        bool
	}{
		"plain":          {"", "http://127.0.0.1/", false},
		"public is http": {"http://archive.example.jp", "http://127.0.0.1/", false},
		"behind a proxy": {"https://archive.example.jp", "http://127.0.0.1/", true},
		"TLS":            {"", "https://archive.example.jp/", true},
	} {
		s := session.New(session.Options{DB: d, Slower: testkit.Slower, Public: c.public})
		w := httptest.NewRecorder()
		testkit.Must(t, s.Begin(w, httptest.NewRequest("GET", c.url, nil), session.Who{Kind: session.Account, Name: "alice", Mark: "m"}))
		cookie := w.Result().Cookies()[0]
		if cookie.Secure != c.want || strings.HasPrefix(cookie.Name, "__Host-") != c.want || cookie.Path != "/" {
			t.Errorf("%s: %+v", name, cookie)
		}
		// A cookie of the plain name is nothing over TLS: another host of the domain can have
		// planted it.
		for given, want := range map[string]bool{cookie.Name: true, "sheaf_session": !c.want} {
			r := httptest.NewRequest("GET", c.url, nil)
			r.AddCookie(&http.Cookie{Name: given, Value: cookie.Value})
			if _, ok, err := s.Who(r, session.Account); err != nil || ok != want {
				t.Errorf("%s: somebody is logged in by %s: %t, %v", name, given, ok, err)
			}
		}
	}
}

// Browsers without credentials are led to the log-in page and back; programs, forms, and browsers
// that have given a password are not.
func TestAsk(t *testing.T) {
	s := session.New(session.Options{DB: openAt(t, dbtest.SQLite(t)), Slower: testkit.Slower})
	for name, c := range map[string]struct {
		method, accept, authorization string
		want                          bool
	}{
		"browser": {"GET", "text/html,*/*", "", true},
		"program": {"GET", "*/*", "", false},
		"form":    {"POST", "text/html", "", false},
		"wrong":   {"GET", "text/html", "Basic eDp5", false},
	} {
		r := httptest.NewRequest(c.method, "/board/hosts?state=pending", nil)
		r.Header.Set("Accept", c.accept)
		r.Header.Set("Authorization", c.authorization)
		w := httptest.NewRecorder()
		asked := s.Ask(w, r)
		if asked != c.want || asked && w.Header().Get("Location") != "/login?next=%2Fboard%2Fhosts%3Fstate%3Dpending" {
			t.Errorf("%s: %v %v", name, asked, w.Header())
		}
	}
	if (*session.Sessions)(nil).Ask(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) {
		t.Error("without sessions there is a log-in page")
	}
}
