package replay

import (
	"unicode"
	"unicode/utf8"
)

// words splits text into the units to compare: words of letters and digits, runs of katakana, and
// every other character by itself. Japanese has no spaces between words, so kanji and hiragana are
// compared by character.
func words(dst []string, text string) []string {
	for text != "" {
		n := wordLength(text)
		dst = append(dst, text[:n])
		text = text[n:]
	}
	return dst
}

func wordLength(s string) int {
	first, n := utf8.DecodeRuneInString(s)
	class := classOf(first)
	if class == alone {
		return n
	}
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if classOf(r) != class && !unicode.Is(unicode.Mn, r) {
			break
		}
		n += size
	}
	return n
}

type wordClass int

const (
	alone wordClass = iota
	letters
	katakana
)

func classOf(r rune) wordClass {
	switch {
	case r < utf8.RuneSelf && (isLower(lower(byte(r))) || '0' <= r && r <= '9'):
		return letters
	case r < utf8.RuneSelf:
		return alone
	case r == 'ー', unicode.Is(unicode.Katakana, r):
		return katakana
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
		return alone
	case unicode.IsLetter(r), unicode.IsDigit(r):
		return letters
	}
	return alone
}
