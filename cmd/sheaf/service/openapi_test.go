package service

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/internal/webpage"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// ofAllRoutes is the text of the description. Making it takes a tenth of a second.
var ofAllRoutes = sync.OnceValues(func() ([]byte, error) { return openapiDocument(routes()...) })

// description reads the description and checks it by itself.
func description(t *testing.T) *openapi3.T {
	t.Helper()
	text, err := ofAllRoutes()
	testkit.Must(t, err)
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// newTestService makes a service with all its roles, which does not run.
func newTestService(t *testing.T) *Service {
	t.Helper()
	settings := map[string]any{"data": t.TempDir()}
	if os.Getenv(dbtest.Engine) == "postgres" {
		settings["database.url"] = dbtest.Postgres(t)
	}
	s, err := New(t.Context(), testConfig(t, settings), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// pattern is what a variable of a route must match, which a description has elsewhere.
var pattern = regexp.MustCompile(`\{(\w+):[^}]*\}`)

// slashes is a variable that takes the rest of a path.
var slashes = regexp.MustCompile(`\{(path|url)\}$`)

// TestEveryRouteIsDescribed holds the description to the router, both ways.
func TestEveryRouteIsDescribed(t *testing.T) {
	doc := description(t)
	described := func(path, method string) bool {
		for p, item := range doc.Paths.Map() {
			under := strings.HasSuffix(path, "/") && strings.HasPrefix(p, path) // the route takes all below it
			if (p == path || under) && item.GetOperation(method) != nil {
				return true
			}
		}
		return false
	}
	routes := map[string][]string{}
	err := newTestService(t).router.Walk(func(r *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := r.GetPathTemplate()
		if err != nil {
			return err
		}
		path = pattern.ReplaceAllString(path, "{$1}")
		methods, _ := r.GetMethods() // none: any
		if len(methods) == 0 {
			methods = []string{http.MethodGet}
		}
		routes[path] = append(routes[path], methods...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, methods := range routes {
		for _, method := range methods {
			byGet := (method == http.MethodHead || method == http.MethodOptions) && slices.Contains(methods, http.MethodGet)
			if !byGet && !described(path, method) {
				t.Errorf("%s %s is not in the description: define it by route.New, and list it in the Routes of its package", method, path)
			}
		}
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			found := false
			for route, methods := range routes {
				under := strings.HasSuffix(route, "/") && strings.HasPrefix(path, route)
				found = found || (route == path || under) && slices.Contains(methods, method)
			}
			if !found {
				t.Errorf("%s %s is described, and there is no such route: mount it, or take it out of the Routes of its package", method, path)
			}
		}
	}
}

// conversation asks a service and holds questions and answers to the description.
type conversation struct {
	*testing.T
	router  routers.Router
	handler http.Handler
	auth    func(*http.Request)
}

// Bodies that are not JSON are only looked at as bytes.
func init() {
	for _, kind := range []string{"text/html", "text/x-shellscript", "application/wacz", "application/link-format", "application/offset+octet-stream", "application/atom+xml"} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.FileBodyDecoder)
	}
}

func converse(t *testing.T, handler http.Handler) *conversation {
	t.Helper()
	doc := description(t)
	for _, s := range doc.Components.Schemas { // what is not described must not be there
		if s.Value.Type.Is("object") && len(s.Value.Properties) > 0 {
			no := false
			s.Value.AdditionalProperties.Has = &no
		}
	}
	for path, item := range doc.Paths.Map() { // OpenAPI has no way to say that a variable has slashes
		if with := slashes.ReplaceAllString(path, "{$1:.*}"); with != path {
			doc.Paths.Delete(path)
			doc.Paths.Set(with, item)
		}
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &conversation{T: t, router: router, handler: handler, auth: func(*http.Request) {}}
}

// ask sends a request and expects an answer of the status that is as described; it gives the
// answer.
func (c *conversation) ask(status int, method, path, body string, header ...string) *httptest.ResponseRecorder {
	c.Helper()
	req := httptest.NewRequestWithContext(c.Context(), method, "http://service"+path, strings.NewReader(body))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	c.auth(req)
	rec := httptest.NewRecorder()
	c.handler.ServeHTTP(rec, req)
	if rec.Code != status {
		c.Errorf("%s %s: %d, want %d: %s", method, path, rec.Code, status, rec.Body)
		return rec
	}
	route, variables, err := c.router.FindRoute(req)
	if err != nil {
		c.Errorf("%s %s: %v", method, path, err)
		return rec
	}
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}
	req.Body = io.NopCloser(strings.NewReader(body))
	question := &openapi3filter.RequestValidationInput{Request: req, PathParams: variables, Route: route, Options: options}
	if status < 400 {
		if err := openapi3filter.ValidateRequest(c.Context(), question); err != nil {
			c.Errorf("%s %s is taken, and not described so: %v", method, path, err)
		}
	}
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: question, Status: rec.Code, Header: rec.Header(), Options: options,
		Body: io.NopCloser(bytes.NewReader(rec.Body.Bytes())),
	}
	if err := openapi3filter.ValidateResponse(c.Context(), answer); err != nil {
		c.Errorf("%s %s is not answered as described: %v\n%.600s", method, path, err, rec.Body)
	}
	return rec
}

// TestOperatorsAreAnsweredAsDescribed goes through the operators' paths, and a robot's first steps.
func TestOperatorsAreAnsweredAsDescribed(t *testing.T) {
	s := newTestService(t)
	c := converse(t, s.router)
	operator := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+s.OperatorToken()) }
	c.ask(200, "GET", api.PathOpenAPI, "")
	c.ask(200, "GET", "/livez", "")
	c.ask(200, "GET", "/readyz", "")
	c.ask(200, "GET", "/healthz", "")
	c.ask(200, "GET", "/install.sh", "")
	c.ask(404, "GET", "/releases/current/robotd", "")
	c.ask(401, "GET", "/v1/admin/robots", "")
	c.auth = operator
	admitted := c.ask(201, "POST", "/v1/admin/robots", `{"name":"waseda"}`)
	var token struct{ Token string }
	if err := json.Unmarshal(admitted.Body.Bytes(), &token); err != nil {
		t.Fatal(err)
	}
	c.ask(200, "POST", "/v1/admin/hosts", `{"hosts":["http://127.0.0.1:81/"]}`)
	c.ask(400, "POST", "/v1/admin/hosts", `{"hosts":1}`)
	c.ask(200, "GET", "/v1/admin/hosts?limit=10", "")
	c.ask(204, "POST", "/v1/admin/hosts/domains", `{"domain":"left.example.jp","reason":"its owner"}`)
	c.ask(200, "GET", "/v1/admin/hosts/domains", "")
	c.ask(204, "DELETE", "/v1/admin/hosts/domains/left.example.jp", "")
	c.ask(404, "DELETE", "/v1/admin/hosts/domains/left.example.jp", "")
	c.ask(204, "POST", "/v1/admin/hosts/prefixes", `{"url":"http://www.example.jp/private/","reason":"its owner"}`)
	c.ask(200, "GET", "/v1/admin/hosts/prefixes", "")
	c.ask(204, "DELETE", "/v1/admin/hosts/prefixes?url=http://www.example.jp/private/", "")
	c.ask(404, "DELETE", "/v1/admin/hosts/prefixes?url=http://www.example.jp/private/", "")
	c.ask(201, "POST", "/v1/admin/accounts", `{"name":"alice","domains":["jp"],"window":"always","password":"wonderland"}`)
	c.ask(200, "PATCH", "/v1/admin/accounts/alice", `{"quota":1000000}`)
	c.ask(200, "GET", "/v1/admin/accounts", "")
	c.ask(204, "DELETE", "/v1/admin/accounts/alice", "")
	c.ask(404, "DELETE", "/v1/admin/accounts/alice", "")
	c.ask(200, "POST", "/v1/admin/takedowns", `{"host":"www.example.jp","reason":"a letter","unknown":true}`)
	c.ask(200, "GET", "/v1/admin/takedowns", "")
	c.ask(200, "POST", "/v1/admin/takedowns/lift", `{"host":"www.example.jp","reason":"lifted"}`)
	c.ask(200, "POST", "/v1/admin/gc", `{"dry_run":true}`)
	c.ask(202, "POST", "/v1/admin/urls/rebuild", "")
	c.ask(200, "POST", "/v1/admin/publish", "")
	c.ask(404, "GET", "/v1/admin/batches/none", "")
	for _, path := range []string{
		"/v1/transfers", "/v1/admin/batches", "/v1/admin/balance", "/v1/admin/balance/rates", "/v1/admin/balance/forecast?hosts=1000&pages=50000&window=6h", "/v1/admin/copies",
		"/v1/admin/releases", "/v1/admin/releases/key", "/v1/admin/hosts/127.0.0.1:81/costs", "/v1/admin/backup",
	} {
		c.ask(200, "GET", path, "")
	}
	c.ask(400, "GET", "/v1/admin/balance/forecast?hosts=many&pages=1", "")
	c.ask(200, "POST", "/v1/admin/balance/plan", "")
	c.ask(200, "POST", "/v1/admin/balance/rebalance", "")
	c.ask(404, "POST", "/v1/admin/balance/cancel", "")

	c.auth = func(*http.Request) {}
	key := strings.Repeat("A", 43) + "="
	joined := c.ask(200, "POST", "/v1/robots/join", `{"token":"`+token.Token+`","version":"test","public_key":"`+key+`"}`)
	var secret struct{ Secret string }
	if err := json.Unmarshal(joined.Body.Bytes(), &secret); err != nil {
		t.Fatal(err)
	}
	c.auth = func(r *http.Request) { r.SetBasicAuth("waseda", secret.Secret) }
	c.ask(200, "POST", "/v1/robots/waseda/subscribe", "")
	c.ask(200, "GET", "/v1/robots/waseda/isrestart", "")
	c.ask(200, "GET", "/servlets/isrestart?host=waseda", "")
	c.ask(200, "GET", "/v1/robots/waseda/list", "")
	c.ask(404, "GET", "/v1/batches/waseda-20261121T020000Z-1/receipt?sha256=x", "")
	c.ask(204, "OPTIONS", "/v1/batches/uploads/", "")
	c.auth = operator
	c.ask(200, "GET", "/v1/admin/robots", "")
	c.ask(200, "GET", "/v1/admin/robots/waseda/page", "")
	c.ask(200, "POST", "/v1/admin/robots/waseda/page", "")
	c.ask(404, "GET", "/v1/admin/robots/nobody/page", "")
	c.ask(200, "GET", "/v1/admin/removals?state=open", "")
	c.ask(404, "GET", "/v1/admin/removals/none", "")
	c.ask(400, "POST", "/v1/admin/removals/none", `{"grant":false}`)
	c.ask(204, "POST", "/v1/admin/robots/waseda/pause", "")
	c.ask(204, "POST", "/v1/admin/robots/waseda/resume", "")
	c.ask(202, "POST", "/v1/admin/robots/waseda/restart", "")
	c.ask(204, "DELETE", "/v1/admin/robots/waseda", "")
}

// TestConsumersAreAnsweredAsDescribed goes through the consumers' paths of an archive with pages in
// it.
func TestConsumersAreAnsweredAsDescribed(t *testing.T) {
	s := servetest.New(t, nil)
	s.Account("alice", "always", "jp")
	s.Account("shut", "never", "jp")
	day := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	for i, text := range []string{"<html><body><p>first</p>", "<html><body><p>second</p>"} {
		at := day.AddDate(0, 0, i)
		s.Publish(at.Format("20060102"), map[string][]*archive.Record{
			"www.example.jp": {servetest.Page("http://www.example.jp/", text, at)},
			"gone.jp":        {servetest.Page("http://gone.jp/", text, at)},
		})
	}
	for _, stone := range []catalog.Tombstone{{Host: "gone.jp"}, {Host: "www.example.jp", URLPrefix: "http://www.example.jp/secret"}} {
		if _, err := s.Catalog.Remove(t.Context(), stone); err != nil {
			t.Fatal(err)
		}
	}
	router := mux.NewRouter()
	if err := httpd.Register(router, httpd.Options{
		Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Site: &webpage.Site{Version: "test"},
		Gate: operatorstest.Shut,
	}); err != nil {
		t.Fatal(err)
	}
	c := converse(t, router)
	c.ask(401, "GET", "/v1/hosts", "")
	c.auth = func(r *http.Request) { r.SetBasicAuth("alice", "alice") }
	c.ask(301, "GET", "/pub", "")
	for _, path := range []string{
		"/pub/README", "/a/www.example.jp.tar.gz", "/a/www.example.jp/all.cdxj", "/a/www.example.jp.wacz",
		"/v1/hosts?limit=1", "/v1/editions", "/v1/version", "/v1/changes", "/v1/changes?since=4&host=gone.jp",
		"/v1/cdx?url=www.example.jp/*", "/v1/cdx?url=www.example.jp/&output=json", "/v1/cdx?output=cdxj", "/v1/coverage", "/v1/pages.warc.gz?url=www.example.jp/",
		"/timemap/link/http://www.example.jp/", "/timemap/json/http://www.example.jp/", "/replay/",
	} {
		status := 200
		if path == "/replay/" {
			status = 404 // it is not set up
		}
		c.ask(status, "GET", path, "")
	}
	etag := c.ask(200, "GET", "/pub/jp/example/www/20261120.tar.gz", "").Header().Get("ETag")
	c.ask(206, "GET", "/pub/jp/example/www/20261120.tar.gz", "", "Range", "bytes=0-9")
	c.ask(304, "GET", "/pub/jp/example/www/20261120.tar.gz", "", "If-None-Match", etag)
	c.ask(404, "GET", "/pub/nowhere", "")
	c.ask(400, "GET", "/v1/changes?since=99", "")
	c.ask(410, "GET", "/v1/changes?since=1&mark=0", "")
	c.ask(400, "GET", "/v1/cdx?nonsense=1", "")
	c.ask(200, "POST", "/v1/cdx", "www.example.jp\n", "Content-Type", "text/plain")
	c.ask(200, "GET", "/web/20261120030000/http://www.example.jp/", "")
	c.ask(302, "GET", "/timegate/http://www.example.jp/", "")
	c.ask(302, "GET", "/diff?from=20261120030000&to=20261121030000&url=http://www.example.jp/", "")
	c.ask(200, "GET", "/diff/20261120030000/20261121030000/http://www.example.jp/", "", "Accept", "application/json")
	c.auth = func(r *http.Request) { r.SetBasicAuth("shut", "shut") }
	c.ask(503, "GET", "/a/www.example.jp.tar.gz", "")
}
