package page

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"mime"
	"strings"

	"golang.org/x/text/encoding"

	"sheaf/internal/media"
	"sheaf/internal/preference"
	"sheaf/internal/weburl"
)

// Limits for one page.
const (
	MaxLinks = 20_000   // links kept of one page
	MaxBytes = 8 << 20  // bytes of one page that are searched
	MaxTitle = 1024     // bytes of a title
	MaxText  = 16 << 10 // bytes of text

	// A sitemap may have 50,000 URLs and 50 MB (sitemaps.org). Twice as many links are kept,
	// because sitemaps name images and translations too. Feeds have the same limits.
	MaxSitemapLinks = 100_000
	MaxSitemapBytes = 50 << 20
)

// Reasons why links were left out: keys of Page.Cut.
const (
	CutLinks        = "page_links"    // the page has more than MaxLinks
	CutBytes        = "page_bytes"    // the page is longer than MaxBytes; counts 1, however many links are beyond
	CutSitemapLinks = "sitemap_links" // the sitemap has more than MaxSitemapLinks
	CutSitemapBytes = "sitemap_bytes" // the sitemap is longer than MaxSitemapBytes; counts 1
	CutLength       = "length"        // the link is longer than a URL may be
	CutFields       = "form_fields"   // the form has more fields than are sent
)

// sampled is how many bytes of a stream decide its kind and charset.
const sampled = 256 << 10

// Page is what a page says about itself, and its links.
type Page struct {
	Charset  string // name in the WHATWG encoding standard; empty if the body is not searched
	Title    string
	HTML     bool           // the body was searched as HTML
	Text     string         // visible text with single blanks; of HTML only
	MoreText bool           // Text is cut
	Robots   preference.Tag // <meta name=robots>
	Links    []Link         // each URL once, in order
	More     bool           // a limit has cut something off

	Cut map[string]int // links that were left out, by reason; nil: none
}

// Link is one reference of a page to another resource.
type Link struct {
	URL      string // absolute, http or https, without fragment
	Tag      string // the element, "css", "sitemap" or "feed"
	Rel      string `json:",omitempty"` // words of the rel attribute of the first reference, lower case
	Anchor   string `json:",omitempty"` // the link's text, or the alt texts of its images; at most MaxAnchor characters
	Text     bool   `json:",omitempty"` // leads to another page, not to a part of this one
	NoFollow bool   `json:",omitempty"` // by rel=nofollow, or by the page's meta robots
}

// MaxRecorded is how many links of one page an archive keeps.
const MaxRecorded = 1000

// Kind returns the kind of link that an archive keeps: Tag in lower case, then "nofollow" if the
// page asks for that.
func (l *Link) Kind() string {
	kind := strings.ToLower(l.Tag)
	if l.NoFollow {
		kind += " nofollow"
	}
	return kind
}

// Links parses a body that was fetched from base with a Content-Type header. If the type has no
// links, neither has the Page.
func Links(body []byte, contentType, base string) (*Page, error) {
	return LinksAndText(body, contentType, base, MaxText)
}

// LinksAndText is Links with text as the limit for the visible text, in bytes, if that is less than
// MaxText.
func LinksAndText(body []byte, contentType, base string, text int) (*Page, error) {
	c, err := newCollector(base, text)
	if err != nil {
		return nil, err
	}
	if kind := kindOf(contentType, body); kind.streams() {
		c.stream(bytes.NewReader(body), kind, contentType)
	} else {
		c.search(body, kind, contentType)
	}
	return c.page, nil
}

// Searches reports whether a body with this beginning is of a kind that may have links.
func Searches(head []byte, contentType string) bool { return kindOf(contentType, head) != kindOther }

// Streams reports whether Stream reads a body with this beginning: a sitemap, a feed, or a gzip
// file that may be one of them.
func Streams(head []byte, contentType string) bool { return kindOf(contentType, head).streams() }

// Stream parses a sitemap or a feed, up to MaxSitemapBytes. For a body of another kind the Page is
// empty.
func Stream(body io.Reader, contentType, base string) (*Page, error) {
	c, err := newCollector(base, 0)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(body, sampled)
	head, _ := r.Peek(sampled) // as much as can be read
	if kind := kindOf(contentType, head); kind.streams() {
		c.stream(r, kind, contentType)
	}
	return c.page, nil
}

func newCollector(base string, text int) (*collector, error) {
	url, err := weburl.New(base, nil)
	if err != nil {
		return nil, fmt.Errorf("extract: the page's own URL: %w", err)
	}
	return &collector{page: new(Page), base: url, seen: make(map[string]int), maxText: min(text, MaxText), maxLinks: MaxLinks, tooMany: CutLinks}, nil
}

// search parses a page that is completely in memory.
func (c *collector) search(body []byte, kind kind, contentType string) {
	if kind != kindHTML && kind != kindXHTML && kind != kindCSS {
		return
	}
	if len(body) > MaxBytes {
		body = body[:MaxBytes]
		c.cut(CutBytes)
	}
	cs := media.DetectCharset(body, contentType)
	c.page.Charset, c.enc = cs.Name, cs.Query
	if text := cs.DecodeBytes(body); kind == kindCSS {
		c.css(text, "css")
	} else {
		c.html(text, kind == kindXHTML)
	}
	c.resolve()
}

// stream parses a sitemap or a feed, or a page that came as XML.
func (c *collector) stream(body io.Reader, kind kind, contentType string) {
	r := bufio.NewReaderSize(body, sampled)
	if kind == kindGzip {
		if r = inflate(r); r == nil {
			return
		}
		contentType = ""
	}
	head, _ := r.Peek(sampled)
	if kind == kindGzip {
		if kind = kindOf("", head); kind != kindXML && kind != kindList {
			return
		}
	}
	if kind == kindXML {
		contentType = asXML(contentType)
		switch media.RootElement(media.DetectCharset(head, contentType).DecodeBytes(head)) {
		case "stylesheet", "transform": // XSLT
			c.templates = true
			fallthrough
		case "html", "svg": // with another type
			if text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1)); err == nil {
				c.search(text, kindXHTML, contentType)
			}
			return
		}
	}
	c.direct, c.maxLinks, c.tooMany = true, MaxSitemapLinks, CutSitemapLinks
	cs := media.DetectCharset(head, contentType)
	c.page.Charset, c.enc = cs.Name, cs.Query
	text := cs.Reader(&limited{r, MaxSitemapBytes, c})
	if kind == kindList {
		c.list(text)
	} else {
		c.xml(text)
	}
	c.resolve()
}

// asXML returns a Content-Type of XML, with the charset of the given one.
func asXML(contentType string) string {
	t := media.TypeOf(contentType)
	switch {
	case media.IsXML(t.Essence):
		return contentType
	case t.Charset == "":
		return "application/xml"
	}
	return mime.FormatMediaType("application/xml", map[string]string{"charset": t.Charset})
}

type kind int

const (
	kindOther kind = iota
	kindHTML
	kindXHTML // and SVG and XSLT
	kindCSS
	kindXML
	kindGzip // may be a sitemap
	kindList // a sitemap with one URL on a line
)

// streams reports whether bodies of the kind are read as a stream.
func (k kind) streams() bool { return k == kindXML || k == kindGzip || k == kindList }

// kindOf returns how to search a body. It judges as a browser does, but also accepts what browsers
// do not show: sitemaps and feeds of any type, packed or not, and pages sent as files to be saved.
func kindOf(contentType string, body []byte) kind {
	const beginning = 4 << 10
	head := body[:min(len(body), beginning)]
	mediaType := media.Sniff(contentType, head)
	family, _, _ := strings.Cut(mediaType, "/")
	saved := strings.HasSuffix(mediaType, "/octet-stream") || mediaType == "text/plain" && media.TypeOf(contentType).Essence != mediaType
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return kindGzip
	case mediaType == "text/css":
		return kindCSS
	case shown[family] && !media.IsXML(mediaType):
		return kindOther
	}
	text := media.DetectCharset(head, contentType).DecodeBytes(head)
	switch {
	case isList[media.RootElement(text)]:
		return kindXML
	case media.IsXHTML(mediaType):
		return kindXHTML
	case media.IsXML(mediaType):
		return kindXML
	case isURLList(body):
		return kindList
	case media.IsHTML(mediaType), saved && looksLikePage(text):
		return kindHTML
	}
	return kindOther
}

// shown has the families of media types without links. Their XML types, such as SVG, have links.
var shown = map[string]bool{"image": true, "audio": true, "video": true, "font": true}

// isList has the outermost elements of sitemaps and feeds.
var isList = map[string]bool{"urlset": true, "sitemapindex": true, "rss": true, "feed": true, "rdf": true}

// looksLikePage reports whether a text says near its beginning that it is HTML.
func looksLikePage(text []byte) bool {
	head := bytes.ToLower(text[:min(len(text), 512)])
	return bytes.Contains(head, []byte("<html")) || bytes.Contains(head, []byte("<!doctype html"))
}

// raw is a reference as it is written.
type raw struct {
	ref  string
	base *weburl.URL // base that an element of XML sets; nil: the page's
	Link
}

// collector collects references until the page's base is known.
type collector struct {
	page      *Page
	base      *weburl.URL
	baseFound bool
	bases     media.Bases
	enc       encoding.Encoding // of queries
	refs      []raw
	nested    bool // within an iframe's srcdoc
	templates bool // a reference with a brace is a template for URLs, and is left out
	form      *form
	anchor    *anchor // of the link whose text comes; nil: none
	anchors   int     // bytes of the anchors so far
	text      strings.Builder
	maxText   int
	direct    bool // links are resolved at once, since there can be no <base>
	maxLinks  int
	tooMany   string         // why links beyond maxLinks are left out
	seen      map[string]int // index in page.Links, by URL
}

// cut counts a link that is left out, by the reason why.
func (c *collector) cut(why string) {
	c.page.More = true
	if c.page.Cut == nil {
		c.page.Cut = make(map[string]int)
	}
	c.page.Cut[why]++
}

func (c *collector) add(ref string, l Link) {
	switch {
	case c.templates && strings.Contains(ref, "{"):
	case len(c.refs) >= 2*c.maxLinks:
		c.cut(c.tooMany)
	case len(ref) > weburl.MaxLength && !hasPrefixFold(ref, "data:") && !hasPrefixFold(ref, "javascript:"):
		c.cut(CutLength)
	case len(ref) > weburl.MaxLength:
	case c.direct:
		c.link(c.bases.In(c.base), ref, l)
	default:
		c.refs = append(c.refs, raw{strings.Clone(ref), c.bases.In(nil), l})
	}
}

// resolve resolves the collected references, and adds their links to the page.
func (c *collector) resolve() {
	for _, r := range c.refs {
		c.link(cmp.Or(r.base, c.base), r.ref, r.Link)
	}
}

// link resolves a reference and adds its link. Links to one URL are merged.
func (c *collector) link(base *weburl.URL, ref string, l Link) {
	url, ok := c.absolute(base, ref)
	if !ok {
		return
	}
	l.URL = url
	l.NoFollow = l.NoFollow || l.Text && c.page.Robots.NoFollow
	if i, ok := c.seen[url]; ok { // nofollow holds only if all links to the URL have it
		have := &c.page.Links[i]
		have.NoFollow = have.NoFollow && l.NoFollow
		have.Text = have.Text || l.Text
		have.Anchor = cmp.Or(have.Anchor, l.Anchor)
		return
	}
	if len(c.page.Links) == c.maxLinks {
		c.cut(c.tooMany)
		return
	}
	c.seen[url] = len(c.page.Links)
	c.page.Links = append(c.page.Links, l)
}

func (c *collector) absolute(base *weburl.URL, ref string) (string, bool) {
	url, err := base.Resolve(ref, c.enc)
	if err != nil || !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return "", false
	}
	return url, true
}
