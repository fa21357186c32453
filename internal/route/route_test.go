package route_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/testkit"
)

type kind string

// search has parameters of all kinds.
type search struct {
	Who   string        `query:"who"`
	Kind  kind          `query:"kind" enum:"new,old"`
	Hosts []string      `query:"host"`
	Limit int           `query:"limit" min:"1" max:"10" default:"5"`
	Must  int64         `query:"must" required:"true"`
	Long  time.Duration `query:"long"`
	All   bool          `query:"all"`
}

type change struct {
	Reason string `json:"reason"`
}

var (
	find   = route.New[search, search]("GET", "/find", route.Anybody, "", "Find")
	modify = route.New[route.At[change], route.At[change]]("PUT", "/of/{name}", route.Anybody, "", "Change").Answering(http.StatusAccepted, "")
	remove = route.New[string, route.None]("DELETE", "/of/{name:[^/]+}", route.Anybody, "", "Remove")
	whole  = route.New[change, change]("POST", "/all", route.Anybody, "", "Change all").Optional()
)

func serve(t *testing.T, removed *string) http.Handler {
	t.Helper()
	r := mux.NewRouter().UseEncodedPath()
	mount := func(op route.Route, h route.Handler) {
		r.Handle(op.Path, problem.Handler(slog.New(slog.DiscardHandler), h)).Methods(op.Method)
	}
	find.On(mount, func(ctx context.Context, in search) (search, error) {
		route.Link(ctx, "next", "who", "b")
		return in, nil
	})
	modify.On(mount, func(_ context.Context, in route.At[change]) (route.At[change], error) { return in, nil })
	remove.On(mount, route.Done(func(_ context.Context, name string) error { *removed = name; return nil }))
	whole.On(mount, func(_ context.Context, in change) (change, error) { return in, nil })
	return r
}

// A request is decoded as its struct says, and one that the struct does not allow is refused, with
// the name of what is wrong.
func TestRequestsAreReadAndChecked(t *testing.T) {
	t.Parallel()
	var removed string
	h := serve(t, &removed)
	for name, c := range map[string]struct {
		method, ref, body string
		status            int
		want              string // a part of the answer
	}{
		"defaults":       {"GET", "/find?must=0", "", 200, `"Limit":5`},
		"all":            {"GET", "/find?must=-3&who=%E6%9D%B1&kind=old&host=a&host=b&limit=10&long=2h&all", "", 200, `{"Who":"東","Kind":"old","Hosts":["a","b"],"Limit":10,"Must":-3,"Long":7200000000000,"All":true}`},
		"empty":          {"GET", "/find?must=1&kind=&limit=", "", 200, `"Limit":5`},
		"missing":        {"GET", "/find", "", 400, "must is not given"},
		"too small":      {"GET", "/find?must=1&limit=0", "", 400, `limit \"0\": want a number from 1 to 10`},
		"too large":      {"GET", "/find?must=1&limit=11", "", 400, "want a number from 1 to 10"},
		"no number":      {"GET", "/find?must=x", "", 400, `must \"x\": want a number`},
		"none of them":   {"GET", "/find?must=1&kind=young", "", 400, "want one of new, old"},
		"twice":          {"GET", "/find?must=1&who=a&who=b", "", 400, "given twice"},
		"no duration":    {"GET", "/find?must=1&long=2", "", 400, "want a duration"},
		"no escape":      {"GET", "/find?must=1&who=%zz", "", 400, "bad_query"},
		"body and path":  {"PUT", "/of/a", `{"reason": "x"}`, 202, `"Name":"a","Body":{"reason":"x"}`},
		"unknown field":  {"PUT", "/of/a", `{"reson": "x"}`, 400, `unknown field \"reson\"`},
		"no body":        {"PUT", "/of/a", "", 400, "no body"},
		"only path":      {"DELETE", "/of/a", "", 204, ""},
		"may have none":  {"POST", "/all", "", 200, `"reason":""`},
		"whole":          {"POST", "/all", `{"reason": "x"}`, 200, `"reason":"x"`},
		"whole, unknown": {"POST", "/all", `{"all": true}`, 400, `unknown field \"all\"`},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.ref, strings.NewReader(c.body)))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s, want %d and %s", name, w.Code, w.Body, c.status, c.want)
		}
	}
	if removed != "a" {
		t.Errorf("removed %q", removed)
	}
}

// What Call makes of a request is read as the same request.
func TestCallsAreReadAsSent(t *testing.T) {
	t.Parallel()
	var removed string
	h := serve(t, &removed)
	in := search{Who: "a&b=c", Kind: "new", Hosts: []string{"x", "y z"}, Limit: 3, Must: 7, Long: 90 * time.Minute, All: true}
	ref, body := find.Call(in)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", ref, nil))
	var out search
	testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &out))
	if body != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("sent %+v, read %+v", in, out)
	}
	if link := w.Header().Get("Link"); !strings.Contains(link, "who=b") || !strings.Contains(link, "limit=3") {
		t.Errorf("the link is %s", link)
	}
	ref, _ = remove.Call("a/b?c")
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("DELETE", ref, nil))
	if ref != "/of/a%2Fb%3Fc" {
		t.Errorf("the path is %s", ref)
	}
	ref, body = modify.Call(route.At[change]{Name: "a", Body: change{"x"}})
	if ref != "/of/a" || body != (change{"x"}) {
		t.Errorf("sends %v to %s", body, ref)
	}
}
