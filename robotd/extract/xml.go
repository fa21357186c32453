package extract

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxContent is how much of one text of a sitemap or feed is read, in bytes.
const maxContent = 1 << 20

// xml takes the links of sitemaps (loc, their images' and videos' too) and of RSS
// and Atom feeds (link, by text or href; enclosure; guid; content by src; what the texts of
// entries link to). It reads tokens as HTML does, which forgives what an XML reader would not.
func (c *collector) xml(text io.Reader) {
	z := newTokenizer(text)
	z.AllowCDATA(true)
	tag := ""    // whose text is a link
	inside := "" // the element of an entry's text, whose markup is searched
	var attrs attributes
	var content strings.Builder
	flush := func() {
		if ref := strings.TrimSpace(content.String()); inside != "" {
			c.tokens([]byte(ref), new(strings.Builder), false)
		} else if ref != "" && tag != "" {
			c.add(ref, Link{Tag: tag, Text: true})
		}
		tag = ""
		content.Reset()
	}
	for {
		switch token := z.Next(); token {
		case html.ErrorToken:
			c.ended(z)
			return
		case html.TextToken:
			if (tag != "" || inside != "") && content.Len() < maxContent {
				content.Write(z.Text())
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			if inside == "" {
				flush()
			} else if local(name) == inside {
				flush()
				inside = ""
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			n := local(name)
			if inside != "" { // XHTML within an entry
				if more {
					attrs = attrs.read(z)
					c.element(atom.Lookup([]byte(n)), n, attrs)
				}
				continue
			}
			content.Reset()
			switch {
			case n == "loc" || strings.HasSuffix(n, "_loc"):
				tag = "sitemap"
			case n == "link", n == "guid" && !more: // with isPermaLink it may be no link
				tag = "feed"
			default:
				tag = ""
			}
			if more {
				attrs = attrs.read(z)
			} else {
				attrs = attrs[:0]
			}
			if token == html.StartTagToken && (n == "content" || n == "summary" || n == "description" || n == "encoded") {
				inside = n
			}
			switch n {
			case "link":
				if href := attrs.get("href"); href != "" {
					c.add(href, Link{Tag: "feed", Rel: strings.ToLower(attrs.get("rel")), Text: true})
				}
			case "guid":
				if !strings.EqualFold(attrs.get("ispermalink"), "false") {
					tag = "feed"
				}
			case "outline": // of a list of feeds (OPML)
				for _, key := range []string{"xmlurl", "htmlurl"} {
					if url := attrs.get(key); url != "" {
						c.add(url, Link{Tag: "feed", Text: true})
					}
				}
			case "content", "thumbnail":
				for _, key := range []string{"src", "url"} {
					if url := attrs.get(key); url != "" {
						c.add(url, Link{Tag: "feed"})
					}
				}
			case "enclosure":
				if url := attrs.get("url"); url != "" {
					c.add(url, Link{Tag: "feed"})
				}
			}
		}
	}
}

// newTokenizer returns a tokenizer for texts in which no token is longer than a page.
func newTokenizer(r io.Reader) *html.Tokenizer {
	z := html.NewTokenizer(r)
	z.SetMaxBuf(MaxBytes + 1)
	return z
}

// ended notes that a tokenizer has stopped before the end of its text.
func (c *collector) ended(z *html.Tokenizer) {
	if errors.Is(z.Err(), html.ErrBufferExceeded) {
		c.cut(CutBytes)
	}
}

// local is an element's name without its prefix.
func local(name []byte) string {
	if _, n, prefixed := strings.Cut(string(name), ":"); prefixed {
		return n
	}
	return string(name)
}

// root returns the name of a document's outermost element.
func root(text []byte) string {
	z := newTokenizer(bytes.NewReader(text))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			return local(name)
		}
	}
}
