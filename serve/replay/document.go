package replay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"sheaf/internal/charset"
	"sheaf/internal/weburl"
)

// headSize is how much of a page is looked at, in bytes, before any of it is written:
// for its encoding, its base URL, and whether it is a frameset.
const headSize = 256 << 10

// Kind tells how a stored body is shown.
type Kind int

// The kinds.
const (
	Other Kind = iota // as it is
	HTML
	XHTML // and SVG: markup that a browser reads as XML
	CSS
	Text
)

// KindOf tells the kind by the media type, and where that says nothing by the
// body's first bytes, as a browser would.
func KindOf(contentType string, head []byte) Kind {
	switch media := MediaType(contentType); media {
	case "text/html":
		return HTML
	case "application/xhtml+xml", "image/svg+xml":
		return XHTML
	case "text/css":
		return CSS
	case "text/plain":
		return Text
	case "", "unk", "unknown/unknown", "application/unknown", "*/*":
		switch sniffed := MediaType(http.DetectContentType(head)); sniffed {
		case "text/html":
			return HTML
		case "text/plain":
			return Text
		}
	}
	return Other
}

// MediaType is a Content-Type's media type in lower case, however the rest of it reads.
func MediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// Document is a stored page or style sheet on its way to a reader.
type Document struct {
	Kind     Kind
	Encoding string // in which Rewrite writes, as a Content-Type names it; not of Other
	Frameset bool
	Refresh  string // the URL that a <meta http-equiv=refresh> leads to, absolute; may be empty

	charset charset.Charset
	base    *weburl.URL
	own     bool
	in      io.Reader
}

// Open begins to read a body that was fetched from url with a Content-Type header. It
// reads some of it, to learn what Document tells.
func Open(r io.Reader, contentType, url string) (*Document, error) {
	base, err := weburl.New(url, nil)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	in := bufio.NewReaderSize(r, headSize)
	head, err := in.Peek(headSize)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("replay: %w", err)
	}
	d := &Document{Kind: KindOf(contentType, head), base: base, own: true, in: in}
	if d.Kind == Other {
		return d, nil
	}
	d.charset = charset.Detect(head, contentType)
	d.Encoding = d.charset.Name
	if wider := transcoded(d.charset.Name); wider != nil {
		// Further on, all is UTF-8; queries stay in the page's encoding.
		d.in = transform.NewReader(in, wider)
		head = []byte(d.charset.Decode(head))
		d.charset.Name, d.Encoding = "utf-8", "utf-8"
	}
	if d.Kind == HTML || d.Kind == XHTML {
		d.look(head)
	}
	return d, nil
}

// transcoded returns what makes UTF-8 of an encoding whose markup is not ASCII; nil for the others.
func transcoded(name string) transform.Transformer {
	switch name {
	case "utf-16le":
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder()
	case "utf-16be":
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewDecoder()
	case "iso-2022-jp":
		if enc, err := htmlindex.Get(name); err == nil {
			return enc.NewDecoder()
		}
	}
	return nil
}

// look reads the head for what must be known before the first byte is written. The
// first base counts, for what stands before it, too.
func (d *Document) look(head []byte) {
	z := html.NewTokenizer(bytes.NewReader(head))
	l := newLinker(time.Time{}, d.base, d.charset)
	body, refresh := false, ""
	var attrs []attr
	for {
		switch z.Next() {
		case html.ErrorToken:
			if refresh != "" {
				d.Refresh, _ = d.base.Resolve(refresh, d.charset.Query)
			}
			return
		case html.StartTagToken, html.SelfClosingTagToken:
			t := parseTag(bytes.Clone(z.Raw()), attrs)
			attrs = t.attrs
			switch t.name {
			case "body":
				body = true
			case "frameset":
				d.Frameset = d.Frameset || !body
			case "base":
				if href := t.get(l, "href"); href != "" && d.own {
					d.rebase(href)
				}
			case "meta":
				if refresh == "" && strings.EqualFold(strings.TrimSpace(t.get(l, "http-equiv")), "refresh") {
					_, refresh, _ = cutRefresh(t.get(l, "content"))
				}
			}
		}
	}
}

func (d *Document) rebase(href string) {
	abs, err := d.base.Resolve(strings.TrimSpace(href), nil)
	if err != nil {
		return
	}
	u, err := weburl.New(abs, nil)
	if err == nil && (u.Scheme() == "http" || u.Scheme() == "https") {
		d.own, d.base = u.String() == d.base.String(), u
	}
}

// ContentType is what to say of what Rewrite writes.
func (d *Document) ContentType(stored string) string {
	media := MediaType(stored)
	switch d.Kind {
	case HTML:
		media = "text/html"
	case CSS:
		media = "text/css"
	case Text:
		media = "text/plain"
	}
	return mime.FormatMediaType(media, map[string]string{"charset": d.Encoding})
}

// Rewrite writes the document as it was at t. Within another page, framed, its links
// stay in frames. Banner is markup in ASCII, or nil, which is shown at the top of HTML.
func (d *Document) Rewrite(w io.Writer, t time.Time, framed bool, banner []byte) error {
	out := bufio.NewWriterSize(w, 32<<10) // tokens are small
	return errors.Join(d.rewrite(out, t, framed, banner), out.Flush())
}

func (d *Document) rewrite(w io.Writer, t time.Time, framed bool, banner []byte) error {
	l := newLinker(t, d.base, d.charset)
	l.own, l.framed = d.own, framed
	switch d.Kind {
	case HTML, XHTML:
		page := &rewriter{linker: l, out: w, xml: d.Kind == XHTML, banner: banner}
		return page.markup(d.in)
	case CSS:
		sheet, err := io.ReadAll(io.LimitReader(d.in, maxToken))
		if err != nil {
			return err
		}
		if _, err := w.Write(l.css(nil, sheet)); err != nil {
			return err
		}
	}
	_, err := io.Copy(w, d.in)
	return err
}

// Read reads the body as it is; it is for what is not rewritten.
func (d *Document) Read(p []byte) (int, error) { return d.in.Read(p) }
