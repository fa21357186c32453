package media

import (
	"bytes"
	"regexp"
	"strings"
)

// maxPrescan is how many bytes of a page are searched for a declaration. The HTML standard's
// prescan ends after 1,024 bytes, but its parser also accepts a later <meta charset>.
const maxPrescan = 64 << 10

// declaredCharset returns the standard name of the encoding that the header, or else the page
// itself, declares.
func declaredCharset(body []byte, contentType string) string {
	t := TypeOf(contentType)
	if name := canonicalCharset(t.Charset); name != "" {
		return name
	}
	head := body[:min(len(body), maxPrescan)]
	found := []func([]byte) string{prescan, xmlDeclared, cssDeclared}
	if IsXML(t.Essence) && t.Essence != xhtml {
		found = []func([]byte) string{xmlDeclared, prescan}
	}
	for _, in := range found {
		if name := in(head); name != "" {
			if strings.HasPrefix(name, "utf-16") { // wrong, since the declaration itself is ASCII
				name = "utf-8"
			}
			return name
		}
	}
	return ""
}

var (
	xmlEncoding = regexp.MustCompile(`(?s)^\s*<\?xml\s[^>]{0,300}?encoding\s*=\s*["']([A-Za-z0-9_:.-]{1,40})["']`)
	cssCharset  = regexp.MustCompile(`^@charset "([A-Za-z0-9_:.-]{1,40})"`)
)

func xmlDeclared(head []byte) string { return labelIn(xmlEncoding, head) }
func cssDeclared(head []byte) string { return labelIn(cssCharset, head) }

func labelIn(r *regexp.Regexp, head []byte) string {
	if m := r.FindSubmatch(head[:min(len(head), 512)]); m != nil {
		return canonicalCharset(string(m[1]))
	}
	return ""
}

// prescan finds the encoding that a page's meta elements declare, by "prescan a byte stream to
// determine its encoding" of the HTML standard (13.2.3.2). It skips comments and the attributes of
// other tags.
func prescan(b []byte) string {
	for len(b) > 0 {
		at := bytes.IndexByte(b, '<')
		if at < 0 {
			return ""
		}
		b = b[at:]
		switch {
		case bytes.HasPrefix(b, []byte("<!--")):
			end := bytes.Index(b[2:], []byte("-->")) // in <!--> the dashes are also the end
			if end < 0 {
				return ""
			}
			b = b[2+end+3:]
		case len(b) > 5 && bytes.EqualFold(b[:5], []byte("<meta")) && (isSpace(b[5]) || b[5] == '/'):
			var name string
			if name, b = meta(b[6:]); name != "" {
				return name
			}
		case len(b) > 1 && isLetter(b[1]), len(b) > 2 && b[1] == '/' && isLetter(b[2]):
			end := bytes.IndexAny(b, " \t\n\f\r>")
			if end < 0 {
				return ""
			}
			b = b[end:]
			for more := true; more; {
				_, _, b, more = attribute(b)
			}
		case len(b) > 1 && (b[1] == '!' || b[1] == '/' || b[1] == '?'):
			end := bytes.IndexByte(b, '>')
			if end < 0 {
				return ""
			}
			b = b[end+1:]
		default:
			b = b[1:]
		}
	}
	return ""
}

// meta reads the attributes of a meta element and returns the encoding that they declare.
func meta(b []byte) (name string, rest []byte) {
	seen := make(map[string]bool)
	pragma, needsPragma := false, false
	for {
		rawKey, rawValue, after, more := attribute(b)
		if b = after; !more {
			break
		}
		key, value := lowerASCII(rawKey), lowerASCII(rawValue)
		if seen[key] {
			continue
		}
		seen[key] = true
		switch key {
		case "http-equiv":
			pragma = pragma || value == "content-type"
		case "content":
			if name == "" {
				if label := inContent(value); label != "" {
					name, needsPragma = canonicalCharset(label), true
				}
			}
		case "charset":
			name, needsPragma = canonicalCharset(value), false
		}
	}
	if needsPragma && !pragma {
		return "", b
	}
	return name, b
}

// inContent finds the label in a meta element's content, such as "text/html; charset=euc-jp".
func inContent(s string) string {
	for {
		_, after, ok := strings.Cut(s, "charset")
		if !ok {
			return ""
		}
		s = after
		value, ok := strings.CutPrefix(strings.TrimLeft(s, " \t\n\f\r"), "=")
		if !ok {
			continue
		}
		value = strings.TrimLeft(value, " \t\n\f\r")
		if value == "" {
			return ""
		}
		if quote := value[:1]; quote == `"` || quote == "'" {
			label, _, closed := strings.Cut(value[1:], quote)
			if !closed {
				return ""
			}
			return label
		}
		if end := strings.IndexAny(value, " \t\n\f\r;"); end >= 0 {
			value = value[:end]
		}
		return value
	}
}

// attribute reads a tag's next attribute ("get an attribute" of the HTML standard). At the tag's
// end more is false, and rest is the text after the tag.
func attribute(b []byte) (key, value, rest []byte, more bool) {
	b = bytes.TrimLeft(b, " \t\n\f\r/")
	if len(b) == 0 {
		return nil, nil, nil, false
	}
	if b[0] == '>' {
		return nil, nil, b[1:], false
	}
	end := 0
	for end < len(b) && !(b[end] == '=' && end > 0) && b[end] != '/' && b[end] != '>' && !isSpace(b[end]) {
		end++
	}
	key, b = b[:end], b[end:]
	after := bytes.TrimLeft(b, " \t\n\f\r")
	if len(after) == 0 || after[0] != '=' {
		return key, nil, after, true
	}
	b = bytes.TrimLeft(after[1:], " \t\n\f\r")
	switch {
	case len(b) == 0:
		return key, nil, nil, true
	case b[0] == '"' || b[0] == '\'':
		end := bytes.IndexByte(b[1:], b[0])
		if end < 0 {
			return nil, nil, nil, false
		}
		return key, b[1 : 1+end], b[end+2:], true
	}
	end = bytes.IndexAny(b, " \t\n\f\r>")
	if end < 0 {
		end = len(b)
	}
	return key, b[:end], b[end:], true
}

// lowerASCII returns a text in lower case. It cuts long texts, because none of them declares an
// encoding.
func lowerASCII(b []byte) string {
	const longest = 1 << 10
	return string(bytes.ToLower(b[:min(len(b), longest)]))
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
