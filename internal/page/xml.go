package page

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"sheaf/internal/media"
)

// maxContent is how many bytes of one text of a sitemap or feed are read.
const maxContent = 1 << 20

// xml adds the links of a sitemap (loc, also those of images and videos) or of an RSS or Atom feed
// (link, by text or href; enclosure; guid; content by src; links within the texts of entries).
func (c *collector) xml(text io.Reader) {
	z := newTokenizer(text, true)
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
		case html.CommentToken:
			c.styleSheet(z.Raw())
		case html.EndTagToken:
			name, _ := z.TagName()
			e.end(media.LocalName(string(name)))
			c.bases.End()
		case html.StartTagToken, html.SelfClosingTagToken:
			e.start(z, token == html.StartTagToken)
			if token == html.SelfClosingTagToken {
				c.bases.End()
			}
		}
	}
}

// xmlElement is the element of a sitemap or feed that is being read.
type xmlElement struct {
	collector *collector
	tag       string // Link.Tag for the element's text; empty: the text is no link
	inside    string // name of the entry's element that is being read, whose text is searched as markup; empty: none
	attrs     attributes
	content   strings.Builder
}

// end ends an element: it adds the element's text as a link, or searches it as markup.
func (e *xmlElement) end(name string) {
	if e.inside != "" && name != e.inside {
		return
	}
	ref := strings.TrimSpace(e.content.String())
	if e.inside != "" {
		e.collector.tokens([]byte(ref), new(strings.Builder), inner)
	} else if ref != "" && e.tag != "" {
		e.collector.add(ref, Link{Tag: e.tag, Text: true})
	}
	e.tag, e.inside = "", ""
	e.content.Reset()
}

// start begins an element. open says that the element may have content.
func (e *xmlElement) start(z *media.Tokenizer, open bool) {
	text, more := z.TagName()
	name := media.LocalName(string(text))
	e.attrs = e.attrs[:0]
	if more {
		e.attrs = e.attrs.read(z)
	}
	e.collector.bases.Start(e.attrs.get("xml:base"), e.collector.base)
	if e.inside != "" { // XHTML within an entry
		if more {
			e.collector.element(atom.Lookup([]byte(name)), name, e.attrs)
		}
		return
	}
	e.content.Reset()
	e.tag = ""
	switch name {
	case "link":
		e.tag = "feed"
		e.add(Link{Tag: "feed", Rel: relOf(e.attrs), Text: true}, "href")
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
func newTokenizer(r io.Reader, xml bool) *media.Tokenizer {
	z := media.NewTokenizer(r, xml)
	z.SetMaxBuf(MaxBytes + 1)
	return z
}

// ended counts a cut if the tokenizer has stopped at a token that is too long.
func (c *collector) ended(z *media.Tokenizer) {
	if errors.Is(z.Err(), html.ErrBufferExceeded) {
		c.cut(CutBytes)
	}
}

// styleSheet adds the style sheet that a processing instruction names.
func (c *collector) styleSheet(token []byte) {
	tag, ok := media.StyleSheet(token)
	if !ok {
		return
	}
	z := newTokenizer(bytes.NewReader(tag), true)
	z.Next()
	z.TagName()
	if href := attributes(nil).read(z).get("href"); href != "" && href[0] != '#' {
		c.add(href, Link{Tag: "xml-stylesheet"})
	}
}

// inflate returns a reader of a gzip file's content, or nil if body is no gzip file.
func inflate(body io.Reader) *bufio.Reader {
	z, err := gzip.NewReader(body)
	if err != nil {
		return nil
	}
	return bufio.NewReaderSize(z, sampled)
}

// limited reads the first left bytes of a sitemap, and counts the sitemap as cut if there are more.
type limited struct {
	r    io.Reader
	left int64
	c    *collector
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left == 0 {
		var one [1]byte
		if n, _ := io.ReadFull(l.r, one[:]); n > 0 {
			l.c.cut(CutSitemapBytes)
		}
		return 0, io.EOF
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// isURLList reports whether a body is a text sitemap: UTF-8 with one absolute URL on each line
// (sitemaps.org, "Text file"). A text that only mentions URLs does not count.
func isURLList(body []byte) bool {
	head := body[:min(len(body), 16<<10)]
	if len(head) < len(body) {
		head = head[:bytes.LastIndexByte(head, '\n')+1]
	}
	lines := 0
	for line := range bytes.Lines(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if !hasPrefixFold(string(line), "http://") && !hasPrefixFold(string(line), "https://") ||
			bytes.ContainsAny(line, " \t<>") || !utf8.Valid(line) {
			return false
		}
		lines++
	}
	return lines > 0
}

// list adds the URLs of a text sitemap.
func (c *collector) list(text io.Reader) {
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			c.add(string(line), Link{Tag: "sitemap", Text: true})
		}
	}
	if lines.Err() == bufio.ErrTooLong {
		c.cut(CutLength)
	}
}

// maxLine is the longest line of a list that is read, in bytes. Every URL is shorter.
const maxLine = 1 << 20
