package replay

import (
	"strings"
	"time"

	"sheaf/internal/media"
	"sheaf/internal/weburl"
)

// linker converts the references of a page to paths in the archive.
type linker struct {
	time    time.Time   // of the page
	base    *weburl.URL // base URL of the references
	own     bool        // base is the page's own URL, so "#there" is on the page
	framed  bool        // the page is shown within another one
	charset media.Charset
	wide    func(byte) bool // see twoBytes
}

func newLinker(t time.Time, base *weburl.URL, cs media.Charset) *linker {
	return &linker{time: t, base: base, own: true, charset: cs, wide: twoBytes(cs)}
}

// decode converts bytes of the page to UTF-8.
func (l *linker) decode(b []byte) string {
	for _, c := range b {
		if c >= 0x80 {
			return l.charset.Decode(b)
		}
	}
	return string(b)
}

// part rewrites a reference to something that is shown as a part of the page.
func (l *linker) part(ref string) (string, bool) { return l.rewrite(ref, Plain) }

// frame rewrites a reference to a page that is shown within this one.
func (l *linker) frame(ref string) (string, bool) { return l.rewrite(ref, Frame) }

// page rewrites a link. target is the name of the window in which it opens.
func (l *linker) page(ref, target string) (string, bool) {
	mode := Plain
	if l.framed {
		switch strings.ToLower(target) {
		case "_top", "_blank", "_new":
		default:
			mode = Frame
		}
	}
	return l.rewrite(ref, mode)
}

// rewrite returns the archive's path, in ASCII, of what a reference leads to at the page's time. It
// returns false if the reference does not change: a place on the same page, or not a web address.
func (l *linker) rewrite(ref string, mode Mode) (string, bool) {
	ref = strings.TrimFunc(ref, func(r rune) bool { return r <= ' ' })
	if l.own && (ref == "" || ref[0] == '#') {
		return "", false
	}
	abs, err := l.base.Resolve(ref, l.charset.Query)
	if err != nil || !strings.HasPrefix(abs, "http://") && !strings.HasPrefix(abs, "https://") {
		return "", false
	}
	to := Path(l.time, mode, abs)
	if _, fragment, ok := strings.Cut(ref, "#"); ok {
		to += "#" + weburl.Escape(fragment, " \"'<>\\`") // for a URL in a quoted string of CSS or HTML
	}
	return to, true
}

// srcset rewrites a list such as "a.png 1x, b.png 2x". A comma within a URL is part of it; a comma
// at its end is a separator (HTML, 4.8.4.2.2).
func (l *linker) srcset(s string) string {
	const space = " \t\r\n\f"
	var out []string
	for {
		if s = strings.TrimLeft(s, space+","); s == "" {
			return strings.Join(out, ", ")
		}
		end := strings.IndexAny(s, space)
		if end < 0 {
			end = len(s)
		}
		ref, descriptor := s[:end], ""
		s = s[end:]
		if trimmed := strings.TrimRight(ref, ","); trimmed != ref {
			ref = trimmed
		} else {
			descriptor, s = cutDescriptor(s)
		}
		if to, ok := l.part(ref); ok {
			ref = strings.ReplaceAll(to, ",", "%2C")
		}
		out = append(out, strings.TrimSpace(ref+" "+strings.TrimSpace(descriptor)))
	}
}

// cutDescriptor cuts s at the first comma that is not in parentheses.
func cutDescriptor(s string) (descriptor, rest string) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		case ',':
			if depth == 0 {
				return s[:i], s[i+1:]
			}
		}
	}
	return s, ""
}

// refresh rewrites "5; url=next.html".
func (l *linker) refresh(content string) change {
	delay, ref, ok := media.CutRefresh(content)
	if !ok {
		return change{}
	}
	to, ok := l.page(ref, "")
	switch {
	case ok:
		return change{changes, delay + "; url=" + to}
	case isScript(ref):
		return change{what: goes}
	}
	return change{}
}

// Refresh returns where a Refresh header of a page leads, as an absolute URL; "": nowhere.
func Refresh(header, page string) string {
	base, err := weburl.New(page, nil)
	_, ref, ok := media.CutRefresh(header)
	if err != nil || !ok {
		return ""
	}
	to, err := base.Resolve(ref, nil)
	if err != nil || !strings.HasPrefix(to, "http://") && !strings.HasPrefix(to, "https://") {
		return ""
	}
	return to
}

// css appends a style sheet to dst, with its URLs rewritten, and returns dst.
func (l *linker) css(dst, s []byte) []byte {
	at := 0 // what is before is written
	for r := range media.StyleRefs(s, l.wide) {
		to, ok := l.part(media.UnescapeStyle(l.decode(r.Raw)))
		if !ok {
			continue
		}
		dst = append(dst, s[at:r.Start]...)
		if to = media.QuoteStyle(to); r.Func {
			to = "url(" + to + ")"
		}
		dst = append(dst, to...)
		at = r.End
	}
	return append(dst, s[at:]...)
}

// twoBytes returns a test for the first byte of a character whose second byte may look like a
// backslash, or nil if the encoding has no such characters.
func twoBytes(cs media.Charset) func(byte) bool {
	switch cs.Name {
	case "shift_jis":
		return func(c byte) bool { return 0x81 <= c && c <= 0x9f || 0xe0 <= c && c <= 0xfc }
	case "big5", "gbk", "gb18030", "euc-kr":
		return func(c byte) bool { return 0x81 <= c && c <= 0xfe }
	}
	return nil
}
