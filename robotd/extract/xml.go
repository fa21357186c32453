package extract

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxContent is how many bytes of one text of a sitemap or feed are read.
const maxContent = 1 << 20

// xml adds the links of a sitemap (loc, also those of images and videos) or of an RSS or Atom feed
// (link, by text or href; enclosure; guid; content by src; links within the texts of entries). It
// reads tokens as HTML does, which accepts what an XML parser would not.
func (c *collector) xml(text io.Reader) {
	z := newTokenizer(text)
	z.AllowCDATA(true)
	e := xmlElement{collector: c}
	for {
		switch token := z.Next(); token {
		case html.ErrorToken:
			c.ended(z)
			return
		case html.TextToken:
			if (e.tag != "" || e.inside != "") && e.content.Len() < maxContent {
				e.content.Write(z.Text())
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			e.end(local(name))
		case html.StartTagToken, html.SelfClosingTagToken:
			e.start(z, token == html.StartTagToken)
		}
	}
}

// xmlElement is the element of a sitemap or feed that is being read.
type xmlElement struct {
	collector *collector
	tag       string // Link.Tag for the element's text; empty: the text is no link
	inside    string // the entry's text that is being read, whose markup is searched
	attrs     attributes
	content   strings.Builder
}

// end ends an element.
func (e *xmlElement) end(name string) {
	if e.inside != "" && name != e.inside {
		return
	}
	ref := strings.TrimSpace(e.content.String())
	if e.inside != "" {
		e.collector.tokens([]byte(ref), new(strings.Builder), false)
	} else if ref != "" && e.tag != "" {
		e.collector.add(ref, Link{Tag: e.tag, Text: true})
	}
	e.tag, e.inside = "", ""
	e.content.Reset()
}

// start begins an element. open says that it may have content.
func (e *xmlElement) start(z *html.Tokenizer, open bool) {
	text, more := z.TagName()
	name := local(text)
	if e.inside != "" { // XHTML within an entry
		if more {
			e.attrs = e.attrs.read(z)
			e.collector.element(atom.Lookup([]byte(name)), name, e.attrs)
		}
		return
	}
	e.content.Reset()
	e.attrs = e.attrs[:0]
	if more {
		e.attrs = e.attrs.read(z)
	}
	e.tag = ""
	switch name {
	case "link":
		e.tag = "feed"
		e.add(Link{Tag: "feed", Rel: strings.ToLower(e.attrs.get("rel")), Text: true}, "href")
	case "guid":
		if !strings.EqualFold(e.attrs.get("ispermalink"), "false") {
			e.tag = "feed"
		}
	case "outline": // of a list of feeds (OPML)
		e.add(Link{Tag: "feed", Text: true}, "xmlurl", "htmlurl")
	case "content", "thumbnail":
		e.add(Link{Tag: "feed"}, "src", "url")
	case "enclosure":
		e.add(Link{Tag: "feed"}, "url")
	default:
		if name == "loc" || strings.HasSuffix(name, "_loc") {
			e.tag = "sitemap"
		}
	}
	if open && (name == "content" || name == "summary" || name == "description" || name == "encoded") {
		e.inside = name
	}
}

// add adds the references in attributes.
func (e *xmlElement) add(l Link, keys ...string) {
	for _, key := range keys {
		if url := e.attrs.get(key); url != "" {
			e.collector.add(url, l)
		}
	}
}

// newTokenizer returns a tokenizer for texts whose tokens are at most as long as a page.
func newTokenizer(r io.Reader) *html.Tokenizer {
	z := html.NewTokenizer(r)
	z.SetMaxBuf(MaxBytes + 1)
	return z
}

// ended counts if a tokenizer has stopped before the end of its text.
func (c *collector) ended(z *html.Tokenizer) {
	if errors.Is(z.Err(), html.ErrBufferExceeded) {
		c.cut(CutBytes)
	}
}

// local returns the name of an element without its prefix.
func local(name []byte) string {
	if _, n, prefixed := strings.Cut(string(name), ":"); prefixed {
		return n
	}
	return string(name)
}

// root returns the name of a document's outermost element; "": text stands before it, or there is
// none.
func root(text []byte) string {
	z := newTokenizer(bytes.NewReader(text))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return ""
		case html.TextToken:
			if len(bytes.Trim(z.Raw(), " \t\r\n\f]>")) > 0 { // the end of a document type is text to the tokenizer
				return ""
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			return local(name)
		}
	}
}
