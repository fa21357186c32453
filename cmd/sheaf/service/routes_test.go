package service

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"sheaf/internal/testkit"
	"sheaf/serve/account"
)

// Who asks.
const (
	nobody    = "nobody"
	browser   = "browser without log-in"
	byBasic   = "account by Basic"
	bySession = "account by session"
	forAll    = "token for all"
	forFiles  = "token for files"
	forQuery  = "token for queries"
	forWatch  = "token for watches"
	asBearer  = "token for all as Bearer"
	operator  = "operator by token"
	opSession = "operator by session"
)

// may says for a kind of route who gets an answer from it.
var may = map[string][]string{
	"everybody": {nobody, browser, byBasic, bySession, forAll, forFiles, forQuery, forWatch, asBearer, operator, opSession},
	"account":   {byBasic, bySession, forAll, asBearer},
	"replay":    {byBasic, bySession, forAll, asBearer, opSession},
	"files":     {byBasic, bySession, forAll, asBearer, forFiles, opSession},
	"published": {byBasic, bySession, forAll, asBearer, forFiles, forQuery, opSession},
	"queries":   {byBasic, bySession, forAll, asBearer, forQuery, opSession},
	"watches":   {byBasic, bySession, forAll, asBearer, forWatch},
	"owner":     {byBasic, bySession},
	"operators": {operator, opSession},
	"robots":    nil, // by their own secrets
}

// kinds says of what kind a route is: by method and path, or by the longest prefix of its path.
var kinds = map[string]string{
	"/": "everybody", "/login": "everybody", "/logout": "everybody", "/webmasters": "everybody", "/removal": "everybody", "/robot/": "everybody", "/robots/": "everybody", "/v1/robots/visits": "everybody", "/language/": "everybody", "/static/": "everybody",
	"/favicon.svg": "everybody", "/favicon.ico": "everybody", "/robots.txt": "everybody", "/.well-known/": "everybody", "/board": "everybody",
	"/livez": "everybody", "/readyz": "everybody", "/healthz": "everybody", "/v1/openapi.yaml": "everybody", "/install.sh": "everybody", "/v1/programs/": "everybody",
	"/pub":  "everybody", // leads to /pub/
	"/pub/": "files", "/a/": "files",
	"/v1/hosts": "published", "/v1/editions": "published", "/v1/version": "published", "/v1/collections": "published", "/v1/changes": "published",
	"/v1/cdx": "queries", "/v1/coverage": "queries", "/v1/inlinks": "queries", "/v1/pages": "queries", "/v1/tables/": "queries", "/v1/jobs": "queries", "/web/": "queries", "/timegate/": "queries",
	"/timemap/": "queries", "/diff": "queries", "/find": "queries", "/browse/": "queries",
	"/v1/watches": "watches", "/v1/watches/{id}/confirm/": "everybody", "/v1/watches/{id}/stop/": "everybody",
	"/watches": "account", "/account": "account", "POST /account": "owner", "/replay/": "replay", "/v1/tokens": "owner",
	"/board/": "operators", "/v1/admin/": "operators", "/v1/transfers": "operators", "/v1/audit": "operators", "/v1/operator/": "operators",
	"/v1/robots/join": "everybody", "/releases/": "everybody", "/v1/robots/": "robots", "/servlets/": "robots", "/v1/batches/": "robots",
}

// leaving is a client that has enough of an answer when it begins, for an answer without an end.
type leaving struct {
	*httptest.ResponseRecorder
	leave func()
}

func (l leaving) Write(p []byte) (int, error) {
	l.leave()
	return l.ResponseRecorder.Write(p)
}

func kindOf(method, path string) (kind string) {
	if kind, ok := kinds[method+" "+path]; ok {
		return kind
	}
	longest := -1
	for prefix, k := range kinds {
		if exact := prefix == "/" || prefix == "/pub" || prefix == "/board"; len(prefix) > longest && (path == prefix || !exact && strings.HasPrefix(path, prefix)) {
			kind, longest = k, len(prefix)
		}
	}
	return kind
}

// Each route of the service answers whom it is for and refuses all others: nobody, accounts by
// password, by session and by tokens of each use, and operators. A route that is new here needs a
// kind.
func TestWhoMayWhat(t *testing.T) {
	s := newTestService(t)
	accounts := addAccount(t, s, "alice", "secret")
	token := func(u account.Use) string {
		_, secret, err := accounts.CreateToken(t.Context(), "alice", account.Token{Name: string(u), Uses: []account.Use{u}})
		testkit.Must(t, err)
		return secret
	}
	basic := func(name, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(name, password) }
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	all := token(account.ForAll)
	as := map[string]func(*http.Request){
		nobody: func(*http.Request) {}, browser: header("Accept", "text/html"),
		byBasic: basic("alice", "secret"), bySession: header("Cookie", logIn(t, s, "alice", "secret", "", "/account")),
		forAll: basic("alice", all), asBearer: header("Authorization", "Bearer "+all),
		forFiles: basic("alice", token(account.ForFiles)), forQuery: basic("alice", token(account.ForQueries)), forWatch: basic("alice", token(account.ForWatches)),
		operator: header("Authorization", "Bearer "+s.OperatorToken()), opSession: header("Cookie", logIn(t, s, "ops", s.OperatorToken(), "", "/board/")),
	}
	variables := strings.NewReplacer("{id}", "w1", "{token}", "00", "{lang}", "en", "{form}", ".warc.gz", "{place}", "", "{path}", "", "{file}", "a.example.tar.gz",
		"{host}", "a.example", "{name}", "nobody", "{robot}", "r1", "{batch}", "b1")
	asked := 0
	ask := func(who, method, path string) int {
		asked++
		r := httptest.NewRequest(method, path, strings.NewReader("{"))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = fmt.Sprintf("[2001:db8:0:%x::1]:7", asked) // the limit of guesses is tested elsewhere
		as[who](r)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		leave := cancel
		if path != "/board/live" {
			leave = func() {}
		}
		w := leaving{httptest.NewRecorder(), leave}
		s.router.ServeHTTP(w, r.WithContext(ctx))
		if admin := strings.HasPrefix(path, "/board") || strings.HasPrefix(path, "/v1/admin"); admin && w.Header().Get("Cache-Control") == "" {
			t.Errorf("%s %s as %s: caches may keep the answer, %d", method, path, who, w.Code)
		}
		if w.Code == http.StatusSeeOther && strings.HasPrefix(w.Header().Get("Location"), "/login?") {
			return http.StatusUnauthorized
		}
		return w.Code
	}
	seen := map[string]int{}
	testkit.Must(t, s.router.Walk(func(r *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template, err := r.GetPathTemplate()
		testkit.Must(t, err)
		template = pattern.ReplaceAllString(template, "{$1}")
		path := variables.Replace(template)
		methods, err := r.GetMethods()
		if err != nil { // it has any
			methods = []string{http.MethodGet}
		}
		for _, method := range methods {
			if method == http.MethodOptions || method == http.MethodHead || path == "/logout" {
				continue // the guard answers the first; the last would end the sessions of this test
			}
			kind := kindOf(method, template)
			if seen[kind]++; kind == "" {
				t.Errorf("%s %s is of no kind: say in kinds who may use it", method, template)
				continue
			}
			for who := range as {
				code := ask(who, method, path)
				refused := code == http.StatusUnauthorized || code == http.StatusForbidden && path != "/login"
				wanted := slices.Contains(may[kind], who)
				if kind != "operators" && kind != "everybody" && who == opSession && method != http.MethodGet {
					wanted = false // as readers, operators only read
				}
				if refused == wanted {
					t.Errorf("%s %s (%s) as %s: %d", method, cmp.Or(path, template), kind, who, code)
				}
			}
		}
		return nil
	}))
	for kind := range may {
		if seen[kind] == 0 {
			t.Errorf("no route is of the kind %s", kind)
		}
	}
}
