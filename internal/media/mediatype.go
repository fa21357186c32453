package media

import (
	"bytes"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Type is the media type of a Content-Type.
type Type struct {
	Essence string // such as text/html, in lower case; empty: the header has no valid type
	Charset string // the charset parameter; empty: there is none
}

// ContentType returns all values of a header's Content-Type fields, in the form that TypeOf and
// Sniff take.
func ContentType(h http.Header) string { return strings.Join(h.Values("Content-Type"), ", ") }

// TypeOf returns the type of a Content-Type. If it has several types, separated by commas, the last
// valid type counts. If that type lacks a charset, it gets the charset of the type before, if both
// have the same essence.
func TypeOf(contentType string) (t Type) {
	for value, rest, more := "", contentType, true; more; {
		value, rest, more = cut(rest, ',')
		next, ok := parse(value)
		if !ok || next.Essence == "*/*" {
			continue
		}
		if next.Charset == "" && next.Essence == t.Essence {
			next.Charset = t.Charset
		}
		t = next
	}
	return t
}

// blanks are the white space of HTTP.
const blanks = " \t\r\n"

// parse is "parse a MIME type" of the MIME Sniffing standard.
func parse(s string) (t Type, ok bool) {
	essence, params, more := strings.Cut(s, ";")
	family, kind, _ := strings.Cut(strings.Trim(essence, blanks), "/")
	if !httpguts.ValidHeaderFieldName(family) || !httpguts.ValidHeaderFieldName(kind) {
		return t, false
	}
	t.Essence = strings.ToLower(family + "/" + kind)
	for param := ""; more; {
		param, params, more = cut(params, ';')
		name, value, _ := strings.Cut(param, "=")
		if t.Charset != "" || !strings.EqualFold(strings.TrimLeft(name, blanks), "charset") {
			continue
		}
		if quoted, ok := strings.CutPrefix(value, `"`); ok {
			value, _, _ = strings.Cut(quoted, `"`) // no charset has a quote in its name
		}
		t.Charset = strings.Trim(value, blanks)
	}
	return t, true
}

// cut is strings.Cut at a separator that is not in a quoted string.
func cut(s string, sep byte) (before, after string, found bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quoted:
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == sep && !quoted:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// Types that the standard treats in a special way.
var (
	// unknown are the types that servers send for files of unknown type.
	unknown = map[string]bool{"": true, "unknown/unknown": true, "application/unknown": true}

	// apache are the types that an old Apache sent for any file: the body is text only if its bytes
	// are.
	apache = map[string]bool{
		"text/plain": true, "text/plain; charset=ISO-8859-1": true, "text/plain; charset=iso-8859-1": true, "text/plain; charset=UTF-8": true,
	}
)

// Sniff returns the essence of the type by which a body with this Content-Type is treated. head is
// the body or its first bytes.
func Sniff(contentType string, head []byte) string {
	essence := TypeOf(contentType).Essence
	if unknown[essence] {
		return identify(head)
	}
	if apache[contentType] && identify(head) == octets {
		return octets
	}
	return essence
}

const octets = "application/octet-stream"

// identify is "identify an unknown MIME type" of the standard. It also recognises HTML behind a
// byte order mark, as the HTML standard's parser does.
func identify(head []byte) string {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), blanks+"\f")
	essence, _, _ := strings.Cut(http.DetectContentType(head), ";")
	return essence
}

// IsHTML reports whether a type is text/html or XHTML, the types of pages.
func IsHTML(essence string) bool {
	return essence == "text/html" || essence == xhtml
}

const xhtml = "application/xhtml+xml"

// IsText reports whether bodies of a type are text in some charset: plain or marked up, a style
// sheet, a script or data.
func IsText(essence string) bool {
	return strings.HasPrefix(essence, "text/") || IsXML(essence) || scripts[essence] || strings.HasSuffix(essence, "+json")
}

// scripts are types of texts that neither begin with text/ nor are XML.
var scripts = map[string]bool{
	"application/javascript": true, "application/x-javascript": true, "application/ecmascript": true, "application/x-ecmascript": true,
	"application/json": true,
}

// IsXHTML reports whether browsers read a type as markup in XML: pages and drawings.
func IsXHTML(essence string) bool { return essence == xhtml || essence == "image/svg+xml" }

// IsXML reports whether browsers read a type as XML: an XML type of the standard, or text/xsl.
func IsXML(essence string) bool {
	switch essence {
	case "text/xml", "application/xml", "text/xsl":
		return true
	}
	return strings.HasSuffix(essence, "+xml")
}

// IsCompressed reports whether bodies of the type are compressed already, so that deflating them is
// useless.
func IsCompressed(essence string) bool {
	family, kind, _ := strings.Cut(essence, "/")
	switch family {
	case "image":
		return kind == "jpeg" || kind == "png" || kind == "gif" || kind == "webp" || kind == "avif"
	case "audio", "video":
		return !strings.HasSuffix(kind, "wav") && kind != "midi"
	case "application":
		switch strings.TrimPrefix(kind, "x-") {
		case "zip", "gzip", "bzip2", "xz", "zstd", "lzh", "lzh-compressed", "7z-compressed", "rar-compressed", "compress",
			"pdf", "java-archive", "vnd.rar":
			return true
		}
	case "font":
		return strings.HasPrefix(kind, "woff")
	}
	return false
}
