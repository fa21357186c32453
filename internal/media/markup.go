package media

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"golang.org/x/net/html"

	"sheaf/internal/weburl"
)

// Tokenizer is an html.Tokenizer for HTML or XML.
type Tokenizer struct {
	*html.Tokenizer
	xml  bool
	kind html.TokenType
	open []bool // open elements that begin SVG or MathML in HTML (true), or HTML within these (false)
}

// NewTokenizer returns a Tokenizer for a document, as XML or as HTML. Text is returned in the
// document's encoding, which must contain ASCII.
func NewTokenizer(r io.Reader, xml bool) *Tokenizer {
	t := &Tokenizer{Tokenizer: html.NewTokenizer(r), xml: xml}
	t.AllowCDATA(xml)
	return t
}

// XML reports whether the rules of XML apply to the current token: the document is XML, or the
// token is SVG or MathML in HTML.
func (t *Tokenizer) XML() bool { return t.xml || len(t.open) > 0 && t.open[len(t.open)-1] }

// Next is like html.Tokenizer.Next. It returns html.SelfClosingTagToken only if the tag ends its
// element. In HTML no tag does, because the slash has no meaning there.
func (t *Tokenizer) Next() html.TokenType {
	t.kind = t.Tokenizer.Next()
	tag := t.kind == html.StartTagToken || t.kind == html.SelfClosingTagToken
	if !t.xml && (tag || t.kind == html.EndTagToken) {
		t.nest()
	}
	if tag && t.XML() {
		t.NextIsNotRawText()
	} else if t.kind == html.SelfClosingTagToken {
		t.kind = html.StartTagToken
	}
	return t.kind
}

// nest follows the nesting of SVG and MathML in HTML.
func (t *Tokenizer) nest() {
	n := len(t.open)
	raw := t.Raw()
	if n == 0 && (len(raw) < 5 || raw[1]|0x20 != 's' && raw[1]|0x20 != 'm') { // most tags are none of these
		return
	}
	within, name := t.XML(), nameOf(raw)
	switch {
	case t.kind == html.EndTagToken:
		if n > 0 && (within && foreign[name] || !within && integration[name]) {
			t.open = t.open[:n-1]
		}
	case foreign[name] && t.kind == html.StartTagToken:
		t.open = append(t.open, true)
	case within && integration[name] && t.kind == html.StartTagToken:
		t.open = append(t.open, false)
	case within && breaksOut[name]:
		t.open = t.open[:0]
	}
	t.AllowCDATA(t.XML())
}

// nameOf returns the name of a tag in lower case.
func nameOf(raw []byte) string {
	name := bytes.TrimLeft(raw, "</")
	if end := bytes.IndexAny(name, " \t\r\n\f/>"); end >= 0 {
		name = name[:end]
	}
	return string(bytes.ToLower(name))
}

// Elements of HTML with foreign content (HTML standard, 13.2.6.5).
var (
	foreign     = set("svg math")
	integration = set("foreignobject desc annotation-xml")
	breaksOut   = set("b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta nobr ol p " +
		"pre ruby s small span strong strike sub sup table tt u ul var")
)

func set(names string) map[string]bool {
	m := make(map[string]bool)
	for name := range strings.FieldsSeq(names) {
		m[name] = true
	}
	return m
}

// Text is html.Tokenizer.Text. It unwraps CDATA if XML is true; XML documents have XML's entities.
func (t *Tokenizer) Text() []byte {
	inner, ok := CDATA(t.Raw())
	switch {
	case t.kind != html.TextToken, !t.XML(), !ok && !t.xml:
		return t.Tokenizer.Text()
	case ok:
		return inner
	}
	return unescape(t.Raw())
}

// CDATA returns the content of a token that is a CDATA section.
func CDATA(token []byte) (inner []byte, ok bool) {
	inner, ok = bytes.CutPrefix(token, []byte("<![CDATA["))
	return bytes.TrimSuffix(inner, []byte("]]>")), ok
}

// unescape decodes the character references of XML and of XHTML's document type. Other references
// stay as they are.
func unescape(text []byte) []byte {
	if bytes.IndexByte(text, '&') < 0 {
		return text
	}
	return reference.ReplaceAllFunc(text, func(ref []byte) []byte {
		if plain := html.UnescapeString(string(ref)); !strings.HasSuffix(plain, ";") { // otherwise only its beginning is a name, or nothing
			return []byte(plain)
		}
		return ref
	})
}

var reference = regexp.MustCompile(`&(#?[0-9A-Za-z]{1,32});`)

// AttributeValue decodes the character references in an attribute's value, which must be UTF-8. A
// name without a semicolon, but with "=", a letter or a digit after it, is not a reference:
// "&section" in "?a=1&section=2" stays (HTML standard, 13.2.5.73).
func AttributeValue(value string) string {
	if !strings.Contains(value, "&") {
		return value
	}
	z := html.NewTokenizer(strings.NewReader(`<a b="` + strings.ReplaceAll(value, `"`, "&quot;") + `">`))
	z.Next()
	z.TagName()
	_, plain, _ := z.TagAttr()
	return string(plain)
}

// RootElement returns the name of a document's outermost element in lower case, without prefix. It
// returns "" if there is no element, or text before it.
func RootElement(text []byte) string {
	z := NewTokenizer(bytes.NewReader(text), true)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return ""
		case html.TextToken:
			if len(bytes.Trim(z.Raw(), "\ufeff \t\r\n\f]>")) > 0 { // the tokenizer takes the end of a document type for text
				return ""
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			return LocalName(string(name))
		}
	}
}

// LocalName returns the name of an element without its prefix.
func LocalName(name string) string {
	if _, n, prefixed := strings.Cut(name, ":"); prefixed {
		return n
	}
	return name
}

// StyleSheet turns an XML processing instruction for a style sheet into a tag with the attributes
// of a link element. ok is false for any other token.
func StyleSheet(token []byte) (tag []byte, ok bool) {
	pi, ok := bytes.CutPrefix(token, []byte("<?xml-stylesheet"))
	return append([]byte("<link"), pi...), ok
}

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
