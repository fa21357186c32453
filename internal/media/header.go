package media

import (
	"bytes"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// StoredFields yields the header fields, names and values, with which a response is stored. The
// body is stored without transfer coding and, if decoded is true, without content coding. So fields
// that describe how the body was sent are renamed X-Crawler-…, and Content-Length becomes size, the
// length in bytes of the stored body. If size is negative, the body is stored elsewhere, and there
// is no Content-Length. The fields of a response without a body (status 204 or 304) stay as they
// are.
func StoredFields(fields iter.Seq2[string, string], status int, decoded bool, size int64) iter.Seq2[string, string] {
	if size == 0 && (status == http.StatusNotModified || status == http.StatusNoContent) {
		return fields
	}
	return func(yield func(name, value string) bool) {
		length := strconv.FormatInt(size, 10)
		told := false
		for name, value := range fields {
			switch {
			case strings.EqualFold(name, "Transfer-Encoding"), strings.EqualFold(name, "Content-Encoding") && decoded:
				name = "X-Crawler-" + name
			case strings.EqualFold(name, "Content-Length"):
				if size < 0 {
					name = "X-Crawler-" + name
					break
				}
				if !told && !yield(name, length) {
					return
				}
				told = true
				if value == length {
					continue
				}
				name = "X-Crawler-" + name
			}
			if !yield(name, value) {
				return
			}
		}
		if !told && size >= 0 {
			yield("Content-Length", length)
		}
	}
}

// IsPartial reports whether an answer has only a part of the page: its status is 206, and its
// Content-Range does not say that the part is all of it. Browsers ask for films in parts, and the
// first part may be all of the film.
func IsPartial(status int, contentRange string) bool {
	if status != http.StatusPartialContent {
		return false
	}
	var first, last, size int64
	n, err := fmt.Sscanf(strings.ToLower(contentRange), "bytes %d-%d/%d", &first, &last, &size)
	return n < 3 || err != nil || first != 0 || last != size-1
}

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

// CutRefresh parses the content of a refresh, such as "5; url='next.html'", as browsers do (HTML
// standard, shared declarative refresh steps). It returns the delay and the URL, which may be
// relative. It returns false if the refresh leads to no other page.
func CutRefresh(content string) (delay, url string, ok bool) {
	const blanks = " \t\r\n\f"
	content = strings.Trim(content, blanks)
	rest := strings.TrimLeft(content, "0123456789")
	if rest == content && !strings.HasPrefix(rest, ".") {
		return "", "", false
	}
	rest = strings.TrimLeft(rest, "0123456789.")
	delay = content[:len(content)-len(rest)]
	url = strings.TrimLeft(rest, blanks)
	if url != "" && (url[0] == ';' || url[0] == ',') {
		url = strings.TrimLeft(url[1:], blanks)
	}
	if len(url) == len(rest) { // nothing separates it from the delay
		return "", "", false
	}
	if len(url) >= 3 && strings.EqualFold(url[:3], "url") {
		if after := strings.TrimLeft(url[3:], blanks); strings.HasPrefix(after, "=") {
			url = strings.TrimLeft(after[1:], blanks)
		}
	}
	if url != "" && (url[0] == '"' || url[0] == '\'') {
		url, _, _ = strings.Cut(url[1:], url[:1])
	}
	return delay, url, url != ""
}
