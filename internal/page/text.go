package page

import (
	"unicode"
	"unicode/utf8"
)

// visible adds visible text, with single blanks. Words that have a single space between them, as
// most do, are copied together.
func (c *collector) visible(text []byte) {
	from, to := 0, 0 // range of the words that are not copied yet
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
		length := c.text.Len() + to - from // including what is not copied yet
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

// maybeBlank reports whether a blank may begin with b: an ASCII blank is below "!", and the other
// blanks begin with 0xc2 and 0xe1 to 0xe3.
func maybeBlank(b byte) bool { return b <= ' ' || b == 0xc2 || b-0xe1 <= 2 }

// blank returns the width of the blank at the beginning of the text in bytes, or 0 if the text
// begins with another character.
func blank(text []byte) int {
	switch b := text[0]; {
	case b == ' ' || '\t' <= b && b <= '\r':
		return 1
	case b < utf8.RuneSelf:
		return 0
	case b == 0xe3: // also the first byte of kana; the only blank is the ideographic space
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
