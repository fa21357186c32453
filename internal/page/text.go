package page

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/atom"
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

// Limits of what a page says about its links.
const (
	MaxAnchor  = 256       // characters of one anchor
	MaxAnchors = 256 << 10 // bytes of all anchors of a page; later links have no anchor
	MaxRel     = 100       // bytes of a rel attribute
)

// anchor is the text of a link while it is read.
type anchor struct {
	at   int // of the link in collector.refs
	text words
	alt  words // of the images within
}

// words is a text with one blank in place of each run of blanks and control characters.
type words struct {
	text  strings.Builder
	chars int
	blank bool // a blank is to come before the next word
}

// add adds text, up to MaxAnchor characters. It looks at no more of a long text than it needs.
func (w *words) add(text string) {
	for _, r := range text {
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == '\u200b' || r == '\ufeff' {
			w.blank = true
			continue
		}
		if w.blank = w.blank && w.chars > 0; w.blank {
			w.chars++
		}
		if w.chars++; w.chars > MaxAnchor {
			return
		}
		if w.blank {
			w.text.WriteByte(' ')
		}
		w.text.WriteRune(r)
		w.blank = false
	}
}

// beginAnchor starts an anchor: the text that follows belongs to the link refs[at]. The text of a
// map's area is its alt attribute.
func (c *collector) beginAnchor(tag atom.Atom, at int, attrs attributes) {
	if at == len(c.refs) || c.anchors >= MaxAnchors { // a link of a feed is not in refs
		return
	}
	c.anchor = &anchor{at: at}
	if tag == atom.Area {
		c.anchor.text.add(attrs.get("alt"))
		c.endAnchor()
	}
}

// endAnchor gives the link its text or, if it has no text, the alt texts of its images.
func (c *collector) endAnchor() {
	a := c.anchor
	if a == nil {
		return
	}
	text := a.text.text.String()
	if text == "" {
		text = a.alt.text.String()
	}
	c.refs[a.at].Anchor = text
	c.anchors += len(text)
	c.anchor = nil
}

// within adds an element inside an anchor: an image's alt text, or a blank where a new line begins.
func (a *anchor) within(tag atom.Atom, attrs attributes) {
	switch tag {
	case atom.Img, atom.Image, atom.Input:
		if alt := attrs.find("alt"); alt >= 0 {
			a.alt.blank = true
			a.alt.add(string(attrs[alt].value))
		}
		a.text.blank = true
	case atom.Br, atom.P, atom.Div, atom.Li, atom.Tr, atom.Td, atom.Th, atom.Dt, atom.Dd, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		a.text.blank = true
	}
}
