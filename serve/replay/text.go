package replay

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"sheaf/internal/media"
)

// Limits for the compared text of one version.
const (
	MaxText   = 4 << 20 // bytes of the body
	maxBlocks = 50_000
)

// Content is the readable text of a version of a page.
type Content struct {
	Title  string
	Blocks []string // paragraphs, rows, lines
	More   bool     // the limits cut something off
}

// ErrNoText says that a body is none of the kinds that Read takes.
var ErrNoText = fmt.Errorf("neither HTML nor text")

// Read returns the text of the first MaxText bytes of a body with a Content-Type header. It returns
// ErrNoText for anything except HTML, plain text, XML, style sheets and scripts.
func Read(r io.Reader, contentType string) (*Content, error) {
	body, err := io.ReadAll(io.LimitReader(r, MaxText+1))
	if err != nil {
		return nil, err
	}
	c := &collector{Content: new(Content)}
	if len(body) > MaxText {
		body, c.More = body[:MaxText], true
	}
	mediaType := media.Sniff(contentType, body)
	kind := kindOf(mediaType, body)
	switch {
	case kind == HTML, kind == XHTML:
		text, _ := media.DecodeText(body, contentType)
		c.markup(text, 0, kind == XHTML)
	case media.IsText(mediaType):
		text, _ := media.DecodeText(body, contentType)
		for line := range strings.Lines(text) {
			c.add(line)
			c.end()
		}
	default:
		return nil, fmt.Errorf("%.60q: %w", mediaType, ErrNoText)
	}
	c.end()
	return c.Content, nil
}

// collector collects text in blocks.
type collector struct {
	*Content
	block strings.Builder
	blank bool // write a space before the next word
}

// add adds text to the block, with successive spaces as one.
func (c *collector) add(text string) {
	for text != "" {
		rest := strings.TrimLeft(text, " \t\r\n\f\u00a0")
		c.blank = c.blank || len(rest) < len(text)
		if rest == "" {
			return
		}
		word := rest
		if i := strings.IndexAny(rest, " \t\r\n\f\u00a0"); i >= 0 {
			word = rest[:i]
		}
		if c.blank && c.block.Len() > 0 {
			c.block.WriteByte(' ')
		}
		c.blank = false
		c.block.WriteString(word)
		text = rest[len(word):]
	}
}

// end adds the block to Blocks, unless it is empty, and begins the next.
func (c *collector) end() {
	c.blank = false
	if c.block.Len() == 0 {
		return
	}
	if len(c.Blocks) == maxBlocks {
		c.More = true
	} else {
		c.Blocks = append(c.Blocks, c.block.String())
	}
	c.block.Reset()
}

// markup adds the text of HTML or, if xml is set, of XHTML.
func (c *collector) markup(text string, depth int, xml bool) {
	z := media.NewTokenizer(strings.NewReader(text), xml)
	var in atom.Atom // element whose text is next
	pre := 0
	for {
		kind := z.Next()
		switch kind {
		case html.ErrorToken:
			return
		case html.TextToken:
			c.text(z, in, pre > 0, depth)
			continue
		case html.CommentToken, html.DoctypeToken:
			continue
		}
		in = 0
		name, _ := z.TagName()
		tag := atom.Lookup(name)
		switch {
		case tag == atom.Pre && kind == html.EndTagToken:
			pre = max(0, pre-1)
		case tag == atom.Pre:
			pre++
		case tag == atom.Td || tag == atom.Th:
			c.blank = true
		}
		if Breaks(tag) {
			c.end()
		}
		if kind == html.StartTagToken {
			in = tag
		}
		if kind != html.EndTagToken {
			c.alternative(z, tag)
		}
	}
}

func (c *collector) text(z *media.Tokenizer, in atom.Atom, pre bool, depth int) {
	switch in {
	case atom.Script, atom.Style, atom.Noframes, atom.Noembed, atom.Iframe:
	case atom.Title:
		if c.Title == "" {
			c.Title = strings.Join(strings.Fields(string(z.Text())), " ")
		}
	case atom.Noscript:
		if depth < maxDepth {
			c.markup(string(bytes.Clone(z.Raw())), depth+1, false)
		}
	default:
		text := string(z.Text())
		if !pre {
			c.add(text)
			return
		}
		for line := range strings.Lines(text) {
			c.add(line)
			if strings.HasSuffix(line, "\n") {
				c.end()
			}
		}
	}
}

// alternative adds the text that represents an image.
func (c *collector) alternative(z *media.Tokenizer, tag atom.Atom) {
	if tag != atom.Img && tag != atom.Area && tag != atom.Input {
		return
	}
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		if string(key) == "alt" || tag == atom.Input && string(key) == "value" {
			c.blank = true
			c.add(string(value))
			c.blank = true
		}
	}
}

// Breaks reports whether an element separates the texts before and after it.
func Breaks(tag atom.Atom) bool {
	switch tag {
	case atom.Address, atom.Article, atom.Aside, atom.Blockquote, atom.Body, atom.Br, atom.Button, atom.Caption, atom.Center, atom.Dd, atom.Details,
		atom.Dialog, atom.Dir, atom.Div, atom.Dl, atom.Dt, atom.Fieldset, atom.Figcaption, atom.Figure, atom.Footer, atom.Form, atom.Frame,
		atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Head, atom.Header, atom.Hgroup, atom.Hr, atom.Html, atom.Legend, atom.Li,
		atom.Listing, atom.Main, atom.Menu, atom.Nav, atom.Ol, atom.Optgroup, atom.Option, atom.P, atom.Pre, atom.Section, atom.Select,
		atom.Summary, atom.Table, atom.Tbody, atom.Textarea, atom.Tfoot, atom.Thead, atom.Title, atom.Tr, atom.Ul, atom.Xmp:
		return true
	}
	return false
}
