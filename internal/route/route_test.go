package route_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	r := mux.NewRouter()
	mount := func(op *route.Route, h route.Handler) {
		r.Handle(op.Path, problem.Handler(slog.New(slog.DiscardHandler), h)).Methods(op.Method)
	}
	find.On(mount, func(ctx context.Context, in search) (search, error) {
		route.Link(ctx, "next", map[string]string{"who": "b", "long": ""})
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
		"too small":      {"GET", "/find?must=1&limit=0", "", 400, `limit=\"0\": want a number from 1 to 10`},
		"too large":      {"GET", "/find?must=1&limit=11", "", 400, "want a number from 1 to 10"},
		"no number":      {"GET", "/find?must=x", "", 400, `must=\"x\": want a number`},
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
	if out, err := route.Query[search](route.Values(in)); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("the query of %+v is read as %+v, %v", in, out, err)
	}
	if link := w.Header().Get("Link"); !strings.Contains(link, "who=b") || !strings.Contains(link, "limit=3") || strings.Contains(link, "long") {
		t.Errorf("the link is %s", link)
	}
	ref, _ = remove.Call("a b?c%41")
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("DELETE", ref, nil))
	if ref != "/of/a%20b%3Fc%2541" || removed != "a b?c%41" {
		t.Errorf("the path is %s, and %q was removed", ref, removed)
	}
	ref, body = modify.Call(route.At[change]{Name: "a", Body: change{"x"}})
	if ref != "/of/a" || body != (change{"x"}) {
		t.Errorf("sends %v to %s", body, ref)
	}
}

// answer has fields of a form.
type answer struct {
	Act     string `form:"act" enum:"stop,go" required:"true"`
	Percent int    `form:"percent" min:"0" max:"100" required:"true"`
	Hosts   []kind `form:"host" enum:"a,b"`
	Note    string `form:"note"`
	Self    string `query:"self"`
}

// A form is decoded as its struct says, and what the struct does not allow is refused. Nothing is
// taken from the query.
func TestFormsAreReadAndChecked(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{
		"act=stop&percent=5&host=a&host=b&note=%E6%9D%B1&self=x": `200 {"Act":"stop","Percent":5,"Hosts":["a","b"],"Note":"東","Self":""}`,
		"act=&percent=5":            "400 act is not given: want one of stop, go",
		"act=halt&percent=5":        `400 act="halt": want one of stop, go`,
		"act=go&percent=101":        `400 percent="101": want a number from 0 to 100`,
		"act=go&percent=many":       `400 percent="many": want a number from 0 to 100`,
		"act=go&act=stop&percent=5": `400 act="stop": is given twice`,
		"act=go&percent=5&host=c":   `400 host="c": want one of a, b`,
		"act=go&percent=5&note=" + strings.Repeat("x", 1<<20): "413 the request's body has more than 1048576 bytes; send it in parts",
	} {
		r := httptest.NewRequest("POST", "/?note=of-the-query", strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		in, err := route.Form[answer](httptest.NewRecorder(), r)
		text, marshalErr := json.Marshal(in)
		testkit.Must(t, marshalErr)
		got := "200 " + string(text)
		var refused *problem.Error
		if errors.As(err, &refused) {
			got = fmt.Sprint(refused.Status, " ", refused.Detail)
		}
		if got != want {
			t.Errorf("%.80s: %s, want %s", form, got, want)
		}
	}
}

// A text that is required and of which no words say what it is to be is asked for by its name.
func TestRequiredTextIsNamed(t *testing.T) {
	t.Parallel()
	type needs struct {
		Domains string `form:"domains" required:"true"`
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader("domains="))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if _, err := route.Form[needs](httptest.NewRecorder(), r); err == nil || err.Error() != "domains is not given" {
		t.Errorf("%v, want that domains is not given", err)
	}
}

// A definition that could not be read as it is meant ends the program at its start, where each test
// sees it: no request reaches it.
func TestDefinitionsAreChecked(t *testing.T) {
	t.Parallel()
	for want, define := range map[string]func(){
		"the path's only variable": func() { route.New[string, route.None]("GET", "/of", route.Anybody, "", "") },
		`has no variable "other"`: func() {
			type in struct {
				Other string `path:"other"`
			}
			route.New[in, route.None]("GET", "/of/{name}", route.Anybody, "", "")
		},
		"a parameter of the type": func() {
			type in struct {
				Size uint `query:"size"`
			}
			route.New[in, route.None]("GET", "/of", route.Anybody, "", "")
		},
		"the body can also set": func() {
			type in struct {
				Limit int    `query:"limit" max:"10"`
				Why   string `json:"why"`
			}
			route.New[in, route.None]("POST", "/of", route.Anybody, "", "")
		},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("%s, want %s", got, want)
				}
			}()
			define()
		}()
	}
}
