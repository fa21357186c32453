// Package settings reads the settings of both programs, sheaf and robotd.
//
// A program's settings are a struct. A field's mapstructure tag has its key, and its want tag
// describes the allowed values (see Checks.Fields); a field with the key "-" is not a setting. A
// YAML file in the program documents each key and has its default, which Defaults sets. Load then
// applies another YAML file, the environment and the command line, in this order. All errors are
// reported at once, and each names the key and the value.
//
// A field of the type int64 is a number of bytes, and may be written as 64KiB (see package
// display). Durations need a unit. In the environment and on the command line, the items of a list
// are separated by commas or spaces, and the entries of a map are name=value.
package settings

import (
	"bufio"
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/viper"

	"sheaf/internal/display"
)

// delimiter joins the keys of nested settings. It cannot be a dot, because names of hosts, which
// are keys of maps, have dots.
const delimiter = "::"

// Source has the sources of settings, besides the defaults.
type Source struct {
	File      string         // YAML; empty: none
	Prefix    string         // of names in the environment: with SHEAF, the setting http.listen is SHEAF_HTTP_LISTEN
	Overrides map[string]any // by keys such as "http.listen"; they override the other sources
}

// Defaults sets all settings of a struct, given as a pointer, to the values in a YAML text. The
// text is part of the program: Defaults panics unless it has exactly the keys of the struct.
func Defaults(into any, text string) {
	v := viper.NewWithOptions(viper.KeyDelimiter(delimiter))
	v.SetConfigType("yaml")
	all := fieldsOf(reflect.ValueOf(into).Elem(), "")
	err := v.ReadConfig(strings.NewReader(text))
	if err == nil {
		err = errors.Join(checkKeys(v, all)...)
	}
	for _, f := range all {
		if value := v.Get(f.key); value != nil {
			err = errors.Join(err, f.set(value))
		} else if f.value.Kind() != reflect.Map { // viper leaves out empty maps
			err = errors.Join(err, fmt.Errorf("settings: no default for %s", dotted(f.key)))
		}
	}
	if err != nil {
		panic(err)
	}
}

// Load reads settings into a struct that holds the defaults, given as a pointer. A setting with an
// error keeps its default, so that the caller may check the others.
func Load(into any, from Source) error {
	v := viper.NewWithOptions(viper.KeyDelimiter(delimiter), viper.EnvKeyReplacer(strings.NewReplacer(delimiter, "_")))
	v.SetEnvPrefix(from.Prefix)
	all := fieldsOf(reflect.ValueOf(into).Elem(), "")
	for _, f := range all {
		if err := v.BindEnv(f.key); err != nil {
			return fmt.Errorf("settings: %w", err)
		}
	}
	if from.File != "" {
		v.SetConfigFile(from.File)
		v.SetConfigType("yaml")
		if err := v.ReadInConfig(); err != nil {
			return fmt.Errorf("settings: %s: %w", from.File, err)
		}
	}
	for key, value := range from.Overrides {
		v.Set(strings.ReplaceAll(key, ".", delimiter), value)
	}
	errs := checkKeys(v, all)
	for _, f := range all {
		if value := v.Get(f.key); value != nil {
			errs = append(errs, f.set(value))
		}
	}
	return errors.Join(errs...)
}

// field is one setting of a struct.
type field struct {
	key    string
	value  reflect.Value // addressable
	want   string        // see Checks.Fields; empty: any value
	secret bool
}

// fieldsOf returns the settings in a struct. prefix is the struct's own key.
func fieldsOf(v reflect.Value, prefix string) (all []field) {
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		key, squash := strings.CutSuffix(tag.Get("mapstructure"), ",squash")
		switch {
		case key == "-":
		case v.Field(i).Kind() != reflect.Struct:
			all = append(all, field{prefix + key, v.Field(i), tag.Get("want"), tag.Get("secret") != ""})
		case squash:
			all = append(all, fieldsOf(v.Field(i), prefix)...)
		default:
			all = append(all, fieldsOf(v.Field(i), prefix+key+delimiter)...)
		}
	}
	return all
}

// set converts a value to the field's type and stores it.
func (f *field) set(value any) error {
	to, v := reflect.New(f.value.Type()), viper.New()
	v.Set("value", value)
	if err := v.UnmarshalKey("value", to.Interface(), viper.DecodeHook(parse)); err != nil {
		return Wrong(dotted(f.key), value, "want "+describe(f.value.Type()))
	}
	if k := f.value.Kind(); (k == reflect.Slice || k == reflect.Map) && to.Elem().Len() == 0 {
		to.Elem().SetZero() // an empty list is the same as none
	}
	f.value.Set(to.Elem())
	return nil
}

var duration = reflect.TypeFor[time.Duration]()

// parse converts values that viper would misread, such as a duration without a unit.
func parse(_, to reflect.Type, value any) (any, error) {
	text, ok := value.(string)
	switch {
	case to == duration && !ok && fmt.Sprint(value) != "0":
		return nil, errors.New("no unit") // viper would take it for nanoseconds
	case !ok:
		return value, nil
	case to == duration:
		return time.ParseDuration(text)
	case to.Kind() == reflect.Int64:
		return display.ParseBytes(text)
	case to.Kind() == reflect.Int:
		return strconv.Atoi(text)
	case to.Kind() == reflect.Slice:
		return split(text), nil
	case to.Kind() == reflect.Map:
		entries := make(map[string]string)
		for _, entry := range split(text) {
			name, value, ok := strings.Cut(entry, "=")
			if !ok {
				return nil, errors.New("no =")
			}
			entries[name] = value
		}
		return entries, nil
	}
	return value, nil
}

func split(text string) []string {
	return append([]string{}, strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })...)
}

// describe describes the values of a type, for error messages.
func describe(t reflect.Type) string {
	switch {
	case t == duration:
		return "a duration, such as 90s or 10m"
	case t.Kind() == reflect.Int64:
		return "a number of bytes, such as 4096, 64KiB or 1.5GiB"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map:
		return "a map, or name=value"
	case t.Kind() == reflect.String:
		return "a text"
	}
	return "a number"
}

func dotted(key string) string { return strings.ReplaceAll(key, delimiter, ".") }

// checkKeys returns an error for each given key that no field has, with the key that was probably
// meant. Any key below a map is allowed.
func checkKeys(given *viper.Viper, all []field) (errs []error) {
	for _, key := range slices.Sorted(slices.Values(given.AllKeys())) {
		known, section := false, ""
		for _, f := range all {
			known = known || strings.EqualFold(f.key, key) || f.value.Kind() == reflect.Map && strings.HasPrefix(strings.ToLower(key), f.key+delimiter)
			if section == "" && strings.HasPrefix(f.key, key+delimiter) {
				section = dotted(f.key)
			}
		}
		switch {
		case known:
		case section != "":
			errs = append(errs, Wrong(dotted(key), given.Get(key), "is a section; want keys of it, such as "+section))
		default:
			errs = append(errs, fmt.Errorf("settings: there is no key %s%s", dotted(key), didYouMean(key, all)))
		}
	}
	return errs
}

// didYouMean suggests the nearest key to the given one, if there is a near one.
func didYouMean(given string, all []field) string {
	best, least := "", len(given)/5+2
	for _, f := range all {
		d := distance(strings.ToLower(given), f.key)
		if strings.HasSuffix(f.key, delimiter+given) { // the section was left out
			d = 1
		}
		if d < least {
			best, least = f.key, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + dotted(best) + "?"
}

// distance returns the Levenshtein distance of a and b: the least number of bytes to insert, delete
// or change to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := min(row[j], row[j+1]) + 1
			if a[i] == b[j] {
				d = min(d, diagonal)
			} else {
				d = min(d, diagonal+1)
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}

// ReadEnvironment reads a file as systemd's EnvironmentFile= does. Each line is NAME=VALUE; the
// value may be in quotation marks. Lines that begin with # or ; are comments.
func ReadEnvironment(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		all[strings.TrimSpace(name)] = value
	}
	return all, lines.Err()
}

// Show returns the settings in a struct, given as a pointer, as lines such as `http.listen:
// ":8080"`, for diagnostics. For a field with the tag secret a line only says whether it is set. A
// URL is shown without its password. secrets are the values of these fields that are set.
func Show(of any) (lines, secrets []string) {
	for _, f := range fieldsOf(reflect.ValueOf(of).Elem(), "") {
		value := fmt.Sprintf("%v", f.value.Interface())
		switch {
		case f.secret && value != "":
			secrets = append(secrets, value)
			value = "(set)"
		case f.value.Kind() == reflect.String:
			value = fmt.Sprintf("%q", value)
			if u, err := url.Parse(f.value.String()); err == nil && u.User != nil {
				value = fmt.Sprintf("%q", u.Redacted())
			}
		}
		lines = append(lines, dotted(f.key)+": "+value)
	}
	return lines, secrets
}
