package texts

import (
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"

	"sheaf/internal/media"
)

// Text is what was taken out of a page.
type Text struct {
	Title    string
	Main     string // lines
	Language string // as BCP 47 has it, such as ja; empty: not known
	Charset  string // in which the page is written: see CharsetName
	Declared string // charset that page or server declares instead; empty: the same, or none
	SimHash  uint64 // of Main, for near duplicates; 0: Main is too short
	Reason   string // why Main is empty, or not all of it
}

// Values of Text.Reason.
const (
	NoText  = "no text" // the page has no words
	Frames  = "frames"  // the page only says which others to show
	TooLong = "longer than 2 MiB"
	Damaged = "damaged" // the stored record cannot be read
)

// IsPage reports whether a body of a Content-Type that begins with head is HTML.
func IsPage(contentType string, head []byte) bool {
	switch media.Sniff(contentType, head) {
	case "text/html", "application/xhtml+xml":
		return true
	}
	return false
}

// Extract takes the text out of a page. body is the page's beginning; at most MaxBody bytes of it
// are looked at.
func Extract(body []byte, contentType string) *Text {
	t := &Text{}
	if len(body) > MaxBody {
		body, t.Reason = body[:MaxBody], TooLong
	}
	p, cs := read(body, contentType)
	t.Title, t.Charset, t.Declared = p.title, CharsetName(cs.Name), CharsetName(cs.Doubted)
	head := p
	if len(body) > HeadBytes {
		head, _ = read(body[:HeadBytes], contentType)
	}
	t.Language = head.languageOf(cs.Name)
	t.Main = p.mainText()
	t.SimHash = simHash(t.Main)
	switch {
	case t.Main == "" && p.frameset:
		t.Reason = Frames
	case t.Main == "":
		t.Reason = NoText
	}
	return t
}

// Language returns the language of a page that begins with head, as Extract finds it.
func Language(head []byte, contentType string) string {
	p, cs := read(head[:min(len(head), HeadBytes)], contentType)
	return p.languageOf(cs.Name)
}

func read(body []byte, contentType string) (*page, media.Charset) {
	text, cs := media.DecodeText(body, contentType)
	return walk(text, media.Sniff(contentType, body) == "application/xhtml+xml"), cs
}

// CharsetName returns a charset's MIME name, as Common Crawl writes it, such as Shift_JIS and
// UTF-8. If MIME has none, it returns name.
func CharsetName(name string) string {
	enc, err := htmlindex.Get(name)
	if err != nil {
		return name
	}
	if preferred, err := ianaindex.MIME.Name(enc); err == nil {
		return preferred
	}
	return name // MIME has no name for some of the web's
}
