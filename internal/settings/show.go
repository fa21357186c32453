package settings

import (
	"fmt"
	"net/url"
	"reflect"
)

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
