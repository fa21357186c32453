package media

import (
	"testing"
	"unicode/utf16"
)

func TestLines(t *testing.T) {
	const text, bom = "User-agent: *\r\nDisallow: /か\r\n", "\ufeff"
	wide := func(s string, big bool) (b []byte) {
		for _, u := range utf16.Encode([]rune(s)) {
			if big {
				b = append(b, byte(u>>8), byte(u))
			} else {
				b = append(b, byte(u), byte(u>>8))
			}
		}
		return b
	}
	for name, given := range map[string][]byte{
		"UTF-8":                  []byte(text),
		"with a mark":            []byte(bom + text),
		"two files":              []byte(bom + text[:15] + bom + text[15:]),
		"UTF-16LE":               wide(bom+text, false),
		"UTF-16BE":               wide(bom+text, true),
		"UTF-16LE without":       wide(text, false),
		"UTF-16BE without":       wide(text, true),
		"two files, UTF-16":      wide(bom+text[:15]+bom+text[15:], false),
		"with a zero at its end": []byte(text + "\x00"),
	} {
		if got := string(PlainLines(given)); got != text {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := string(PlainLines([]byte("Disallow: /\x82\xa0"))); got != "Disallow: /\x82\xa0" {
		t.Errorf("Shift_JIS: %q", got)
	}
}
