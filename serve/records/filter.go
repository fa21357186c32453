package records

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// Filter selects records by the text of a field: [!][=|~]field:expr. With = the text must be expr.
// With ~ the regular expression expr (RE2) must match the whole text. With neither, the text must
// contain expr, as in pywb, or match it as a whole, as at the Internet Archive. With ! the other
// records are selected.
type Filter struct {
	field string
	not   bool
	text  string         // to be equal to, or contained; "" if only the expression counts
	exact bool           // equal instead of contained
	match *regexp.Regexp // nil if only the text counts
}

// maxExpr is the limit for an expression, in bytes, and maxFilters for the number of filters.
const maxExpr, maxFilters = 1024, 32

func parseFilter(text string) (Filter, error) {
	var f Filter
	rest := text
	if r, ok := strings.CutPrefix(rest, "!"); ok {
		f.not, rest = true, r
	}
	mode := byte(0)
	if rest != "" && (rest[0] == '=' || rest[0] == '~') {
		mode, rest = rest[0], rest[1:]
	}
	name, expr, ok := strings.Cut(rest, ":")
	if !ok {
		return f, fmt.Errorf("want [!][=|~]field:expression")
	}
	if f.field = field(name); f.field == "" {
		return f, unknownField(name)
	}
	if len(expr) > maxExpr {
		return f, fmt.Errorf("expression of %d bytes is longer than %d", len(expr), maxExpr)
	}
	if mode == '=' {
		f.text, f.exact = expr, true
		return f, nil
	}
	_, err := regexp.Compile(expr) // without brackets: its error shows what was given, and "a)|(b" fails
	if err == nil {
		f.match, err = regexp.Compile(`\A(?:` + expr + `)\z`)
	}
	switch {
	case mode == '~' && err != nil:
		return f, fmt.Errorf("regular expression: %w", err)
	case mode != '~':
		f.text = expr // not a regular expression, but it may be contained
	}
	if mode != '~' && expr == "" {
		f.exact = true
	}
	return f, nil
}

func unknownField(name string) error {
	return fmt.Errorf("no field %.40q; the fields are %s", name, strings.Join(fieldNames, ", ")+", and "+warcField+"NAME of the record's WARC header")
}

// pass reports whether the filter selects a record.
func (f *Filter) pass(ctx context.Context, c *Capture) (bool, error) {
	text, err := value(ctx, Record{Capture: c}, f.field)
	if err != nil {
		return false, err
	}
	return f.holds(text) != f.not, nil
}

func (f *Filter) holds(text string) bool {
	switch {
	case f.exact:
		return text == f.text
	case f.text != "" && strings.Contains(text, f.text):
		return true
	}
	return f.match != nil && f.match.MatchString(text)
}
