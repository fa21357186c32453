package media

import "sheaf/internal/weburl"

// Bases has the base URLs that the open elements of an XML document set (XML Base). The zero value
// is for a document that sets none.
type Bases struct {
	depth int
	set   []base
}

// mostBases limits the open bases, because each is a URL in memory, and elements may be nested
// without limit. Beyond the limit, an element keeps the base of the element around it.
const mostBases = 64

type base struct {
	depth int
	url   *weburl.URL
}

// Start begins an element. value is its xml:base attribute, which may be empty. Start resolves
// value against the base of the element around it or, if there is none, against outer.
func (b *Bases) Start(value string, outer *weburl.URL) {
	b.depth++
	if value == "" || len(b.set) == mostBases {
		return
	}
	abs, err := b.In(outer).Resolve(value, nil)
	if err != nil {
		return
	}
	if u, err := weburl.New(abs, nil); err == nil {
		b.set = append(b.set, base{b.depth, u})
	}
}

// End ends an element, and with it the base that the element has set.
func (b *Bases) End() {
	if n := len(b.set); n > 0 && b.set[n-1].depth >= b.depth {
		b.set = b.set[:n-1]
	}
	b.depth = max(0, b.depth-1)
}

// In returns the base in the current element, or outer if no open element sets a base.
func (b *Bases) In(outer *weburl.URL) *weburl.URL {
	if n := len(b.set); n > 0 {
		return b.set[n-1].url
	}
	return outer
}
