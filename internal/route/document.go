package route

import (
	"cmp"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/wire"
)

// Document is a description of an API, in OpenAPI 3.0.
type Document struct {
	OpenAPI    string                    `yaml:"openapi"`
	Info       any                       `yaml:"info"`
	Servers    any                       `yaml:"servers"`
	Tags       any                       `yaml:"tags"`
	Security   any                       `yaml:"security"`
	Paths      map[string]map[string]any `yaml:"paths"`
	Components map[string]map[string]any `yaml:"components"`
}

// operation is the OpenAPI description of a Route.
type operation struct {
	Tags        []string       `yaml:"tags"`
	Summary     string         `yaml:"summary"`
	Description string         `yaml:"description,omitempty"`
	Security    []object       `yaml:"security,omitempty"` // nil: that of the document
	Role        string         `yaml:"x-role,omitempty"`
	Parameters  []object       `yaml:"parameters,omitempty"`
	Body        object         `yaml:"requestBody,omitempty"`
	Responses   map[string]any `yaml:"responses"`
}

// Add describes routes, with the schemas of their requests and answers and of wire.Problem.
// variables has the meanings of path variables whose fields have no doc tag. Its keys are a
// variable with the path element before it, such as hosts/{host}, or only a variable.
func (d *Document) Add(variables map[string]string, routes []*Route) {
	s := &schemas{map[string]any{}, map[reflect.Type]string{}}
	d.Components["schemas"] = s.all
	s.name(reflect.TypeFor[wire.Problem]())
	for _, rt := range routes {
		at := rt.Template()
		if d.Paths[at] == nil {
			d.Paths[at] = map[string]any{}
		}
		d.Paths[at][strings.ToLower(rt.Method)] = rt.describe(s, variables)
	}
}

func (rt *Route) describe(s *schemas, variables map[string]string) operation {
	o := operation{Tags: []string{rt.Tag}, Summary: rt.Summary, Description: rt.Long, Responses: map[string]any{}}
	switch rt.For {
	case Account:
	case Anybody:
		o.Security = []object{{}}
	case Visitor:
		o.Security = []object{{}, {"account": []string{}}}
	case Robot:
		o.Security = []object{{"robot": []string{}}}
	default:
		o.Security, o.Role = []object{{"operator": []string{}}}, rt.For
	}
	described := map[string]bool{}
	form := object{}
	var required []string
	for _, f := range rt.fields() {
		if f.where == "form" {
			form[f.name] = f.describeForm(s)
			if f.tag.Get("required") != "" {
				required = append(required, f.name)
			}
			continue
		}
		o.Parameters = append(o.Parameters, f.describe(s, rt.meaning(variables, f.name)))
		described[f.name] = described[f.name] || f.where == "path"
	}
	for _, name := range rt.variables() {
		if !described[name] {
			o.Parameters = append(o.Parameters, field{name: name, where: "path", kind: reflect.TypeFor[string]()}.describe(s, rt.meaning(variables, name)))
		}
	}
	if body, _ := rt.bodyOf(); body != nil && rt.Bodies == nil {
		o.Body = object{"required": !rt.BodyOptional, "content": object{"application/json": object{"schema": s.of(body)}}}
	}
	if rt.Bodies != nil {
		content := object{}
		for _, media := range rt.Bodies {
			content[media] = object{"schema": mediaSchema(media)}
			if len(form) > 0 {
				schema := object{"type": "object", "properties": form}
				if required != nil {
					schema["required"] = required
				}
				content[media] = object{"schema": schema}
			}
		}
		o.Body = object{"required": !rt.BodyOptional, "content": content}
	}
	rt.describeAnswers(s, &o)
	return o
}

func (rt *Route) describeAnswers(s *schemas, o *operation) {
	o.Responses["default"] = object{"$ref": "#/components/responses/Problem"}
	media := ""
	if !rt.raw && rt.Out != reflect.TypeFor[None]() {
		media = "application/json"
	}
	for _, a := range append([]Answer{{rt.Status, media, rt.Text}}, rt.Answers...) {
		code := strconv.Itoa(a.Status)
		if name, ok := strings.CutPrefix(a.Media, "#"); ok {
			o.Responses[code] = object{"$ref": "#/components/responses/" + name}
			continue
		}
		response, _ := o.Responses[code].(object)
		if response == nil {
			response = object{"description": cmp.Or(a.Text, usual(a.Status))}
			o.Responses[code] = response
		}
		if a.Text != "" {
			response["description"] = a.Text
		}
		if a.Media == "" {
			continue
		}
		content, _ := response["content"].(object)
		if content == nil {
			content = object{}
			response["content"] = content
		}
		content[a.Media] = object{"schema": mediaSchema(a.Media)}
		if a.Media == "application/json" {
			content[a.Media] = object{"schema": s.answer(rt.Out)}
		}
	}
}

// answer returns the schema of an answer, which is never null. For None it returns the schema of
// any JSON.
func (s *schemas) answer(t reflect.Type) object {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[None]() {
		return object{}
	}
	return s.of(t)
}

// usual returns the usual description of an answer with a status.
func usual(status int) string {
	switch status {
	case http.StatusOK:
		return "As asked for"
	case http.StatusCreated:
		return "Made"
	case http.StatusAccepted:
		return "Taken"
	case http.StatusNoContent:
		return "Done"
	case http.StatusPartialContent:
		return "A part of it"
	case http.StatusNotModified:
		return "As it was"
	}
	return http.StatusText(status)
}

// mediaSchema returns the schema of a body that is not JSON.
func mediaSchema(media string) object {
	if media == "application/yaml" {
		return object{} // JSON of any form
	}
	kind := object{"type": "string"}
	if strings.HasPrefix(media, "application/") && !strings.HasSuffix(media, "xml") && !strings.HasSuffix(media, "json") {
		kind["format"] = "binary"
	}
	return kind
}

// describeForm returns the schema of a field of a form.
func (f field) describeForm(s *schemas) object {
	kind := f.schema(s)
	if kind["format"] == "byte" {
		kind["format"] = "binary"
	}
	if doc := f.tag.Get("doc"); doc != "" {
		kind["description"] = doc
	}
	return kind
}

// schema returns the schema of a field's values.
func (f field) schema(s *schemas) object {
	kind := s.of(f.kind)
	delete(kind, "nullable")
	if f.kind == reflect.TypeFor[time.Duration]() {
		kind = object{"type": "string"}
	}
	one := kind
	if items, ok := kind["items"].(object); ok {
		one = items
	}
	least, most := f.bounds()
	if least != nil {
		one["minimum"] = *least
	}
	if most != nil {
		one["maximum"] = *most
	}
	if list := f.enum(); list != nil {
		one["enum"] = list
	}
	if fallback, ok := f.tag.Lookup("default"); ok {
		kind["default"] = fallback
		if n, err := strconv.ParseInt(fallback, 10, 64); err == nil {
			kind["default"] = n
		}
	}
	return kind
}

// meaning returns the description of a path variable.
func (rt *Route) meaning(variables map[string]string, name string) string {
	name = "{" + name + "}"
	before, _, _ := strings.Cut(rt.Template(), "/"+name)
	return cmp.Or(variables[path.Base(before)+"/"+name], variables[name])
}

// describe returns the description of a parameter. meaning is the text for a path variable whose
// field has no doc tag.
func (f field) describe(s *schemas, meaning string) object {
	p := object{"name": f.name, "in": f.where, "schema": f.schema(s)}
	if f.where == "path" || f.tag.Get("required") != "" {
		p["required"] = true
	}
	doc := f.tag.Get("doc")
	if f.where == "path" {
		doc = cmp.Or(doc, meaning)
	}
	if doc != "" {
		p["description"] = doc
	}
	return p
}
