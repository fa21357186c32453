package config

import (
	"strings"
	"unicode"
)

// SplitList splits a text at blanks and commas.
func SplitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}
