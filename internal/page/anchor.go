package page

import (
	"strings"
	"unicode"

	"golang.org/x/net/html/atom"
)

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
