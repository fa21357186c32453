// Package route defines operations of the HTTP API. A definition has the method, the path, who may
// call it, the Go types of request and answer, and a short description. From a definition, the
// package decodes requests and encodes answers, makes the calls of clients, and writes the
// description in OpenAPI.
//
//	var RemoveRule = route.New[string, route.None]("DELETE", "/v1/admin/access/{id}",
//		operators.Worker, audit.Remove, "Remove a rule")
//
// A request whose type is a string, as here, is the path's only variable. Otherwise it is a struct.
// Tags say where each field is in the request:
//
//	path:"name"    a variable of the path; path:"" is the first one
//	query:"name"   a parameter of the query; a slice may be given several times
//	form:"name"    a field of an HTML form, which Form reads, or a part of a multipart body, which
//	               handlers read by themselves
//	body:"json"    the JSON body
//	json:"name"    a field of the JSON body, which is then the struct itself; its fields with other
//	               tags also have json:"-"
//
// Parameters and fields of forms are strings, whole numbers, bools and time.Durations. These tags
// limit the accepted values, and are part of the description:
//
//	doc:"…"                what it is
//	default:"100"          its value if it is not given
//	min:"1" max:"10000"    of a number
//	enum:"a,b"             the values of a string; the empty one is taken too unless it is required
//	required:"true"        it must be given
//
// Parameters that a struct does not have are ignored. The server's limit for a request's header
// bounds their number.
package route

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"regexp"

	"sheaf/internal/problem"
)

// Who may call an operation, besides roles of operators.
const (
	Anybody = "anybody"
	Account = "account" // consumers
	Visitor = "visitor" // consumers, and clients that have not logged in
	Robot   = "robot"
)

// Answers that the description's frame defines; used in place of a media type.
const (
	Problem = "#Problem" // an error (RFC 9457)
	Expired = "#Expired" // a cursor that is no longer valid
)

// Route defines an operation.
type Route struct {
	Method  string
	Path    string // in the syntax of mux: variables may have patterns
	For     string // who may call it: one of the constants, or the least role of operators
	Act     string // for the audit log
	Summary string
	Long    string // further text of the description; may be empty
	Tag     string // the chapter of the description
	Status  int    // status of a successful answer
	Text    string // description of that answer; empty: the usual one

	In, Out      reflect.Type
	BodyOptional bool

	Bodies  []string // media types of the request's body, if it is not JSON
	Answers []Answer // further answers, besides the JSON one of Status
	raw     bool     // the answer of Status is among Answers, too
}

// Answer is a kind of answer, with its status and, if it has a body, its media type.
type Answer struct {
	Status int
	Media  string
	Text   string // description; empty: the usual one of the status
}

// Op is a Route whose requests are decoded into an In. It answers with an Out as JSON, or without a
// body if Out is None. Methods that return the operation change it, so only definitions call them.
// The program contains Op's methods once for each pair of types, so Route does what needs no types.
type Op[In, Out any] struct{ *Route }

// None is the In of an operation without parameters and body, and the Out of an operation that
// answers without a body.
type None struct{}

// At is a request with a JSON body and one path variable, which names what the request is about.
type At[Body any] struct {
	Name string `path:""`
	Body Body   `body:"json"`
}

// New defines an operation. who is a role of operators, or one of Anybody, Account, Visitor and
// Robot. act is the operation's act in the audit log; empty: it changes nothing.
func New[In, Out any, Who, Act ~string](method, path string, who Who, act Act, summary string) Op[In, Out] {
	return Op[In, Out]{define(method, path, string(who), string(act), summary, reflect.TypeFor[In](), reflect.TypeFor[Out]())}
}

func define(method, path, who, act, summary string, in, out reflect.Type) *Route {
	rt := &Route{Method: method, Path: path, For: who, Act: act, Summary: summary, Status: http.StatusOK, In: in, Out: out}
	switch who {
	case Robot:
		rt.Tag = "robots"
	case Anybody, Account, Visitor:
		rt.Tag = "service"
	default:
		rt.Tag = "operators"
	}
	if out == reflect.TypeFor[None]() {
		rt.Status = http.StatusNoContent
	}
	rt.check()
	return rt
}

// Answering returns the operation, with another status of success. text describes that answer;
// empty: the usual description.
func (o Op[In, Out]) Answering(status int, text string) Op[In, Out] {
	o.Status, o.Text = status, text
	return o
}

// Saying returns the operation, with a further text for the description.
func (o Op[In, Out]) Saying(long string) Op[In, Out] {
	o.Long = long
	return o
}

// Under returns the operation, put into a chapter of the description.
func (o Op[In, Out]) Under(tag string) Op[In, Out] {
	o.Tag = tag
	return o
}

// Optional returns the operation, now for requests that may have no body.
func (o Op[In, Out]) Optional() Op[In, Out] {
	o.BodyOptional = true
	return o
}

// Also returns the operation, with one more kind of answer.
func (o Op[In, Out]) Also(status int, media, text string) Op[In, Out] {
	o.also(status, text, media)
	return o
}

// Sends returns the operation, with media types of the answer of success instead of JSON.
func (o Op[In, Out]) Sends(media ...string) Op[In, Out] {
	o.raw = true
	o.also(o.Status, "", media...)
	return o
}

// also must not be inlined: the program would have it for each pair of types.
//
//go:noinline
func (rt *Route) also(status int, text string, media ...string) {
	for _, m := range media {
		rt.Answers = append(rt.Answers, Answer{status, m, text})
	}
}

// Takes returns the operation, with media types of the request's body instead of JSON.
func (o Op[In, Out]) Takes(media ...string) Op[In, Out] {
	o.Bodies = media
	return o
}

// Handler answers a request. An error that it returns becomes the answer, so the handler must not
// have begun an answer before.
type Handler = func(w http.ResponseWriter, r *http.Request) error

// Mount adds the handler of a route to a router, behind the check of who calls it.
type Mount func(*Route, Handler)

// On mounts the operation. do gets the decoded request and returns the answer. It must allow
// concurrent calls.
func (o Op[In, Out]) On(mount Mount, do func(context.Context, In) (Out, error)) {
	mount(o.Route, o.Handler(do))
}

// Raw mounts the operation with a handler that reads the request and writes the answer by itself.
func (o Op[In, Out]) Raw(mount Mount, do Handler) { o.mount(mount, do) }

func (rt *Route) mount(mount Mount, do Handler) {
	parameters := rt.parameters()
	mount(rt, func(w http.ResponseWriter, r *http.Request) error { return do(w, with(w, r, parameters)) })
}

// Done turns a function that returns only an error into one for On.
func Done[In any](do func(context.Context, In) error) func(context.Context, In) (None, error) {
	return func(ctx context.Context, in In) (None, error) { return None{}, do(ctx, in) }
}

// Handler returns a handler that decodes the request, calls do and encodes the answer.
func (o Op[In, Out]) Handler(do func(context.Context, In) (Out, error)) Handler {
	return o.handler(func(ctx context.Context, in any) (any, error) { return do(ctx, *in.(*In)) })
}

// handler is Handler for any types. do gets a pointer to the request.
func (rt *Route) handler(do func(ctx context.Context, in any) (any, error)) Handler {
	parameters := rt.parameters()
	return func(w http.ResponseWriter, r *http.Request) error {
		in := reflect.New(rt.In)
		if err := rt.read(w, r, in.Elem()); err != nil {
			return err
		}
		out, err := do(with(w, r, parameters).Context(), in.Interface())
		if err != nil {
			return err
		}
		if rt.Status == http.StatusNoContent {
			w.WriteHeader(rt.Status)
			return nil
		}
		return problem.JSON(w, rt.Status, out)
	}
}

// Read decodes a request, for handlers that write the answer by themselves.
func (o Op[In, Out]) Read(w http.ResponseWriter, r *http.Request) (in In, err error) {
	err = o.read(w, r, reflect.ValueOf(&in).Elem())
	return in, err
}

type exchangeKey struct{}

type exchange struct {
	parameters []string
	header     http.Header
	request    *http.Request
}

// with returns the request with a context that Header, Request, Link and Parameters need.
func with(w http.ResponseWriter, r *http.Request, parameters []string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), exchangeKey{}, exchange{parameters, w.Header(), r}))
}

// Header returns the header of the answer, for the function of an operation to set fields.
func Header(ctx context.Context) http.Header { return ctx.Value(exchangeKey{}).(exchange).header }

// Request returns the HTTP request, for the function of an operation. A JSON body has been read.
func Request(ctx context.Context) *http.Request { return ctx.Value(exchangeKey{}).(exchange).request }

// Parameters returns the names of the operation's query parameters. They must not be changed.
func Parameters(ctx context.Context) []string {
	return ctx.Value(exchangeKey{}).(exchange).parameters
}

// Link sets the Link header, for a relation such as "next". It leads to the same path with changed
// parameters. An empty value removes a parameter.
func Link(ctx context.Context, relation string, changed map[string]string) {
	r := Request(ctx)
	query := r.URL.Query()
	for name, value := range changed {
		if query.Set(name, value); value == "" {
			query.Del(name)
		}
	}
	Header(ctx).Set("Link", fmt.Sprintf("<%s?%s>; rel=%q", r.URL.EscapedPath(), query.Encode(), relation))
}

// List returns the routes that a function mounts. It calls no handler, so the function may be a
// method of a zero value.
func List(register func(Mount)) (list []*Route) {
	register(func(rt *Route, _ Handler) { list = append(list, rt) })
	return list
}

// At returns the route with another method, path and request. It does not change rt.
func (rt Route) At(method, path string, in any) *Route {
	rt.Method, rt.Path, rt.In = method, path, reflect.TypeOf(in)
	return &rt
}

// variable is a variable of a path, with its pattern if it has one.
var variable = regexp.MustCompile(`\{(\w+)(?::[^{}]*(?:\{[^{}]*\}[^{}]*)*)?\}`)

// Template returns the path with its variables as {name}.
func (rt *Route) Template() string { return variable.ReplaceAllString(rt.Path, "{$1}") }

// variables returns the names of the path's variables.
func (rt *Route) variables() (names []string) {
	for _, found := range variable.FindAllStringSubmatch(rt.Path, -1) {
		names = append(names, found[1])
	}
	return names
}
