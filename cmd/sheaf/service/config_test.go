package service

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"sheaf/archive/store"
	"sheaf/internal/api"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/operators"
	"sheaf/internal/passwords"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/servetest"
	"sheaf/test/mailtest"
)

func TestBadSettingsNameKeyAndValue(t *testing.T) {
	for _, c := range []struct{ yaml, key, value string }{
		{"zone: Mars/Olympus", "zone", "Mars/Olympus"},
		{"publish: {window: '25:00-26:00'}", "publish.window", "25:00-26:00"},
		{"http: {listen: nowhere}", "http.listen", "nowhere"},
		{"http: {proxies: [proxy.example.jp]}", "http.proxies", "proxy.example.jp"},
		{"drop: {proxies: [192.0.2.0/33]}", "drop.proxies", "192.0.2.0/33"},
		{"download: {ports: [9, 1]}", "download.ports", "[9 1]"},
		{"drop: {public: 2001:db8::1}", "drop.public", "2001:db8::1"},
		{"poll: -1s", "poll", "-1s"},
		{"access: {contact: ops@example.jp}", "access.contact", "ops@example.jp"},
		{"{http: {listen: ':80'}, watch: {mail: {server: 'mail.waseda.ac.jp:25', from: a@waseda.ac.jp}}}", "watch.mail.server", "needs http.public"},
		{"{http: {listen: ':80'}, login: {oidc: {issuer: 'https://login.waseda.ac.jp'}}}", "login.oidc.issuer", "needs http.public"},
		{"packs: {below: 1MB}", "packs.below", "1MB"},
		{"packs: {below: 1GiB}", "packs.below", "1073741824"},
		{"packs: {below: -1}", "packs.below", "-1"},
		{"stop: soon", "stop", "soon"},
		{"uploads: {full: 101}", "uploads.full", "101"},
		{"uploads: {full: 19}", "uploads.full", "want 20 to 100"},
		{"uploads: {accepted: bucket}", "uploads.accepted", "bucket"},
		{"store: {kind: floppy}", "store.kind", "floppy"},
		{"store: {bucket: b}", "store.kind", "fs"},
		{"store: {kind: s3, bucket: b, endpoint: 's3.example.jp'}", "store.endpoint", "s3.example.jp"},
		{"store: {kind: s3, bucket: b, endpoint: 'http://s3', public: files.example.jp}", "store.public", "files.example.jp"},
		{"store: {public: 'https://files.example.jp'}", "store.kind", "fs"},
		{"http: {redirect: {at: 64MiB}}", "http.redirect.at", "67108864"},
		{"store: {kind: s3, endpoint: 'http://localhost'}", "store.bucket", `""`},
		{"store: {kind: s3, endpoint: 'http://localhost', bucket: b, prefix: a//b}", "store.prefix", "a//b"},
		{"store: {kind: s3, endpoint: 'http://localhost', bucket: b, access_key: me}", "store.access_key", "me"},
		{"store: {kind: s3, endpoint: 'http://localhost', bucket: b, access_key: me, secret_key: x, secret_key_file: f}", "store.secret_key_file", "f"},
		{"store: {scrub: {rate: 0}}", "store.scrub.rate", "want above 0"},
		{"database: {url: 'mysql://localhost/sheaf'}", "database.url", "postgres://"},
		{"lease: {kind: luck}", "lease.kind", "luck"},
		{"lease: {ttl: 1s}", "lease.ttl", "1s"},
		{"lease: {kind: quorum}", "lease.quorum.members", "[]"},
		{"lease: {quorum: {members: ['localhost:9466']}}", "lease.kind", "database"},
		{"lease: {kind: quorum, quorum: {members: [localhost]}}", "lease.quorum.members", "localhost"},
		{"lease: {kind: quorum, quorum: {members: ['localhost:9466'], secret: short}}", "lease.quorum.secret", "5 characters"},
		{"lease: {kind: quorum, quorum: {members: ['localhost:9466'], address: 'localhost:9466'}}", "lease.quorum.address", "lease.quorum.listen"},
		{"tls: {key: a.pem}", "tls.cert", "tls.key"},
		{"tls: {acme: {names: ['*.example.jp']}}", "tls.acme.names", "*.example.jp"},
		{"tls: {cert: a, key: b, acme: {names: [archive.example.jp]}}", "tls.acme.names", "tls.cert"},
		{"tls: {acme: {directory: 'http://acme.example.jp/dir'}}", "tls.acme.directory", "https"},
		{"tls: {hsts: -1s}", "tls.hsts", "-1s"},
		{"download: {implicit: ':990'}", "download.implicit", "tls.cert"},
		{"download: {listen: '', implicit: ':990', cert: a, key: b}", "download.implicit", "download.listen"},
		{"replay: {origin: replay.example.jp}", "replay.origin", "replay.example.jp"},
		{"replay: {origin: 'https://replay.example.jp/web'}", "replay.origin", "/web"},
		{"{http: {public: 'https://a.example.jp'}, replay: {origin: 'https://A.example.jp:443/'}}", "replay.origin", "http.public"},
		{"database: {wait: -1s}", "database.wait", "-1s"},
		{"metrics: 9465", "metrics", "host:port, or nothing"},
		{"http: {public: archive.example.jp}", "http.public", "http or https URL, or nothing"},
		{"watch: {mail: {tls: ssl}}", "watch.mail.tls", "starttls, tls or none"},
		{"balance: {at: '25:00'}", "balance.at", "25:00"},
		{"balance: {lease: 5m}", "balance.lease", "5m"},
		{"log: {format: xml}", "log.format", "text or json"},
		{"import: {max_bytes: 0}", "import.max_bytes", "0"},
		{"import: {max_bytes: much}", "import.max_bytes", "much"},
		{"import: {max_entries: -1}", "import.max_entries", "-1"},
		{"colour: red", "colour", ""},
	} {
		file := filepath.Join(t.TempDir(), "sheaf.yaml")
		if err := os.WriteFile(file, []byte(c.yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(file, nil)
		if err == nil || !strings.Contains(err.Error(), c.key) || !strings.Contains(err.Error(), c.value) {
			t.Errorf("%s: error %v names not key %s and value %s", c.yaml, err, c.key, c.value)
		}
	}
}

// A settings file that is cut off somewhere, as by an editor or a full disk, is refused by its
// name, or by the setting that is cut, where it is not a whole file by chance.
func TestHalfWrittenSettings(t *testing.T) {
	testkit.Slow(t)
	whole, err := os.ReadFile("../../../deploy/sheaf.yaml")
	testkit.Must(t, err)
	file := filepath.Join(t.TempDir(), "sheaf.yaml")
	refused := 0
	for n := 1; n < len(whole); n += 97 {
		testkit.Must(t, os.WriteFile(file, whole[:n], 0o600))
		_, err := Load(file, nil)
		if err == nil {
			continue
		}
		refused++
		if text := err.Error(); !strings.HasPrefix(text, "settings: ") {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	if refused < 5 {
		t.Errorf("%d of the cut files were refused", refused)
	}
	for text, says := range map[string]string{
		"http: {listen: 127.0.0.1:1":                           file, // a brace is missing
		"http:\n  listen: \"127.0.0.1:1\n":                     file, // a quote is missing
		"publish:\n  window: 12:00-\n":                         "publish.window",
		"http:\n  cert: /etc/sheaf/cert.pem\n":                 "http.key", // the next line has not come
		"store:\n  kind: s3\n  endpoint: http://127.0.0.1:1\n": "store.bucket",
		"http:\n  listen":                                      "http",
	} {
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
		if _, err := Load(file, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error that names %s", text, err, says)
		}
	}
}

func TestEnvironmentAndOverrides(t *testing.T) {
	t.Setenv("SHEAF_HTTP_LISTEN", "127.0.0.1:1")
	t.Setenv("SHEAF_HOSTS_SUFFIXES", "jp,test")
	t.Setenv("SHEAF_PACKS_BELOW", "64KiB")
	c, err := Load("", map[string]any{"publish.window": "always"})
	if err != nil {
		t.Fatal(err)
	}
	if c.HTTP.Listen != "127.0.0.1:1" || !reflect.DeepEqual(c.Manager.Hosts.Accept, []string{"jp", "test"}) || c.Ingest.Publish.Window != "always" || c.Ingest.Packs.Below != 64<<10 {
		t.Errorf("%+v", c)
	}
}

func TestSplitRolesNeedPostgres(t *testing.T) {
	for _, c := range []struct{ roles, value, says string }{
		{"serve", `"serve"`, "database.url"},
		{"manager,ingest", `"manager,ingest"`, "PostgreSQL"},
		{"serve,cook", `"cook"`, "want some of"},
		{"serve,serve", `"serve"`, "twice"},
		{"", `""`, "want some of"},
	} {
		_, err := Load("", map[string]any{"roles": c.roles})
		if err == nil || !strings.Contains(err.Error(), "settings: roles: "+c.value) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("roles %q: %v", c.roles, err)
		}
	}
	got, err := Load("", map[string]any{"roles": "serve,manager", "database.url": "postgres://db.example.jp/sheaf"})
	if err != nil || !reflect.DeepEqual(got.Roles, []string{"serve", "manager"}) {
		t.Errorf("%v, %v", got.Roles, err)
	}
	if _, err := Load("", map[string]any{"roles": "serve,ingest,manager"}); err != nil {
		t.Errorf("all roles on SQLite: %v", err)
	}
}

// run runs a service with some roles until the test ends.
func run(t *testing.T, settings map[string]any) *Service {
	t.Helper()
	s, _ := start(t, settings)
	return s
}

// start is run for a service that the test stops before its end.
func start(t *testing.T, settings map[string]any) (s *Service, stop func() error) {
	t.Helper()
	s, err := New(t.Context(), testConfig(t, settings), slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	return s, serveUntilEnd(t, s)
}

// serveUntilEnd lets a service serve until the test ends, or stops it before.
func serveUntilEnd(t *testing.T, s *Service) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("service: %v", err)
		}
	})
	return stop
}

// Each process listens, answers and writes as its role has it, and no further.
func TestRoles(t *testing.T) {
	testkit.Slow(t)
	database, shared := dbtest.Postgres(t), t.TempDir()
	paths := map[string]string{ // a path of each role, which answers 401 where it is
		roleManager: "/v1/admin/robots", roleIngest: "/v1/admin/batches", roleServe: "/pub/",
	}
	for _, role := range allRoles() {
		s := run(t, map[string]any{
			"roles": role, "data": shared, "database.url": database,
			"http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "127.0.0.1:0", "drop.listen": "127.0.0.1:0", "stop": "1s",
		})
		at := s.Addresses()
		if (at.Download != "") != (role == roleServe) || (at.Drop != "") != (role == roleIngest) {
			t.Errorf("%s listens at %+v", role, at)
		}
		for of, path := range paths {
			resp, err := http.Get(at.HTTP + path)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if (resp.StatusCode == http.StatusUnauthorized) != (of == role) || (resp.StatusCode == http.StatusNotFound) != (of != role) {
				t.Errorf("%s answers %s with %s", role, path, resp.Status)
			}
		}
		checkHealth(t, at.HTTP, role)

		put := func(key string) bool {
			err := s.cfg.confined(s.state.objects).Put(t.Context(), key, strings.NewReader("x"), 1)
			if err != nil && !errors.Is(err, store.ErrConfined) {
				t.Error(err)
			}
			return err == nil
		}
		if got := put("segments/" + role); got != (role == roleIngest) {
			t.Errorf("%s may write archives: %v", role, got)
		}
		if got := put("releases/" + role); got != (role != roleServe) {
			t.Errorf("%s may write releases: %v", role, got)
		}
	}
}

func checkHealth(t *testing.T, url, role string) {
	t.Helper()
	for query, want := range map[string]int{"": 200, "?role=" + role: 200, "?role=cook": 503} {
		resp, err := http.Get(url + api.PathHealth + query)
		if err != nil {
			t.Fatal(err)
		}
		var h Health
		if err := json.NewDecoder(resp.Body).Decode(&h); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || !reflect.DeepEqual(h.Roles, []string{role}) || h.Database != healthOK {
			t.Errorf("%s%s: %s, %+v; want %d", api.PathHealth, query, resp.Status, h, want)
		}
	}
}

// A serve node needs no key of the service's and makes none; one that signs with
// another key than the robots know does not start.
func TestKeysOfSeveral(t *testing.T) {
	testkit.Slow(t)
	database := dbtest.Postgres(t)
	settings := func(roles string) map[string]any {
		return map[string]any{
			"roles": roles, "data": t.TempDir(), "database.url": database,
			"http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "", "stop": "1s",
		}
	}
	run(t, settings("manager,ingest"))
	serving := settings("serve")
	run(t, serving)
	if _, err := os.Stat(filepath.Join(serving["data"].(string), receiptKeyFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a serve node has a key: %v", err)
	}
	other := settings("manager")
	cfg, err := Load("", other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "settings: data") || !strings.Contains(err.Error(), receiptKeyFile) {
		t.Errorf("with another key: %v", err)
	}
}

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
