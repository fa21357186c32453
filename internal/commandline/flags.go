package commandline

import (
	"encoding"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Flags adds flags for fields of the struct that request points to, a request of the API. fields
// has the fields' names in the API, separated by blanks; flags have hyphens in place of
// underscores. A tag doc or else enum is the flag's help, a tag default its default value, and a
// tag required makes it required. In fields, "=" and a text may follow a name, for another default.
// "=$NAME" takes the default from the environment. A field that is a pointer stays nil unless the
// flag is given.
func Flags(cmd *cobra.Command, request any, fields string) {
	for _, field := range strings.Fields(fields) {
		name, preset, given := strings.Cut(field, "=")
		v, tag, ok := find(reflect.ValueOf(request).Elem(), name)
		if !ok {
			panic(fmt.Sprintf("%s: %T has no field %q", cmd.Use, request, name))
		}
		help := tag.Get("doc")
		if values := tag.Get("enum"); help == "" {
			help = "one of " + strings.ReplaceAll(values, ",", ", ")
		}
		if !given {
			preset = tag.Get("default")
		}
		if variable, ok := strings.CutPrefix(preset, "$"); ok {
			preset, help = os.Getenv(variable), help+" ("+variable+")"
		}
		name = strings.ReplaceAll(name, "_", "-")
		add(cmd, v, name, help)
		flag := cmd.Flags().Lookup(name)
		if preset != "" {
			if err := flag.Value.Set(preset); err != nil {
				panic(fmt.Sprintf("%s: --%s %q: %v", cmd.Use, name, preset, err))
			}
			flag.DefValue = preset
		}
		if tag.Get("required") != "" {
			_ = cmd.MarkFlagRequired(name) // fails only if there is no such flag
		}
	}
}

// find returns the field with a name in the API, and its tags. It also looks into embedded structs
// and the body.
func find(v reflect.Value, name string) (found reflect.Value, tag reflect.StructTag, ok bool) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if body := f.Tag.Get("body") != ""; body || f.Anonymous {
			if found, tag, ok = find(v.Field(i), name); ok {
				return found, tag, true
			}
		}
		called, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if called == name || f.Tag.Get("query") == name {
			return v.Field(i), f.Tag, true
		}
	}
	return v, "", false
}

// add adds a flag that sets v, in the form of v's type.
func add(cmd *cobra.Command, v reflect.Value, name, help string) {
	flags := cmd.Flags()
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		flags.Var(&text{TextUnmarshaler: t}, name, help)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		add(cmd, to.Elem(), name, help)
		flag := flags.Lookup(name)
		flag.Value = optional{flag.Value, func() { v.Set(to) }}
	case reflect.Slice:
		flags.StringSliceVar(pointer[[]string](v), name, nil, help)
	case reflect.Bool:
		flags.BoolVar(pointer[bool](v), name, false, help)
	case reflect.Int:
		flags.IntVar(pointer[int](v), name, 0, help)
	case reflect.Int64:
		if v.Type() == reflect.TypeFor[time.Duration]() {
			flags.DurationVar(pointer[time.Duration](v), name, 0, help)
		} else {
			flags.Int64Var(pointer[int64](v), name, 0, help)
		}
	default:
		flags.StringVar(pointer[string](v), name, "", help)
	}
}

// pointer returns a pointer to v as a *T. The type of v has the same underlying type as T.
func pointer[T any](v reflect.Value) *T {
	return v.Addr().Convert(reflect.TypeFor[*T]()).Interface().(*T)
}

type value interface {
	Set(text string) error
	String() string
	Type() string
}

// optional is the value of a flag. It calls given before the value is set.
type optional struct {
	value
	given func()
}

func (o optional) Set(text string) error {
	o.given()
	return o.value.Set(text)
}

// text is the value of a flag whose type implements encoding.TextUnmarshaler.
type text struct {
	encoding.TextUnmarshaler
	given string
}

func (t *text) Set(given string) error {
	t.given = given
	return t.UnmarshalText([]byte(given))
}
func (t *text) String() string { return t.given }
func (t *text) Type() string   { return "string" }
