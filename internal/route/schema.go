package route

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strings"
	"time"
)

// object is a JSON object in a description.
type object = map[string]any

// schemas makes schemas of Go types as encoding/json writes them.
type schemas struct {
	all   map[string]any
	names map[reflect.Type]string
}

var (
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
)

// of returns the schema of a type. OpenAPI 3.0 cannot express "null or the schema at this
// reference", so of repeats such a schema.
func (s *schemas) of(t reflect.Type) object {
	if t.Kind() != reflect.Pointer {
		return s.plain(t)
	}
	t = t.Elem()
	schema := s.plain(t)
	if schema["$ref"] != nil {
		schema = s.object(t)
	}
	if len(schema) > 0 {
		schema["nullable"] = true
	}
	return schema
}

func (s *schemas) plain(t reflect.Type) object {
	is := func(i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) }
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage](), is(jsonMarshaler):
		return object{}
	case is(textMarshaler):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "format": "byte", "nullable": true}
		}
		e := t.Elem()
		if e.Kind() == reflect.Pointer { // no list has a null element
			e = e.Elem()
		}
		return object{"type": "array", "items": s.of(e), "nullable": true}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem()), "nullable": true}
	case reflect.Interface:
		return object{}
	case reflect.Struct:
		if t.Name() == "" {
			return s.object(t)
		}
		return object{"$ref": "#/components/schemas/" + s.name(t)}
	}
	panic(fmt.Sprintf("%v has no JSON", t))
}

// name returns the name of a struct's schema. At the first call for a struct it makes the schema.
func (s *schemas) name(t reflect.Type) string {
	if name, ok := s.names[t]; ok {
		return name
	}
	name := t.Name()
	if _, taken := s.all[name]; taken {
		of := path.Base(t.PkgPath())
		name = strings.ToUpper(of[:1]) + of[1:] + name
	}
	s.names[t], s.all[name] = name, nil
	s.all[name] = s.object(t)
	return name
}

func (s *schemas) object(t reflect.Type) object {
	properties, required := object{}, []string{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-" || !f.IsExported() && !f.Anonymous:
			case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
				add(f.Type)
			case f.Anonymous && name == "" && f.Type.Kind() == reflect.Pointer:
				add(f.Type.Elem())
			default:
				name = cmp.Or(name, f.Name)
				property := s.of(f.Type)
				if doc := f.Tag.Get("doc"); doc != "" && property["$ref"] == nil {
					property["description"] = doc
				}
				properties[name] = property
				if !strings.Contains(options, "omit") {
					required = append(required, name)
				}
			}
		}
	}
	add(t)
	schema := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}
