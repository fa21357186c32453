package replay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"sheaf/internal/media"
	"sheaf/internal/weburl"
)

// headSize is how much of a page is read before any of it is written, in bytes: to find the
// encoding, the base URL, and whether it is a frameset.
const headSize = 256 << 10

// Kind says how to show a stored body.
type Kind int

// The ways to show a body.
const (
	Other Kind = iota // unchanged
	HTML
	XHTML // and SVG: markup that browsers parse as XML
	XML   // other XML, of which only the URLs of style sheets change
	CSS
	Text
)

// kindOf returns how to show a body of a media type with this beginning.
func kindOf(mediaType string, head []byte) Kind {
	switch {
	case mediaType == "text/html":
		return HTML
	case mediaType == "text/css":
		return CSS
	case mediaType == "text/plain":
		return Text
	case !media.IsXML(mediaType):
		return Other
	case media.IsXHTML(mediaType):
		return XHTML
	}
	switch text, _ := media.DecodeText(head, mediaType); media.RootElement([]byte(text)) {
	case "html", "svg":
		return XHTML
	}
	return XML
}

// Document is a stored page or style sheet that is being shown.
type Document struct {
	Kind     Kind
	Encoding string // encoding of Rewrite's output, for a Content-Type; not for Other
	Frameset bool
	Refresh  string // absolute URL of a <meta http-equiv=refresh>; may be empty

	media   string // media type of Rewrite's output
	charset media.Charset
	base    *weburl.URL
	own     bool
	in      io.Reader
}

// Open opens a body that was fetched from url with a Content-Type header. It reads the beginning to
// fill the fields of Document.
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
	mediaType := media.Sniff(contentType, head)
	d := &Document{Kind: kindOf(mediaType, head), media: mediaType, base: base, own: true, in: in}
	if d.Kind == Other {
		return d, nil
	}
	d.charset = media.DetectCharset(head, contentType)
	d.Encoding = d.charset.Name
	if wider := transcoded(d.charset.Name); wider != nil {
		// From here on everything is UTF-8, except that queries stay in the page's encoding.
		d.in = transform.NewReader(in, wider)
		head = []byte(d.charset.Decode(head))
		d.charset.Name, d.Encoding = "utf-8", "utf-8"
	}
	if d.Kind == HTML || d.Kind == XHTML {
		d.look(head)
	}
	return d, nil
}

// transcoded returns a transformer to UTF-8 for encodings whose markup is not ASCII, and nil for
// other encodings.
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

// look reads the head for what must be known before writing. The first base applies to what
// precedes it, too.
func (d *Document) look(head []byte) {
	z := media.NewTokenizer(bytes.NewReader(head), d.Kind == XHTML)
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
					_, refresh, _ = media.CutRefresh(t.get(l, "content"))
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

// ContentType returns the Content-Type for the output of Rewrite.
func (d *Document) ContentType() string {
	return mime.FormatMediaType(d.media, map[string]string{"charset": d.Encoding})
}

// Rewrite writes the document as it was at t. framed says that it is shown within another page; its
// links then stay in frames. banner is ASCII markup to show at the top of HTML, or nil.
func (d *Document) Rewrite(w io.Writer, t time.Time, framed bool, banner []byte) error {
	out := bufio.NewWriterSize(w, 32<<10) // tokens are short
	return errors.Join(d.rewrite(out, t, framed, banner), out.Flush())
}

func (d *Document) rewrite(w io.Writer, t time.Time, framed bool, banner []byte) error {
	l := newLinker(t, d.base, d.charset)
	l.own, l.framed = d.own, framed
	switch d.Kind {
	case HTML, XHTML, XML:
		page := &rewriter{linker: l, out: w, xml: d.Kind != HTML, sheets: d.Kind == XML, banner: banner}
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

// Read reads the unchanged body, for documents that are not rewritten.
func (d *Document) Read(p []byte) (int, error) { return d.in.Read(p) }
