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
