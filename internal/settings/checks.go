package settings

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Wrong returns the error for a setting with a bad value. why says which value is needed, such as
// "want an address, such as 0.0.0.0:8080".
func Wrong(key string, value any, why string) error {
	return fmt.Errorf("settings: %s: %q: %s", key, fmt.Sprint(value), why)
}

// ReadSecret sets a secret to the text of a file, without white space around it. key is the setting
// that names the file. If file is empty, the secret stays as it is.
func ReadSecret(key, file string, secret *string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("settings: %s: %w", key, err)
	}
	*secret = strings.TrimSpace(string(text))
	return nil
}

// Checks collects the errors of settings with bad values.
type Checks struct{ errs []error }

// Require adds an error for a setting, unless ok is true; see Wrong.
func (c *Checks) Require(ok bool, key string, value any, why string) {
	if !ok {
		c.errs = append(c.errs, Wrong(key, value, why))
	}
}

// RequireBoth adds an error if only one of two settings is given. key and other are their keys.
func (c *Checks) RequireBoth(key, value, other, otherValue string) {
	c.Require((value == "") == (otherValue == ""), key, value, "needs "+other+", and the other way round")
}

// Err returns all errors, or nil if there are none.
func (c *Checks) Err() error { return errors.Join(c.errs...) }

// Fields checks each setting of a struct, given as a pointer, against its want tag, which is also
// the text of the error. For a number the tag gives the bounds: "above 0", "at least 1s" or "1 to
// 9". For a text it is "host:port", "a time of day, such as 01:00", a URL with its schemes, such as
// "http or https URL", or else a list of values, such as "text or json". If it ends in ", or
// nothing", the text may be empty.
func (c *Checks) Fields(of any) {
	for _, f := range fieldsOf(reflect.ValueOf(of).Elem(), "") {
		if f.want != "" {
			c.Require(f.fits(), dotted(f.key), f.value.Interface(), "want "+f.want)
		}
	}
}

// fits reports whether a field's value fits its want tag.
func (f *field) fits() bool {
	if f.value.Kind() != reflect.String {
		return f.within()
	}
	text := f.value.String()
	want, optional := strings.CutSuffix(f.want, ", or nothing")
	if text == "" {
		return optional
	}
	if want == "host:port" {
		return IsAddress(text)
	}
	if strings.HasPrefix(want, "a time of day") {
		_, err := time.Parse("15:04", text)
		return err == nil
	}
	if schemes, ok := strings.CutSuffix(want, " URL"); ok {
		return IsURL(text, alternatives(schemes)...)
	}
	return slices.Contains(alternatives(want), text)
}

// within reports whether a number is within the bounds of its want tag.
func (f *field) within() bool {
	n := number(f.value)
	if least, ok := strings.CutPrefix(f.want, "above "); ok {
		return n > f.bound(least)
	}
	if least, ok := strings.CutPrefix(f.want, "at least "); ok {
		return n >= f.bound(least)
	}
	least, most, _ := strings.Cut(f.want, " to ")
	return f.bound(least) <= n && n <= f.bound(most)
}

// bound returns a bound in a want tag as a number in the field's unit.
func (f *field) bound(text string) float64 {
	to := field{key: f.key, value: reflect.New(f.value.Type()).Elem()}
	if err := to.set(text); err != nil {
		panic(err) // the tag is part of the program
	}
	return number(to.value)
}

func number(v reflect.Value) float64 {
	if v.CanFloat() {
		return v.Float()
	}
	return float64(v.Int())
}

// alternatives splits a list such as "a, b or c".
func alternatives(text string) []string {
	return strings.Split(strings.ReplaceAll(text, " or ", ", "), ", ")
}

// IsAddress reports whether a text is host:port, where the host may be missing.
func IsAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && (n > 0 || port == "0")
}

// IsURL reports whether a text is a URL with a host and one of the schemes.
func IsURL(text string, schemes ...string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && slices.Contains(schemes, u.Scheme)
}
