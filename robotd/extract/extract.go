// Package extract finds what a page says about itself and what it links to.
//
// A page is decoded by what its bytes are, not by what it says they are where
// the two disagree (internal/charset), and its links are read as a browser reads them:
// in one pass over the tokens, without a tree, resolved at the end, because the
// first <base> counts for links before it too. Bytes searched, links and
// title are bounded; no input makes it panic or fail otherwise than by a base
// URL that is none.
package extract

import (
	"fmt"
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
)

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
	url, err := weburl.New(base, nil)
	if err != nil {
		return nil, fmt.Errorf("extract: the page's own URL: %w", err)
	}
	c := &collector{page: &Page{Base: url.String()}, base: url, seen: make(map[string]int), maxText: min(text, MaxText)}
	if len(body) > MaxBytes {
		body, c.page.More = body[:MaxBytes], true
	}
	var search func(*collector, []byte)
	switch kindOf(contentType, body) {
	case kindGzip:
		if body = inflate(body); kindOf("", body) != kindXML {
			return c.page, nil
		}
		search = (*collector).xml
	case kindList:
		search = (*collector).list
	case kindHTML:
		search = (*collector).html
	case kindCSS:
		search = func(c *collector, text []byte) { c.css(text, "css") }
	case kindXML:
		search = (*collector).xml
	default:
		return c.page, nil
	}
	cs := charset.Detect(body, contentType)
	c.page.Charset, c.page.Declared, c.enc = cs.Name, cs.Doubted, cs.Query
	search(c, cs.DecodeBytes(body))
	c.resolve()
	return c.page, nil
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
	seen      map[string]int // URL → place in page.Links
}

func (c *collector) add(ref string, l Link) {
	if len(c.refs) >= 2*MaxLinks {
		c.page.More = true
		return
	}
	if len(ref) > weburl.MaxLength {
		return
	}
	c.refs = append(c.refs, raw{strings.Clone(ref), l})
}

// resolve makes links of the references.
func (c *collector) resolve() {
	c.page.Base = c.base.String()
	for _, r := range c.refs {
		url, ok := c.absolute(r.ref)
		if !ok {
			continue
		}
		l := r.Link
		l.URL = url
		l.NoFollow = l.NoFollow || l.Text && c.page.Robots.NoFollow
		if i, ok := c.seen[url]; ok { // one of several links to a page that lets it be followed is enough
			have := &c.page.Links[i]
			have.NoFollow = have.NoFollow && l.NoFollow
			have.Text = have.Text || l.Text
			continue
		}
		if len(c.page.Links) == MaxLinks {
			c.page.More = true
			break
		}
		c.seen[url] = len(c.page.Links)
		c.page.Links = append(c.page.Links, l)
	}
	if c.canonical != "" {
		c.page.Canonical, _ = c.absolute(c.canonical)
	}
	if c.refresh != "" {
		c.page.Refresh, _ = c.absolute(c.refresh)
	}
}

func (c *collector) absolute(ref string) (string, bool) {
	url, err := c.base.Resolve(ref, c.enc)
	if err != nil || !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return "", false
	}
	return url, true
}
