package route

import (
	"encoding"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
)

// bodyOf returns the type of the request's JSON body and the index of its field; -1: the whole
// struct is the body. It returns nil if the request has no JSON.
func (rt *Route) bodyOf() (reflect.Type, int) {
	if rt.In.Kind() != reflect.Struct {
		return nil, 0
	}
	whole := false
	for i := range rt.In.NumField() {
		f := rt.In.Field(i)
		if _, ok := f.Tag.Lookup("body"); ok {
			return f.Type, i
		}
		tag, ok := f.Tag.Lookup("json")
		whole = whole || ok && tag != "-" && !elsewhere(f.Tag) || f.Anonymous && (&Route{In: f.Type}).hasBody()
	}
	if whole {
		return rt.In, -1
	}
	return nil, 0
}

// elsewhere reports whether a field with a json tag is in the path, the query or a form. Such a
// field does not make its struct the JSON body.
func elsewhere(tag reflect.StructTag) bool {
	for _, where := range []string{"path", "query", "form"} {
		if _, ok := tag.Lookup(where); ok {
			return true
		}
	}
	return false
}

func (rt *Route) hasBody() bool {
	body, _ := rt.bodyOf()
	return body != nil
}

// field is a part of a request outside its body.
type field struct {
	name  string
	where string // path, query or form
	tag   reflect.StructTag
	index []int
	kind  reflect.Type
}

// of returns the field's value in a request, which may be a string itself.
func (f field) of(in reflect.Value) reflect.Value {
	if f.index == nil {
		return in
	}
	return in.FieldByIndex(f.index)
}

// fields returns the variables of the path, the parameters of the query and the fields of the form.
// A request that is a string is the path's only variable.
func (rt *Route) fields() (list []field) {
	if rt.In.Kind() == reflect.String {
		return []field{{name: rt.variables()[0], where: "path", kind: rt.In}}
	}
	if rt.In.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(rt.In) {
		if name, ok := f.Tag.Lookup("query"); ok {
			list = append(list, field{name, "query", f.Tag, f.Index, f.Type})
		}
		if name, ok := f.Tag.Lookup("form"); ok {
			list = append(list, field{name, "form", f.Tag, f.Index, f.Type})
		}
		if name, ok := f.Tag.Lookup("path"); ok {
			if name == "" {
				name = rt.variables()[0]
			}
			list = append(list, field{name, "path", f.Tag, f.Index, f.Type})
		}
	}
	return list
}

// check panics if a definition is wrong: a struct names a variable that the path does not have, has
// a parameter of a type that cannot be parsed, or takes a parameter also from the JSON body, in
// which its bounds would not be checked.
func (rt *Route) check() {
	variables := rt.variables()
	if rt.In.Kind() == reflect.String && len(variables) != 1 {
		panic(fmt.Sprintf("%s %s: a string is the path's only variable; it has %d", rt.Method, rt.Path, len(variables)))
	}
	body, at := rt.bodyOf()
	for _, f := range rt.fields() {
		kind := f.kind
		if kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}
		v := reflect.Zero(kind)
		switch {
		case f.where == "path" && !slices.Contains(variables, f.name):
			panic(fmt.Sprintf("%s %s: the path has no variable %q", rt.Method, rt.Path, f.name))
		case f.where != "form" && v.Kind() != reflect.String && v.Kind() != reflect.Bool && !v.CanInt():
			panic(fmt.Sprintf("%s %s: %q is a parameter of the type %v", rt.Method, rt.Path, f.name, f.kind))
		case body != nil && at < 0 && f.index != nil && f.tag.Get("json") != "-":
			panic(fmt.Sprintf("%s %s: the body can also set the parameter %q; give its field json:\"-\"", rt.Method, rt.Path, f.name))
		}
	}
}

// read decodes a request's body, query and path variables into in.
func (rt *Route) read(w http.ResponseWriter, r *http.Request, in reflect.Value) error {
	if body, at := rt.bodyOf(); body != nil {
		into := in
		if at >= 0 {
			into = in.Field(at)
		}
		read := problem.ReadJSON
		if rt.BodyOptional {
			read = problem.ReadJSONIfAny
		}
		if err := read(w, r, into.Addr().Interface()); err != nil {
			return err
		}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problem.BadQuery("query %.200q: %v", r.URL.RawQuery, err)
	}
	variables := url.Values{}
	for name, value := range mux.Vars(r) {
		variables.Set(name, value)
	}
	return rt.set(in, "bad_query", map[string]url.Values{"path": variables, "query": query})
}

// Query decodes a query by the tags of a struct.
func Query[In any](query url.Values) (In, error) {
	return decode[In]("bad_query", map[string]url.Values{"query": query})
}

// Form decodes an HTML form of at most 1 MiB, sent as application/x-www-form-urlencoded, by the
// tags of a struct. The error is a *problem.Error with the reason bad_form or too_large.
func Form[In any](w http.ResponseWriter, r *http.Request) (in In, err error) {
	values, err := problem.ReadForm(w, r)
	if err != nil {
		return in, err
	}
	return decode[In]("bad_form", map[string]url.Values{"form": values})
}

func decode[In any](reason string, given map[string]url.Values) (in In, err error) {
	err = (&Route{In: reflect.TypeFor[In]()}).set(reflect.ValueOf(&in).Elem(), reason, given)
	return in, err
}

// Values is the inverse of Query. It leaves out fields that are zero.
func Values[In any](in In) url.Values {
	query, _ := (&Route{In: reflect.TypeFor[In]()}).values(reflect.ValueOf(in))
	return query
}

// Names returns the names of a struct's query parameters.
func Names[In any]() []string { return (&Route{In: reflect.TypeFor[In]()}).parameters() }

func (rt *Route) parameters() (names []string) {
	for _, f := range rt.fields() {
		if f.where == "query" {
			names = append(names, f.name)
		}
	}
	return names
}

// set sets the fields from the given parts of a request: path, query or form.
func (rt *Route) set(in reflect.Value, reason string, given map[string]url.Values) error {
	for _, f := range rt.fields() {
		values, ok := given[f.where]
		if !ok {
			continue
		}
		if err := f.set(f.of(in), values[f.name]); err != nil {
			return problem.New(http.StatusBadRequest, reason, err.Error())
		}
	}
	return nil
}

// set parses the given values into a field. Only a slice may have several values.
func (f field) set(v reflect.Value, given []string) error {
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), len(given), len(given)))
		for i, text := range given {
			if err := f.parse(v.Index(i), text); err != nil {
				return fmt.Errorf("%s=%.100q: want %s", f.name, text, f.want())
			}
		}
		return nil
	}
	fallback, hasDefault := f.tag.Lookup("default")
	switch {
	case len(given) > 1:
		return fmt.Errorf("%s=%.100q: is given twice", f.name, given[1])
	case len(given) == 0 || given[0] == "" && v.Kind() != reflect.Bool:
		if f.tag.Get("required") != "" {
			if f.want() == "" {
				return fmt.Errorf("%s is not given", f.name)
			}
			return fmt.Errorf("%s is not given: want %s", f.name, f.want())
		}
		if !hasDefault {
			return nil
		}
		given = []string{fallback}
	}
	if err := f.parse(v, given[0]); err != nil {
		return fmt.Errorf("%s=%.100q: want %s", f.name, given[0], f.want())
	}
	return nil
}

var errUnfit = fmt.Errorf("unfit")

func (f field) parse(v reflect.Value, text string) error {
	switch {
	case f.kind == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		v.SetInt(int64(d))
		return err
	case v.Kind() == reflect.Bool:
		on, err := strconv.ParseBool(text)
		v.SetBool(on || text == "")
		if text == "" {
			return nil
		}
		return err
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(n)
		least, most := f.bounds()
		if err == nil && (least != nil && n < *least || most != nil && n > *most) {
			return errUnfit
		}
		return err
	}
	v.SetString(text)
	if list := f.enum(); list != nil && !slices.Contains(list, text) {
		return errUnfit
	}
	return nil
}

func (f field) enum() []string {
	if list := f.tag.Get("enum"); list != "" {
		return strings.Split(list, ",")
	}
	return nil
}

// bounds returns the least and the greatest allowed number; nil: no bound.
func (f field) bounds() (least, most *int64) {
	read := func(tag string) *int64 {
		if n, err := strconv.ParseInt(f.tag.Get(tag), 10, 64); err == nil {
			return &n
		}
		return nil
	}
	return read("min"), read("max")
}

// want describes the values that the field accepts.
func (f field) want() string {
	least, most := f.bounds()
	switch {
	case f.enum() != nil:
		return "one of " + strings.Join(f.enum(), ", ")
	case least != nil && most != nil:
		return fmt.Sprintf("a number from %d to %d", *least, *most)
	case least != nil:
		return fmt.Sprintf("a number from %d on", *least)
	case f.kind == reflect.TypeFor[time.Duration]():
		return "a duration, such as 6h"
	}
	switch f.kind.Kind() {
	case reflect.String:
		return f.tag.Get("doc")
	case reflect.Bool:
		return "true or false"
	}
	return "a number"
}

// Call returns a client's request: the escaped path with the query, and the value of the JSON body,
// or nil if there is no body.
func (o Op[In, Out]) Call(in In) (ref string, body any) { return o.call(in) }

func (rt *Route) call(in any) (ref string, body any) {
	v := reflect.ValueOf(in)
	if of, at := rt.bodyOf(); of != nil && at >= 0 {
		body = v.Field(at).Interface()
	} else if of != nil {
		body = in
	}
	query, path := rt.values(v)
	ref = variable.ReplaceAllStringFunc(rt.Path, func(name string) string {
		return url.PathEscape(path[variable.FindStringSubmatch(name)[1]])
	})
	if len(query) > 0 {
		ref += "?" + query.Encode()
	}
	return ref, body
}

// Name sets the path variables of a request, in the order of In's fields.
func (o Op[In, Out]) Name(in *In, variables []string) { o.name(reflect.ValueOf(in).Elem(), variables) }

func (rt *Route) name(in reflect.Value, variables []string) {
	for _, f := range rt.fields() {
		if f.where == "path" && len(variables) > 0 {
			f.of(in).SetString(variables[0])
			variables = variables[1:]
		}
	}
}

// values returns the query and the path's variables of a request.
func (rt *Route) values(in reflect.Value) (query url.Values, path map[string]string) {
	query, path = url.Values{}, map[string]string{}
	for _, f := range rt.fields() {
		value := f.of(in)
		switch {
		case f.where == "path":
			path[f.name] = textOf(value)
		case value.Kind() == reflect.Slice:
			for i := range value.Len() {
				query.Add(f.name, textOf(value.Index(i)))
			}
		case !value.IsZero():
			query.Set(f.name, textOf(value))
		}
	}
	return query, path
}

func textOf(v reflect.Value) string {
	if t, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, _ := t.MarshalText()
		return string(text)
	}
	return fmt.Sprint(v.Interface())
}
