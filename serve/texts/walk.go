package texts

import (
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"sheaf/internal/media"
	"sheaf/serve/replay"
)

// block is a piece of text that is set apart from what is before and behind it.
type block struct {
	text    string
	chars   int  // letters and digits
	linked  int  // how many of chars are in links
	heading bool // h1 to h6
	cell    bool // a cell that is not the first of its row
	aside   bool // in an element for finding one's way
	main    bool // in an element that says that it has the main text
}

// page is what was read of a page.
type page struct {
	title    string
	lang     string // as declared
	blocks   []block
	frameset bool
}

// region is an element that says what its content is for. Its end is found by counting elements of
// the same name.
type region struct {
	tag  string // empty: no such element is open
	open int    // elements of that name
}

func (r *region) in() bool { return r.tag != "" }

// step follows a tag. It reports whether the element ended just now.
func (r *region) step(name string, end bool) (ended bool) {
	switch {
	case r.tag == "":
		return false
	case r.tag == "p" && !end && name != "p" && replay.Breaks(atom.Lookup([]byte(name))),
		r.tag == "p" && name == "p":
		r.tag = "" // a p has no other blocks in it, and often no end tag
		return end
	case name != r.tag:
		return false
	case !end:
		r.open++
		return false
	}
	r.open--
	if r.open == 0 {
		r.tag = ""
		return true
	}
	return false
}

func (r *region) begin(name string) { r.tag, r.open = name, 1 }

// walker reads a page into blocks.
type walker struct {
	page
	noFrames []byte // the markup for browsers without frames

	text          strings.Builder
	chars, linked int
	blank, broken bool // a space, or a line end, is to come before the next word
	last          rune // of text

	heading, link, pre, cell bool
	row                      int // cells of the row so far
	aside, main, hidden      region
}

// walk reads a page in UTF-8.
func walk(text string, xml bool) *page {
	w := &walker{}
	w.read(text, xml)
	if len(w.blocks) == 0 && len(w.noFrames) > 0 {
		w.read(string(w.noFrames), false)
	}
	return &w.page
}

func (w *walker) read(text string, xml bool) {
	z := media.NewTokenizer(strings.NewReader(text), xml)
	var in atom.Atom // element whose raw text is next
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			w.end()
			return
		case html.TextToken:
			w.textToken(z, in)
		case html.StartTagToken, html.SelfClosingTagToken:
			in = w.start(z, kind == html.SelfClosingTagToken)
			continue
		case html.EndTagToken:
			name, _ := z.TagName()
			w.stop(string(name))
		default:
			continue
		}
		in = 0
	}
}

func (w *walker) textToken(z *media.Tokenizer, in atom.Atom) {
	switch in {
	case atom.Script, atom.Style, atom.Noscript, atom.Noembed, atom.Iframe, atom.Textarea:
	case atom.Noframes:
		w.noFrames = append(w.noFrames, z.Raw()...)
	case atom.Title:
		if w.title == "" && !z.XML() {
			w.title = strings.Join(strings.FieldsFunc(clean(string(z.Text())), unicode.IsSpace), " ")
		}
	default:
		if !w.hidden.in() {
			w.add(string(z.Text()))
		}
	}
}

// start follows a start tag. It returns the element, if its text is next.
func (w *walker) start(z *media.Tokenizer, empty bool) atom.Atom {
	raw, more := z.TagName()
	name, tag := string(raw), atom.Lookup(raw)
	if replay.Breaks(tag) {
		w.end()
	}
	w.aside.step(name, false)
	w.main.step(name, false)
	w.hidden.step(name, false)
	var a attributes
	if more {
		a.read(z)
	}
	switch tag {
	case atom.Html:
		if w.lang == "" {
			w.lang = a.lang
		}
	case atom.A:
		w.link = a.href && !empty
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.heading = true
	case atom.Pre:
		w.pre = true
	case atom.Frameset:
		w.frameset = true
	case atom.Tr:
		w.end()
		w.row = 0
	case atom.Td, atom.Th:
		w.end()
		w.cell = w.row > 0
		w.row++
	}
	if empty || void[tag] {
		return 0
	}
	switch {
	case w.hidden.in():
	case tag == atom.Select, tag == atom.Button, tag == atom.Svg, tag == atom.Math, tag == atom.Template, tag == atom.Object, a.names("headerlink"), a.names("permalink"):
		w.hidden.begin(name)
	case tag == atom.Body, tag == atom.Html, w.aside.in():
	case aside(tag, &a):
		w.aside.begin(name)
	case !w.main.in() && (tag == atom.Main || tag == atom.Article || a.role == "main"):
		w.main.begin(name)
	}
	return tag
}

// void are the elements that have no end tag.
var void = map[atom.Atom]bool{
	atom.Area: true, atom.Base: true, atom.Br: true, atom.Col: true, atom.Embed: true, atom.Frame: true, atom.Hr: true, atom.Img: true, atom.Input: true,
	atom.Link: true, atom.Meta: true, atom.Param: true, atom.Source: true, atom.Track: true, atom.Wbr: true,
}

func (w *walker) stop(name string) {
	tag := atom.Lookup([]byte(name))
	if replay.Breaks(tag) {
		w.end()
	}
	switch tag {
	case atom.A:
		w.link = false
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.heading = false
	case atom.Pre:
		w.pre = false
	case atom.Td, atom.Th:
		w.end()
	}
	if w.aside.step(name, true) || w.main.step(name, true) {
		w.end()
	}
	w.hidden.step(name, true)
}

// add adds text to the block, with successive blanks as one.
func (w *walker) add(text string) {
	for _, r := range text {
		switch {
		case unicode.IsSpace(r) || r == '\u200b' || r == '\ufeff':
			w.blank = true
			w.broken = w.broken || r == '\n' || r == '\r'
			continue
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u00ad':
			continue
		}
		w.space(r)
		w.text.WriteRune(r)
		w.last = r
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			continue
		}
		w.chars++
		if w.link {
			w.linked++
		}
	}
}

// space writes what separates the next character from the last. Where a line ends between two
// characters of a script that has no blanks, it writes nothing.
func (w *walker) space(next rune) {
	blank, broken := w.blank, w.broken
	w.blank, w.broken = false, false
	switch {
	case !blank || w.text.Len() == 0:
	case broken && w.pre:
		w.text.WriteByte('\n')
	case broken && wide(w.last) && wide(next):
	default:
		w.text.WriteByte(' ')
	}
}

// wide reports whether a character is of a script in which words are not separated.
func wide(r rune) bool {
	return r >= 0x3000 && r < 0xa000 || r >= 0xf900 && r < 0xfb00 || r >= 0xff00 && r < 0xffe0 || r >= 0x20000 && r < 0x30000
}

// maxBlocks is how many blocks a page has at most. Of the rest only the characters are counted, in
// the last block.
const maxBlocks = 100_000

// end adds the block, unless it has no text, and begins the next.
func (w *walker) end() {
	w.blank, w.broken = false, false
	if w.text.Len() > 0 {
		b := block{text: w.text.String(), chars: w.chars, linked: w.linked, heading: w.heading, cell: w.cell, aside: w.aside.in(), main: w.main.in()}
		if n := len(w.blocks); n == maxBlocks {
			w.blocks[n-1].chars += b.chars
		} else {
			w.blocks = append(w.blocks, b)
		}
	}
	w.text.Reset()
	w.chars, w.linked, w.cell = 0, 0, false
}

// attributes are the attributes of a tag that matter here.
type attributes struct {
	href       bool
	lang, role string
	name       string // id and classes, in lower case
}

func (a *attributes) read(z *media.Tokenizer) {
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "href":
			a.href = true
		case "lang", "xml:lang":
			a.lang = strings.ToLower(string(value[:min(len(value), 40)]))
		case "role":
			a.role = strings.ToLower(string(value[:min(len(value), 40)]))
		case "id", "class":
			a.name += " " + strings.ToLower(string(value[:min(len(value), 200)]))
		}
	}
}

// names reports whether a word is an id or a class.
func (a *attributes) names(word string) bool {
	for name := range strings.FieldsSeq(a.name) {
		if name == word {
			return true
		}
	}
	return false
}

// The names of elements that are for finding one's way: parts of ids and classes, and whole words
// of them.
var (
	asideParts = []string{"navi", "navbar", "navheader", "navfooter", "navpath", "sidebar", "breadcrumb", "pankuzu", "footer", "topnav", "globalnav", "sidemenu", "pagination"}
	asideWords = map[string]bool{
		"nav": true, "menu": true, "tabs": true, "search": true, "searchbox": true, "related": true, "ads": true, "share": true, "sns": true, "pager": true,
		"copyright": true, "toplang": true, "bottomlang": true, "quickview": true, "up": true, "skip": true, "banner": true, "tree": true, "contentinfo": true,
	}
)

// aside reports whether an element is for finding one's way.
func aside(tag atom.Atom, a *attributes) bool {
	switch tag {
	case atom.Nav, atom.Footer, atom.Aside:
		return true
	case atom.Div, atom.Ul, atom.Ol, atom.Dl, atom.Table, atom.Section, atom.Header, atom.P, atom.Form:
	default:
		return false
	}
	switch a.role {
	case "navigation", "search", "banner", "contentinfo", "complementary", "menu", "menubar":
		return true
	case "main":
		return false
	}
	if a.name == "" {
		return false
	}
	for _, part := range asideParts {
		if strings.Contains(a.name, part) {
			return true
		}
	}
	for word := range strings.FieldsFuncSeq(a.name, func(r rune) bool { return r < '0' || r > '9' && r < 'a' || r > 'z' }) {
		if asideWords[word] {
			return true
		}
	}
	return false
}

// clean replaces each control character by a blank.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
