package page

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"sheaf/internal/media"
	"sheaf/internal/weburl"
)

// html parses a page, which is XHTML or SVG if xml is set.
func (c *collector) html(text []byte, xml bool) {
	var title strings.Builder
	c.text.Grow(min(len(text)/2, c.maxText)) // in most pages half is markup
	mode := outer
	if xml {
		mode = outerXML
	}
	c.tokens(text, &title, mode)
	c.page.Title = cleanTitle(title.String())
	c.page.HTML, c.page.Text = true, c.text.String()
}

// mode says which markup is searched.
type mode int

const (
	inner    mode = iota // HTML within another document
	outer                // a page of HTML
	outerXML             // a page of XHTML, SVG or XSLT
)

// tokens searches markup. The content of noframes and noscript is text to the tokenizer, since a
// browser with frames and scripts does not show it. In an HTML page, tokens searches that text too.
func (c *collector) tokens(text []byte, title *strings.Builder, mode mode) {
	s := &search{c: c, z: newTokenizer(bytes.NewReader(text), mode == outerXML), mode: mode, title: title}
	for {
		kind := s.z.Next()
		switch kind {
		case html.ErrorToken:
			c.ended(s.z)
			if mode != inner {
				c.endAnchor()
			}
			return
		case html.CommentToken:
			if mode == outerXML {
				c.styleSheet(s.z.Raw())
			}
		case html.TextToken:
			s.text()
		case html.StartTagToken, html.SelfClosingTagToken:
			s.start()
		}
		if kind == html.EndTagToken || kind == html.SelfClosingTagToken {
			s.end(kind == html.EndTagToken)
		}
	}
}

// search is the state of one search of markup.
type search struct {
	c      *collector
	z      *media.Tokenizer
	mode   mode
	title  *strings.Builder
	titled bool
	in     atom.Atom // element whose text comes next
	attrs  attributes
}

func (s *search) text() {
	switch s.in {
	default:
		if s.c.page.MoreText && s.c.anchor == nil {
			return
		}
		text := s.z.Text()
		if s.c.anchor != nil {
			s.c.anchor.text.add(string(text))
		}
		if !s.c.page.MoreText {
			s.c.visible(text)
		}
	case atom.Script:
		s.c.script(s.z.Text(), "script")
	case atom.Textarea:
	case atom.Style:
		s.c.css(s.z.Text(), "css")
	case atom.Title:
		if s.title.Len() < 4*MaxTitle {
			s.title.Write(s.z.Text())
		}
	case atom.Noframes, atom.Noscript, atom.Noembed:
		if hidden := s.z.Raw(); s.mode == outer && len(hidden) > 0 {
			s.c.tokens(hidden, s.title, inner)
		}
	}
}

func (s *search) start() {
	name, more := s.z.TagName()
	if s.mode == outerXML {
		name = []byte(media.LocalName(string(name)))
	}
	s.in = atom.Lookup(name)
	tag := s.in
	switch tag {
	case atom.Form:
		s.c.endForm()
	case atom.A:
		s.c.endAnchor()
	}
	if tag == atom.Title {
		if s.titled || s.mode == inner {
			s.in = 0
		}
		s.titled = true
	}
	s.attrs = s.attrs[:0]
	if more {
		s.attrs = s.attrs.read(s.z)
	}
	if s.mode == outerXML {
		s.c.bases.Start(s.attrs.get("xml:base"), s.c.base)
	}
	if s.c.anchor != nil {
		s.c.anchor.within(tag, s.attrs)
	}
	if more || tag == atom.Form || tag == atom.Select { // these count without attributes too
		s.c.element(tag, atom.String(name), s.attrs)
	}
}

// end ends an element: by an end tag if tag is set, otherwise because its start tag closes itself.
func (s *search) end(tag bool) {
	element := s.in // of a tag that is its own end
	if s.in = 0; tag {
		name, _ := s.z.TagName()
		if s.mode == outerXML {
			name = []byte(media.LocalName(string(name)))
		}
		element = atom.Lookup(name)
	}
	switch {
	case element == atom.Form && tag:
		s.c.endForm()
	case element == atom.A && (tag || s.mode == outerXML):
		s.c.endAnchor()
	}
	if s.mode == outerXML {
		s.c.bases.End()
	}
}

func cleanTitle(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > MaxTitle {
		s = strings.ToValidUTF8(s[:MaxTitle], "")
	}
	return s
}

// element adds the references of one tag.
func (c *collector) element(tag atom.Atom, name string, attrs attributes) {
	if c.direct && (tag == atom.Base || tag == atom.Meta) { // an entry says nothing about its feed
		return
	}
	c.ownAttributes(tag, name, attrs)
	c.handlers(attrs, name)
	part := Link{Tag: name, Rel: relOf(attrs)}
	if background := attrs.get("background"); strings.TrimSpace(background) != "" { // body, table, tr, td
		c.add(background, part)
	}
	for _, key := range []string{"srcset", "imagesrcset", "data-srcset", "data-lazy-srcset"} {
		for ref := range srcset(attrs.get(key)) {
			c.add(ref, part)
		}
	}
	c.lazy(tag, attrs, part)
	if style := attrs.get("style"); style != "" {
		c.css([]byte(style), name)
	}
}

// lazy adds the references that scripts load once the reader scrolls to an element.
func (c *collector) lazy(tag atom.Atom, attrs attributes, part Link) {
	switch tag {
	case atom.Iframe:
		part.Text = true
	case atom.Img, atom.Image, atom.Video, atom.Audio, atom.Source, atom.Embed:
	default: // data-src of other elements may be anything
		return
	}
	for _, key := range []string{"data-src", "data-original", "data-lazy-src", "data-full-src", "data-poster"} {
		if ref := attrs.get(key); strings.TrimSpace(ref) != "" {
			c.add(ref, part)
		}
	}
}

// relOf returns the words of the rel attribute in lower case, with one space between them, as many
// as MaxRel bytes hold.
func relOf(attrs attributes) string { return wordsOf(attrs.get("rel")) }

func wordsOf(text string) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(text) {
		if word = strings.ToLower(strings.ToValidUTF8(word, "\ufffd")); b.Len()+1+len(word) > MaxRel {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	return b.String()
}

// ownAttributes adds the references in the attributes that only some elements have.
func (c *collector) ownAttributes(tag atom.Atom, name string, attrs attributes) {
	rel := relOf(attrs)
	page, part := Link{Tag: name, Rel: rel, Text: true, NoFollow: hasWord(rel, "nofollow")}, Link{Tag: name, Rel: rel}
	take := func(l Link, keys ...string) {
		for _, k := range keys {
			if v, ok := attrs.lookup(k); ok && (strings.TrimSpace(v) != "" || k == "href" && l.Text) {
				c.add(v, l)
			}
		}
	}
	switch tag {
	case atom.A, atom.Area:
		if i := attrs.find("href"); i < 0 || !c.scriptURL(attrs[i].value, name) {
			defer c.beginAnchor(tag, len(c.refs), attrs)
			take(page, "href", "xlink:href")
		}
	case atom.Frame, atom.Iframe:
		take(page, "src", "longdesc")
		c.srcdoc(attrs.get("srcdoc"))
	case atom.Base:
		c.setBase(attrs)
	case atom.Meta:
		c.meta(attrs)
	case atom.Link:
		c.linkElement(rel, attrs.get("href"), page, part)
	case atom.Img, atom.Image:
		take(part, "src", "href", "xlink:href", "lowsrc", "dynsrc")
		take(page, "longdesc")
	case atom.Script, atom.Embed, atom.Bgsound, atom.Audio, atom.Video, atom.Source, atom.Track:
		take(part, "src", "poster")
	case atom.Form:
		c.beginForm(attrs)
	case atom.Input:
		if strings.EqualFold(attrs.get("type"), "image") {
			take(part, "src")
		}
		c.input(attrs)
	case atom.Select, atom.Option:
		c.choice(tag, attrs)
		if value := strings.TrimSpace(attrs.get("value")); tag == atom.Option && menuAddress(value) {
			c.add(value, page)
		}
	case atom.Object:
		take(part, "data")
	case atom.Applet:
		c.applet(attrs)
	case atom.Param:
		c.param(attrs, page, part)
	case atom.Blockquote, atom.Q, atom.Ins, atom.Del:
		take(page, "cite")
	}
	switch name {
	case "layer", "ilayer":
		take(page, "src")
	case "use":
		c.use(attrs, part)
	case "include", "import": // of XSLT
		take(part, "href")
	}
}

// use adds the reference of SVG's use element, unless it begins with # and so is within the page.
func (c *collector) use(attrs attributes, part Link) {
	for _, key := range []string{"href", "xlink:href"} {
		if ref := strings.TrimSpace(attrs.get(key)); ref != "" && ref[0] != '#' {
			c.add(ref, part)
		}
	}
}

// srcdoc searches the page in an iframe's srcdoc attribute. That page has the outer page's base.
func (c *collector) srcdoc(markup string) {
	if markup != "" && !c.nested {
		c.nested = true
		c.tokens([]byte(markup), new(strings.Builder), inner)
		c.nested = false
	}
}

// applet adds an applet's class and archives, relative to its codebase.
func (c *collector) applet(attrs attributes) {
	dir := strings.TrimSpace(attrs.get("codebase"))
	if dir != "" && !strings.HasSuffix(dir, "/") {
		dir += "/"
	}
	code := strings.TrimSpace(attrs.get("code"))
	if code != "" && !strings.HasSuffix(code, ".class") {
		code += ".class"
	}
	for _, ref := range append(strings.Split(attrs.get("archive"), ","), code) {
		if ref = strings.TrimSpace(ref); ref != "" {
			c.add(dir+ref, Link{Tag: "applet"})
		}
	}
}

// param adds the URL in an object's parameter: a page in the contents or index of an HTML Help book
// (.hhc, .hhk), or a player's file.
func (c *collector) param(attrs attributes, page, part Link) {
	value := strings.TrimSpace(attrs.get("value"))
	if value == "" {
		return
	}
	switch strings.ToLower(attrs.get("name")) {
	case "local":
		c.add(value, page)
	case "movie", "src", "filename", "url":
		c.add(value, part)
	}
}

// setBase sets the base, if this is the page's first base element with an href.
func (c *collector) setBase(attrs attributes) {
	href, ok := attrs.lookup("href")
	if !ok || c.baseFound {
		return
	}
	c.baseFound = true
	if abs, ok := c.absolute(c.base, href); ok {
		if u, err := weburl.New(abs, nil); err == nil {
			c.base = u
		}
	}
}

func (c *collector) linkElement(rel, href string, page, part Link) {
	href = strings.TrimSpace(href)
	switch {
	case href == "" || hasWord(rel, "preconnect") || hasWord(rel, "dns-prefetch"):
	case hasWord(rel, "stylesheet"), hasWord(rel, "icon"), hasWord(rel, "preload"), hasWord(rel, "modulepreload"),
		hasWord(rel, "apple-touch-icon"), hasWord(rel, "manifest"):
		c.add(href, part)
	default: // canonical, next, prev, contents, alternate, …
		c.add(href, page)
	}
}

func (c *collector) meta(attrs attributes) {
	content := attrs.get("content")
	switch {
	case strings.EqualFold(attrs.get("http-equiv"), "refresh"):
		if _, ref, ok := media.CutRefresh(content); ok {
			c.add(ref, Link{Tag: "meta", Text: true})
		}
	case strings.EqualFold(attrs.get("name"), "robots"):
		for word := range strings.FieldsFuncSeq(content, func(r rune) bool { return r == ',' || r <= ' ' }) {
			c.page.Robots.Add(word)
		}
	case strings.EqualFold(attrs.get("property"), "og:image") && content != "":
		c.add(content, Link{Tag: "meta"})
	}
}

// srcset yields the URLs of a list such as "a.png 1x, b.png 2x". A comma within a URL belongs to
// the URL; a comma at its end separates.
func srcset(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for {
			s = strings.TrimLeft(s, " \t\r\n\f,")
			if s == "" {
				return
			}
			end := strings.IndexAny(s, " \t\r\n\f")
			if end < 0 {
				end = len(s)
			}
			url := s[:end]
			s = s[end:]
			if trimmed := strings.TrimRight(url, ","); trimmed != url {
				url = trimmed
			} else if comma := strings.IndexByte(s, ','); comma >= 0 {
				s = s[comma:]
			} else {
				s = ""
			}
			if url != "" && !yield(url) {
				return
			}
		}
	}
}

func hasWord(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}
