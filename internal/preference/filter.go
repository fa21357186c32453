package preference

import (
	"fmt"
	"slices"
	"strings"
)

// Filter selects responses by their preferences. The zero value selects all.
type Filter struct {
	name string // empty: any
	text string // in lower case; must be in the value
	not  bool
	set  bool
}

// ParseFilter parses "name" (the response has this preference), "name:text" (its value has the
// text, in small or capital letters), "any" (the response has a preference), or one of these with
// "!" before it, which selects all other responses.
func ParseFilter(s string) (Filter, error) {
	f := Filter{set: true}
	s, f.not = strings.CutPrefix(s, "!")
	name, text, _ := strings.Cut(s, ":")
	f.name, f.text = strings.ToLower(name), strings.ToLower(text)
	if f.name == "any" && text == "" {
		f.name = ""
		return f, nil
	}
	if !slices.Contains(Names(), f.name) {
		return f, fmt.Errorf("no preference %.40q; want any or one of %s, with :text behind it or ! before it", s, strings.Join(Names(), ", "))
	}
	return f, nil
}

// Holds reports whether the filter selects a response with these preferences.
func (f Filter) Holds(text string) bool {
	switch {
	case !f.set:
		return true
	case f.name == "":
		return (text != "") != f.not
	}
	value := Value(text, f.name)
	return (value != "" && strings.Contains(strings.ToLower(value), f.text)) != f.not
}
