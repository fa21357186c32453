package sortedrun

import (
	"strconv"
	"strings"
)

// LineScanner parses JSON with known fields in a known order, much faster than encoding/json. It
// accepts only the exact form that this project's encoders write. For any other text it fails, and
// the caller then uses encoding/json.
//
// A LineScanner parses a text from its beginning. Rest is the remaining text.
type LineScanner struct{ Rest string }

// Skip removes a prefix, and reports whether it was there.
func (s *LineScanner) Skip(prefix string) (ok bool) {
	s.Rest, ok = strings.CutPrefix(s.Rest, prefix)
	return ok
}

// Text removes a prefix and the string after it, and stores the string. The string shares memory
// with the text where it can. It must be ASCII, and only quotes may be escaped, as in ETags. For
// another text, it only returns false.
func (s *LineScanner) Text(prefix string, to *string) bool {
	after, ok := strings.CutPrefix(s.Rest, prefix)
	if !ok || after == "" || after[0] != '"' {
		return false
	}
	quotes := false
	for i := 1; i < len(after); i++ {
		switch c := after[i]; {
		case c == '"':
			*to, s.Rest = after[1:i], after[i+1:]
			if quotes {
				*to = strings.ReplaceAll(*to, `\"`, `"`)
			}
			return true
		case c == '\\' && i+1 < len(after) && after[i+1] == '"':
			quotes = true
			i++
		case c == '\\' || c < ' ' || c >= 0x7f:
			return false
		}
	}
	return false
}

// Number removes a prefix and the whole number after it, and stores the number. For another text,
// it only returns false.
func (s *LineScanner) Number(prefix string, to *int64) bool {
	after, ok := strings.CutPrefix(s.Rest, prefix)
	i := 0
	for i < len(after) && '0' <= after[i] && after[i] <= '9' {
		i++
	}
	n, err := strconv.ParseInt(after[:i], 10, 64)
	if !ok || err != nil || i > 1 && after[0] == '0' {
		return false
	}
	*to, s.Rest = n, after[i:]
	return true
}
