// Package route defines operations of the HTTP API. A definition has the method, the path, who may
// ask, the Go types of request and answer, and a few words. From it follow the handler's reading of
// the request and writing of the answer, the call of a client, and the description in OpenAPI.
//
//	var RemoveRule = route.New[string, route.None]("DELETE", "/v1/admin/access/{id}",
//		operators.Worker, audit.Remove, "Remove a rule")
//
// A request whose type is a string, as here, is the path's only variable. The fields of a request's
// struct say by tags where they stand in the request:
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
// bound what is taken, and stand in the description:
//
//	doc:"…"                what it is
//	default:"100"          its value if it is not given
//	min:"1" max:"10000"    of a number
//	enum:"a,b"             the values of a string; the empty one is taken too unless it is required
//	required:"true"        it must be given
//
// Parameters that a struct does not have are not looked at. How many may be given is bounded by the
// server's limit for a request's header.
package route

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"

	"sheaf/internal/problem"
)

// Who may ask, besides roles of operators.
const (
	Anybody = "anybody"
	Account = "account" // consumers
	Visitor = "visitor" // consumers, and who has not logged in
	Robot   = "robot"
)

// Answers that the description has in its frame, in place of a media type.
const (
	Problem = "#Problem" // says what is wrong (RFC 9457)
	Expired = "#Expired" // a cursor leads nowhere any more
)

// Route defines an operation.
type Route struct {
	Method  string
	Path    string // as mux reads it: variables may have patterns
	For     string // who may ask: one of these, or the least role of operators
	Act     string // for the audit log
	Summary string
	Long    string // more words for the description, if any
	Tag     string // the chapter of the description
	Status  int    // of an answer to a request that succeeds
	Text    string // what that answer is; empty: the usual words

	In, Out      reflect.Type
	BodyOptional bool

	Bodies  []string // media types of the request's body, if it is not JSON
	Answers []Answer // besides the one of Status as JSON
	raw     bool     // the answer of Status is among Answers, too
}

// Answer is a kind of answer: of a status, and of a media type if it has a body.
type Answer struct {
	Status int
	Media  string
	Text   string // empty: the usual one of the status
}

// Op is a Route whose requests are decoded into an In, and answered with an Out as JSON, or without
// a body if that is None.
type Op[In, Out any] struct{ Route }

// None is the In of an operation without parameters and body, and the Out of one that answers
// without a body.
type None struct{}

// At is a request with a JSON body about something that the path names by its only variable.
type At[Body any] struct {
	Name string `path:""`
	Body Body   `body:"json"`
}

// New defines an operation. Who is a role of operators, or one of Anybody, Account, Visitor and
// Robot. Act is what the audit log calls it; empty: nothing is changed.
func New[In, Out any, Who, Act ~string](method, path string, who Who, act Act, summary string) Op[In, Out] {
	o := Op[In, Out]{Route{
		Method: method, Path: path, For: string(who), Act: string(act), Summary: summary, Status: http.StatusOK,
		In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out](),
	}}
	switch o.For {
	case Robot:
		o.Tag = "robots"
	case Anybody, Account, Visitor:
		o.Tag = "service"
	default:
		o.Tag = "operators"
	}
	if o.Out == reflect.TypeFor[None]() {
		o.Status = http.StatusNoContent
	}
	o.check()
	return o
}

// Answering returns the operation with another status of success, and with what the description
// says of it; empty: the usual words.
func (o Op[In, Out]) Answering(status int, text string) Op[In, Out] {
	o.Status, o.Text = status, text
	return o
}

// Saying returns the operation with more words for the description.
func (o Op[In, Out]) Saying(long string) Op[In, Out] {
	o.Long = long
	return o
}

// Under returns the operation in a chapter of the description.
func (o Op[In, Out]) Under(tag string) Op[In, Out] {
	o.Tag = tag
	return o
}

// Optional returns the operation for requests that may have no body.
func (o Op[In, Out]) Optional() Op[In, Out] {
	o.BodyOptional = true
	return o
}

// Also returns the operation with one more kind of answer.
func (o Op[In, Out]) Also(status int, media, text string) Op[In, Out] {
	o.Answers = append(slices.Clone(o.Answers), Answer{status, media, text})
	return o
}

// Sends returns the operation with media types of the answer of success, instead of JSON.
func (o Op[In, Out]) Sends(media ...string) Op[In, Out] {
	o.raw = true
	for _, m := range media {
		o = o.Also(o.Status, m, "")
	}
	return o
}

// Takes returns the operation with media types of the request's body, instead of JSON.
func (o Op[In, Out]) Takes(media ...string) Op[In, Out] {
	o.Bodies = media
	return o
}

// Handler answers a request. The error that it returns becomes the answer, so it must not have
// begun one by then.
type Handler = func(w http.ResponseWriter, r *http.Request) error

// Mount adds the handler of a route to a router, behind what finds out who asks.
type Mount func(Route, Handler)

// On mounts the operation. Do gets the decoded request and returns the answer; it runs
// concurrently.
func (o Op[In, Out]) On(mount Mount, do func(context.Context, In) (Out, error)) {
	mount(o.Route, o.Handler(do))
}

// Raw mounts the operation with a handler that reads the request and writes the answer by itself.
func (o Op[In, Out]) Raw(mount Mount, do Handler) {
	mount(o.Route, func(w http.ResponseWriter, r *http.Request) error { return do(w, o.with(w, r)) })
}

// Done makes a function for On of one that returns nothing but an error.
func Done[In any](do func(context.Context, In) error) func(context.Context, In) (None, error) {
	return func(ctx context.Context, in In) (None, error) { return None{}, do(ctx, in) }
}

// Handler returns the operation's handler.
func (o Op[In, Out]) Handler(do func(context.Context, In) (Out, error)) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		in, err := o.Read(w, r)
		if err != nil {
			return err
		}
		out, err := do(o.with(w, r).Context(), in)
		if err != nil {
			return err
		}
		if o.Status == http.StatusNoContent {
			w.WriteHeader(o.Status)
			return nil
		}
		return problem.JSON(w, o.Status, out)
	}
}

// Read decodes a request, for handlers that write the answer by themselves.
func (o Op[In, Out]) Read(w http.ResponseWriter, r *http.Request) (in In, err error) {
	err = o.read(w, r, reflect.ValueOf(&in).Elem())
	return in, err
}

type exchangeKey struct{}

type exchange struct {
	route   Route
	header  http.Header
	request *http.Request
}

// with returns the request with what Header, Request, Link and Parameters tell of it.
func (rt Route) with(w http.ResponseWriter, r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), exchangeKey{}, exchange{rt, w.Header(), r}))
}

// Header returns the header of the answer that an operation's function is about to give.
func Header(ctx context.Context) http.Header { return ctx.Value(exchangeKey{}).(exchange).header }

// Request returns the request that an operation's function answers. Its body has been read.
func Request(ctx context.Context) *http.Request { return ctx.Value(exchangeKey{}).(exchange).request }

// Parameters returns the names of the query's parameters that the operation has.
func Parameters(ctx context.Context) []string {
	return ctx.Value(exchangeKey{}).(exchange).route.parameters()
}

// Link adds a link with a relation such as "next" to the same path, with parameters changed. An
// empty value leaves a parameter out.
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
func List(register func(Mount)) (list []Route) {
	register(func(rt Route, _ Handler) { list = append(list, rt) })
	return list
}

// At returns the route at another path, with another request.
func (rt Route) At(path string, in any) Route {
	rt.Path, rt.In = path, reflect.TypeOf(in)
	return rt
}

// variable is a variable of a path, with its pattern if it has one.
var variable = regexp.MustCompile(`\{(\w+)(?::[^{}]*(?:\{[^{}]*\}[^{}]*)*)?\}`)

// Template returns the path with its variables as {name}.
func (rt Route) Template() string { return variable.ReplaceAllString(rt.Path, "{$1}") }

// variables returns the names of the path's variables.
func (rt Route) variables() (names []string) {
	for _, found := range variable.FindAllStringSubmatch(rt.Path, -1) {
		names = append(names, found[1])
	}
	return names
}
