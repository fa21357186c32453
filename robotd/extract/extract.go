// Package extract finds what a page says about itself and what it links to.
//
// A page is decoded by what its bytes are, not by what it says they are where
// the two disagree (internal/charset), and its links are read as a browser reads them:
// in one pass over the tokens, without a tree, resolved at the end, because the
// first <base> counts for links before it too. Sitemaps and feeds are read as they come, up to the
// protocol's limits. Bytes searched, links and title are bounded, and what a bound cuts off is
// counted; no input makes it panic or fail otherwise than by a base URL that is none.
package extract

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime"
	"strings"

	"golang.org/x/text/encoding"

	"sheaf/internal/charset"
	"sheaf/internal/weburl"
)

// Limits on what one page may yield.
const (
	MaxLinks = 20_000   // links kept of one page
	MaxBytes = 8 << 20  // bytes of one page that are searched
	MaxTitle = 1024     // bytes of a title
	MaxText  = 16 << 10 // bytes of text

	// A sitemap may have 50,000 URLs and 50 MB (sitemaps.org). Twice as many links are kept, because
	// sitemaps name images and translations too. Feeds have the same limits.
	MaxSitemapLinks = 100_000
	MaxSitemapBytes = 50 << 20
)

// Reasons why links were left out: keys of Page.Cut.
const (
	CutLinks        = "page_links"    // the page has more than MaxLinks
	CutBytes        = "page_bytes"    // the page is longer than MaxBytes; the links beyond are not counted: this is 1
	CutSitemapLinks = "sitemap_links" // the sitemap has more than MaxSitemapLinks
	CutSitemapBytes = "sitemap_bytes" // the sitemap is longer than MaxSitemapBytes; this is 1
	CutLength       = "length"        // the link is longer than a URL may be
	CutFields       = "form_fields"   // the form has more fields than are sent
)

// sampled is how many bytes of a body its kind and its charset are told by.
const sampled = 256 << 10

// Page is what a page says about itself and about others.
type Page struct {
	Charset   string // as the WHATWG encoding standard names it; empty where the body is not searched
	Declared  string // the charset that was declared but not believed
	Title     string
	HTML      bool   // it was searched as HTML
	Text      string // what a reader sees, blanks in a row as one; of HTML only
	MoreText  bool   // there was more than was asked for
	Base      string // the URL that links were resolved against
	Canonical string // <link rel=canonical>
	Refresh   string // target of <meta http-equiv=refresh>
	Robots    MetaRobots
	Links     []Link // each URL once, in the page's order
	More      bool   // there was more than the limits let pass

	Cut map[string]int // links that were left out, by reason; nil: none
}

// MetaRobots is what <meta name=robots> asks.
type MetaRobots struct{ NoIndex, NoFollow, NoArchive bool }

// Link is one reference of a page to another resource.
type Link struct {
	URL      string // absolute, http or https, without fragment
	Tag      string // the element, "css", "sitemap" or "feed"
	Rel      string // the rel attribute, lower case
	Text     bool   // leads to another page rather than to a part of this one
	NoFollow bool   // by rel=nofollow, or by the page's meta robots
}

// Links reads a body that was fetched from base with a Content-Type header.
// Bodies of types that hold no links give a Page without any.
func Links(body []byte, contentType, base string) (*Page, error) {
	return LinksAndText(body, contentType, base, MaxText)
}

// LinksAndText is Links for who needs less of the text: so many bytes of it, at most MaxText.
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

// Streams reports whether a body with this beginning is a sitemap or a feed, which Stream reads whole.
func Streams(head []byte, contentType string) bool { return kindOf(contentType, head).streams() }

// Stream reads a sitemap or a feed as it comes, however long it is.
func Stream(body io.Reader, contentType, base string) (*Page, error) {
	c, err := newCollector(base, 0)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(body, sampled)
	head, _ := r.Peek(sampled) // what could be read
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
	return &collector{page: &Page{Base: url.String()}, base: url, seen: make(map[string]int), maxText: min(text, MaxText), maxLinks: MaxLinks, tooMany: CutLinks}, nil
}

// search reads a page that is at hand as a whole.
func (c *collector) search(body []byte, kind kind, contentType string) {
	if kind != kindHTML && kind != kindCSS {
		return
	}
	if len(body) > MaxBytes {
		body = body[:MaxBytes]
		c.cut(CutBytes)
	}
	cs := charset.Detect(body, contentType)
	c.page.Charset, c.page.Declared, c.enc = cs.Name, cs.Doubted, cs.Query
	if text := cs.DecodeBytes(body); kind == kindHTML {
		c.html(text)
	} else {
		c.css(text, "css")
	}
	c.resolve()
}

// stream reads a sitemap or a feed.
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
	if kind == kindXML && root(charset.Detect(head, contentType).DecodeBytes(head)) == "html" { // XHTML by another name
		if text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1)); err == nil {
			c.search(text, kindHTML, contentType)
		}
		return
	}
	c.direct, c.maxLinks, c.tooMany = true, MaxSitemapLinks, CutSitemapLinks
	cs := charset.Detect(head, contentType)
	c.page.Charset, c.page.Declared, c.enc = cs.Name, cs.Doubted, cs.Query
	text := cs.Reader(&limited{r, MaxSitemapBytes, c})
	if kind == kindList {
		c.list(text)
	} else {
		c.xml(text)
	}
	c.resolve()
}

type kind int

const (
	kindOther kind = iota
	kindHTML
	kindCSS
	kindXML
	kindGzip // perhaps a sitemap
	kindList // a sitemap with one URL on a line
)

// streams reports whether bodies of the kind are read as they come.
func (k kind) streams() bool { return k == kindXML || k == kindGzip || k == kindList }

// kindOf tells how to search a body. A body without a type, or with the one that
// servers give to what they do not know, is what it looks like.
func kindOf(contentType string, body []byte) kind {
	media, _, _ := mime.ParseMediaType(contentType)
	if media == "" {
		media, _, _ = strings.Cut(contentType, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	switch {
	case media == "text/html", media == "application/xhtml+xml", media == "image/svg+xml":
		return kindHTML
	case media == "text/css":
		return kindCSS
	case media == "text/xml", media == "application/xml", strings.HasSuffix(media, "+xml"):
		return kindXML
	case media == "application/gzip", media == "application/x-gzip":
		return kindGzip
	case media == "", media == "application/octet-stream", media == "text/plain":
		return looks(body)
	}
	return kindOther
}

// looks judges a body by its beginning.
func looks(body []byte) kind {
	head := strings.ToLower(string(body[:min(len(body), 512)]))
	switch {
	case strings.HasPrefix(head, "\x1f\x8b"):
		return kindGzip
	case strings.Contains(head, "<html"), strings.Contains(head, "<!doctype html"):
		return kindHTML
	case strings.Contains(head, "<urlset"), strings.Contains(head, "<sitemapindex"), strings.Contains(head, "<rss"),
		strings.Contains(head, "<feed"), strings.Contains(head, "<rdf:rdf"):
		return kindXML
	case isURLList(body):
		return kindList
	}
	return kindOther
}

// raw is a reference as written.
type raw struct {
	ref string
	Link
}

// collector gathers references until the page's base is known.
type collector struct {
	page      *Page
	base      *weburl.URL
	baseFound bool
	enc       encoding.Encoding // of queries
	refs      []raw
	canonical string
	refresh   string
	nested    bool // within an iframe's srcdoc
	form      *form
	text      strings.Builder
	maxText   int
	direct    bool // links are made as references come: there is no <base> to wait for
	maxLinks  int
	tooMany   string         // why links beyond maxLinks are left out
	seen      map[string]int // URL → place in page.Links
}

// cut counts a link that is left out.
func (c *collector) cut(why string) {
	c.page.More = true
	if c.page.Cut == nil {
		c.page.Cut = make(map[string]int)
	}
	c.page.Cut[why]++
}

func (c *collector) add(ref string, l Link) {
	switch {
	case len(c.refs) >= 2*c.maxLinks:
		c.cut(c.tooMany)
	case len(ref) > weburl.MaxLength && !hasPrefixFold(ref, "data:") && !hasPrefixFold(ref, "javascript:"):
		c.cut(CutLength)
	case len(ref) > weburl.MaxLength:
	case c.direct:
		c.link(ref, l)
	default:
		c.refs = append(c.refs, raw{strings.Clone(ref), l})
	}
}

// resolve makes links of the references.
func (c *collector) resolve() {
	c.page.Base = c.base.String()
	for _, r := range c.refs {
		c.link(r.ref, r.Link)
	}
	if c.canonical != "" {
		c.page.Canonical, _ = c.absolute(c.canonical)
	}
	if c.refresh != "" {
		c.page.Refresh, _ = c.absolute(c.refresh)
	}
}

// link makes a link of a reference.
func (c *collector) link(ref string, l Link) {
	url, ok := c.absolute(ref)
	if !ok {
		return
	}
	l.URL = url
	l.NoFollow = l.NoFollow || l.Text && c.page.Robots.NoFollow
	if i, ok := c.seen[url]; ok { // one of several links to a page that lets it be followed is enough
		have := &c.page.Links[i]
		have.NoFollow = have.NoFollow && l.NoFollow
		have.Text = have.Text || l.Text
		return
	}
	if len(c.page.Links) == c.maxLinks {
		c.cut(c.tooMany)
		return
	}
	c.seen[url] = len(c.page.Links)
	c.page.Links = append(c.page.Links, l)
}

func (c *collector) absolute(ref string) (string, bool) {
	url, err := c.base.Resolve(ref, c.enc)
	if err != nil || !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return "", false
	}
	return url, true
}
