package replay

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"sheaf/internal/media"
)

// maxToken is the limit for a token of markup, in bytes. From a longer token on, the page is passed
// on unchanged.
const maxToken = 4 << 20

// rewriter writes one page.
type rewriter struct {
	*linker
	out    io.Writer
	err    error // first error of out
	xml    bool  // the document is XML: the banner goes after <body> or nowhere
	sheets bool  // only the URLs of style sheets change
	bases  media.Bases
	banner []byte
	depth  int    // nesting of pages in attributes and noscript
	buf    []byte // scratch memory
	raw    []byte // the current tag
	attrs  []attr // attributes of the current tag
}

func (w *rewriter) write(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
}

// markup rewrites the markup from r.
func (w *rewriter) markup(r io.Reader) error {
	z := media.NewTokenizer(r, w.xml)
	z.SetMaxBuf(maxToken)
	skipped, within := "", false // element that is left out, with its content and end tag; it is of XML
	raw := ""                    // element whose text is next
	for w.err == nil {
		kind := z.Next()
		token := z.Raw()
		switch {
		case kind == html.ErrorToken:
			w.beforeContent()
			return w.ends(z, r, token)
		case skipped != "" && within == z.XML():
			switch name, _ := z.TagName(); {
			case kind == html.EndTagToken && media.LocalName(string(name)) == skipped:
				skipped = ""
			case w.xml && (kind == html.StartTagToken || kind == html.SelfClosingTagToken):
				w.bases.Start("", w.base) // its end tag is counted, too
			}
		case kind == html.TextToken:
			w.text(token, raw, z.XML())
		case kind == html.StartTagToken, kind == html.SelfClosingTagToken:
			w.raw = append(w.raw[:0], token...)
			t := parseTag(w.raw, w.attrs)
			w.attrs = t.attrs
			if raw = t.name; kind == html.SelfClosingTagToken {
				raw = ""
			}
			skipped = ""
			if !w.element(&t) && kind == html.StartTagToken && (w.xml || t.name == "script") {
				skipped, within = t.name, z.XML()
			}
		default:
			if raw = ""; w.xml && kind == html.CommentToken {
				token = w.styleSheet(token)
			}
			w.write(token)
		}
		if w.xml && (kind == html.EndTagToken || kind == html.SelfClosingTagToken) {
			w.bases.End()
		}
	}
	return w.err
}

// element writes a start tag, or leaves the element out and returns false.
func (w *rewriter) element(t *tag) bool {
	base := w.base
	if w.xml {
		t.name = media.LocalName(t.name)
		w.bases.Start(t.get(w.linker, "xml:base"), base)
		w.base = w.bases.In(base)
		defer func() { w.base = base }()
	}
	switch {
	case w.sheets && t.name != "include" && t.name != "import": // of XSLT
		w.write(t.raw)
		return true
	case t.name == "script":
		return false
	}
	return w.start(t)
}

// styleSheet rewrites a token if it is a processing instruction that names a style sheet.
func (w *rewriter) styleSheet(token []byte) []byte {
	link, ok := media.StyleSheet(token)
	if !ok {
		return token
	}
	t := parseTag(link, nil)
	w.change(&t)
	_, rest, _ := bytes.Cut(t.write(nil, ""), []byte("<link"))
	return append([]byte("<?xml-stylesheet"), rest...)
}

// ends handles the end of the tokens. It passes on unchanged what the tokenizer did not accept.
func (w *rewriter) ends(z *media.Tokenizer, r io.Reader, token []byte) error {
	err := z.Err()
	w.write(token)
	switch {
	case errors.Is(err, io.EOF):
		return w.err
	case errors.Is(err, html.ErrBufferExceeded):
		w.write(z.Buffered())
		_, err = io.Copy(w.out, r)
	}
	return errors.Join(w.err, err)
}

// text writes the text of an element. xml says that references are decoded in it.
func (w *rewriter) text(token []byte, element string, xml bool) {
	switch {
	case w.sheets:
	case element == "style" && xml:
		token = w.styleXML(token)
	case element == "style":
		w.buf = w.css(w.buf[:0], token)
		token = w.buf
	case element == "noscript" && !xml && w.depth < maxDepth:
		// It is markup, since scripts are off.
		inner := &rewriter{linker: w.linker, out: w.out, depth: w.depth + 1}
		w.err = errors.Join(w.err, inner.markup(bytes.NewReader(bytes.Clone(token))))
		return
	case element == "title", element == "noframes":
	case len(bytes.TrimSpace(token)) > 0:
		w.beforeContent()
	}
	w.write(token)
}

// styleXML rewrites the text of a style element of XML.
func (w *rewriter) styleXML(token []byte) []byte {
	inner, cdata := media.CDATA(token)
	if cdata {
		return slices.Concat([]byte("<![CDATA["), w.css(nil, inner), []byte("]]>"))
	}
	plain := fromXML.Replace(string(token))
	if sheet := string(w.css(nil, []byte(plain))); sheet != plain {
		return []byte(toXML.Replace(sheet))
	}
	return token
}

var (
	fromXML = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&apos;", "'", "&amp;", "&")
	toXML   = strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;")
)

// maxDepth is the limit for the nesting of pages that are rewritten.
const maxDepth = 3

// start writes a start tag, unless a stored page is shown without the element.
func (w *rewriter) start(t *tag) bool {
	switch atom.Lookup([]byte(t.name)) {
	case atom.Html, atom.Head, atom.Title, atom.Meta, atom.Link, atom.Base, atom.Basefont, atom.Bgsound, atom.Style, atom.Noscript,
		atom.Template, atom.Body, atom.Frameset, atom.Frame, atom.Noframes:
	default:
		w.beforeContent()
	}
	if w.leftOut(t) {
		return false
	}
	more := w.change(t)
	w.buf = t.write(w.buf[:0], more)
	w.write(w.buf)
	if t.name == "body" {
		w.showBanner()
	}
	return true
}

// beforeContent writes the banner where a page without <body> begins to show content.
func (w *rewriter) beforeContent() {
	if !w.xml {
		w.showBanner()
	}
}

func (w *rewriter) showBanner() {
	if w.banner != nil {
		w.write(w.banner)
		w.banner = nil
	}
}

// leftOut reports whether a stored page is shown without this element.
func (w *rewriter) leftOut(t *tag) bool {
	switch t.name {
	case "meta":
		switch strings.ToLower(strings.TrimSpace(t.get(w.linker, "http-equiv"))) {
		case "content-security-policy", "content-security-policy-report-only", "x-frame-options", "set-cookie", "x-dns-prefetch-control":
			return true
		}
	case "link":
		hint := false
		for rel := range strings.FieldsSeq(strings.ToLower(t.get(w.linker, "rel"))) {
			switch rel {
			case "dns-prefetch", "preconnect", "prefetch", "prerender", "preload", "modulepreload", "manifest":
				hint = true
			default:
				return false // it is more than a hint, such as a style sheet
			}
		}
		return hint
	}
	return false
}

// change sets what happens to a tag's attributes, and returns an additional attribute, or "".
func (w *rewriter) change(t *tag) (more string) {
	for i := range t.attrs {
		if a := &t.attrs[i]; !a.again {
			a.becomes = w.becomes(t, *a)
		}
	}
	switch t.name {
	case "button":
		if kind := strings.ToLower(t.get(w.linker, "type")); kind == "" || kind == "submit" {
			more = w.disabled(t)
		}
	case "input":
		switch strings.ToLower(strings.TrimSpace(t.get(w.linker, "type"))) {
		case "submit", "image":
			more = w.disabled(t)
		}
	}
	return more
}

// disabled returns the attribute that shows that a button does nothing.
func (w *rewriter) disabled(t *tag) string {
	for _, a := range t.attrs {
		if a.name == "disabled" {
			return ""
		}
	}
	return ` disabled="disabled"`
}

// becomes returns what happens to an attribute.
func (w *rewriter) becomes(t *tag, a attr) change {
	if strings.HasPrefix(a.name, "on") {
		return change{what: goes}
	}
	switch a.name {
	case "xml:base", "integrity", "crossorigin", "nonce", "ping", "manifest", "action", "formaction", "attributionsrc", "autoplay":
		return change{what: goes}
	case "href", "xlink:href":
		return w.href(t, a)
	case "src":
		if t.name == "frame" || t.name == "iframe" || t.name == "embed" || t.name == "layer" || t.name == "ilayer" {
			return w.reference(w.frame, t, a)
		}
		return w.reference(w.part, t, a)
	case "data":
		if t.name == "object" {
			return w.reference(w.frame, t, a)
		}
	case "background", "poster", "lowsrc", "dynsrc", "codebase":
		return w.reference(w.part, t, a)
	case "cite", "longdesc":
		return w.reference(w.part, t, a)
	case "srcset", "imagesrcset":
		return change{changes, w.srcset(t.value(w.linker, a))}
	case "style":
		return w.style(t, a)
	case "srcdoc":
		return w.srcdoc(t, a)
	case "content":
		if t.name == "meta" && strings.EqualFold(strings.TrimSpace(t.get(w.linker, "http-equiv")), "refresh") {
			return w.refresh(t.value(w.linker, a))
		}
	}
	return change{}
}

// reference rewrites an attribute with a URL. It drops the URL of a script.
func (w *rewriter) reference(link func(string) (string, bool), t *tag, a attr) change {
	ref := t.value(w.linker, a)
	to, ok := link(ref)
	switch {
	case ok:
		return change{changes, to}
	case isScript(ref):
		return change{what: goes}
	}
	return change{}
}

func (w *rewriter) href(t *tag, a attr) change {
	switch t.name {
	case "base":
		return change{what: goes}
	case "a", "area":
		target := t.get(w.linker, "target")
		return w.reference(func(ref string) (string, bool) { return w.page(ref, target) }, t, a)
	}
	return w.reference(w.part, t, a)
}

// isScript reports whether a reference is a script. Browsers ignore spaces and controls within the
// scheme.
func isScript(ref string) bool {
	scheme, _, ok := strings.Cut(ref, ":")
	if !ok || len(scheme) > 100 {
		return false
	}
	scheme = strings.ToLower(strings.Map(func(r rune) rune {
		if r <= ' ' {
			return -1
		}
		return r
	}, scheme))
	return scheme == "javascript" || scheme == "vbscript" || scheme == "livescript" || scheme == "mocha"
}

func (w *rewriter) style(t *tag, a attr) change {
	style := t.value(w.linker, a)
	lower := strings.ToLower(style)
	if !strings.Contains(lower, "url(") && !strings.Contains(lower, "image-set(") && !strings.Contains(style, `\`) {
		return change{}
	}
	return change{changes, string(w.decoded().css(nil, []byte(style)))}
}

func (w *rewriter) srcdoc(t *tag, a attr) change {
	if w.depth >= maxDepth {
		return change{what: goes}
	}
	l := w.decoded()
	l.framed = true
	var out bytes.Buffer
	inner := &rewriter{linker: l, out: &out, depth: w.depth + 1}
	if err := inner.markup(strings.NewReader(t.value(w.linker, a))); err != nil {
		return change{what: goes}
	}
	return change{changes, out.String()}
}

// decoded returns the linker for text of the page that is UTF-8 already.
func (w *rewriter) decoded() *linker {
	l := *w.linker
	l.charset.Name, l.wide = "utf-8", nil
	return &l
}
