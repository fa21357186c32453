package extract

import (
	"unicode"
	"unicode/utf8"
)

// visible keeps text that a reader sees, its blanks in a row as one.
func (c *collector) visible(text []byte) {
	for i := 0; ; {
		for i < len(text) && maybeBlank(text[i]) {
			n := blank(text[i:])
			if n == 0 {
				break
			}
			i += n
		}
		start := i
		for i < len(text) && !(maybeBlank(text[i]) && blank(text[i:]) > 0) {
			i++
		}
		word := text[start:i]
		if len(word) == 0 {
			return
		}
		if c.text.Len()+len(word) >= MaxText {
			c.page.MoreText = true
			return
		}
		if c.text.Len() > 0 {
			c.text.WriteByte(' ')
		}
		c.text.Write(word)
	}
}

// maybeBlank is false for most bytes of text: those of ASCII that begin a blank are below "!", and
// the others are 0xc2 and 0xe1 to 0xe3.
func maybeBlank(b byte) bool { return b <= ' ' || b == 0xc2 || b-0xe1 <= 2 }

// blank is the width of the blank that the text begins with, 0 where it begins with none.
func blank(text []byte) int {
	switch b := text[0]; {
	case b == ' ' || '\t' <= b && b <= '\r':
		return 1
	case b < utf8.RuneSelf:
		return 0
	case b == 0xe3: // as kana do, the ideographic space alone of all blanks
		if len(text) >= 3 && text[1] == 0x80 && text[2] == 0x80 {
			return 3
		}
		return 0
	}
	if r, n := utf8.DecodeRune(text); unicode.IsSpace(r) {
		return n
	}
	return 0
}
