package extract

import (
	"unicode"
	"unicode/utf8"
)

// visible keeps text that a reader sees, its blanks in a row as one. Words with a single space
// between each two, as most of them have, are copied together.
func (c *collector) visible(text []byte) {
	from, to := 0, 0 // words that are not copied yet
	flush := func() {
		if from < to {
			if c.text.Len() > 0 {
				c.text.WriteByte(' ')
			}
			c.text.Write(text[from:to])
		}
	}
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
		if start == i {
			flush()
			return
		}
		if from == to || start != to+1 || text[to] != ' ' {
			flush()
			from, to = start, start
		}
		length := c.text.Len() + to - from // with what is not copied yet
		if from < to && c.text.Len() > 0 {
			length++
		}
		if length+i-start >= c.maxText {
			flush()
			c.page.MoreText = true
			return
		}
		to = i
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
