package extract

import (
	"unicode"
	"unicode/utf8"
)

// visible keeps text that a reader sees, its blanks in a row as one.
func (c *collector) visible(text []byte) {
	for {
		text = text[blanks(text):]
		word := text[:letters(text)]
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
		text = text[len(word):]
	}
}

// blanks is how many bytes of blanks, as unicode.IsSpace has them, the text begins with.
func blanks(text []byte) int {
	for i := 0; i < len(text); {
		n := blank(text[i:])
		if n == 0 {
			return i
		}
		i += n
	}
	return len(text)
}

// letters is how many bytes the text has before its first blank.
func letters(text []byte) int {
	for i, b := range text {
		// Most bytes begin no blank: those of ASCII are below "!", and the others begin with 0xc2 or 0xe1 to 0xe3.
		if b <= ' ' || b == 0xc2 || 0xe1 <= b && b <= 0xe3 {
			if blank(text[i:]) > 0 {
				return i
			}
		}
	}
	return len(text)
}

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
