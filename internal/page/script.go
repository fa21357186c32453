package page

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sheaf/internal/media"
)

// script adds the URLs to which a script sends the browser: strings that are assigned to location
// or location.href, and arguments of location.assign, location.replace and window.open. Scripts are
// not run, so a URL that is put together from parts is not found.
func (c *collector) script(js []byte, tag string) {
	for rest := js; ; {
		at := bytes.Index(rest, []byte("location"))
		if at < 0 {
			break
		}
		before := rest[:at]
		rest = rest[at+len("location"):]
		if ref, ok := assigned(before, rest); ok {
			c.add(ref, Link{Tag: tag, Text: true})
		}
	}
	for rest := js; ; {
		at := bytes.Index(rest, []byte("open"))
		if at < 0 {
			return
		}
		before := bytes.TrimRight(rest[:at], " \t")
		rest = rest[at+len("open"):]
		if !bytes.HasSuffix(before, []byte("window.")) {
			continue
		}
		if ref, ok := argument(rest); ok {
			c.add(ref, Link{Tag: tag, Text: true})
		}
	}
}

// assigned returns the string that a script assigns to location. before and after are the text
// around that word.
func assigned(before, after []byte) (string, bool) {
	trimmed := bytes.TrimRight(before, " \t\r\n")
	if n := len(before); n > 0 && isWordByte(before[n-1]) { // such as mylocation
		return "", false
	}
	if i := bytes.LastIndexFunc(trimmed, func(r rune) bool { return r > 0x7f || !isWordByte(byte(r)) }); len(trimmed) < len(before) {
		switch string(trimmed[i+1:]) {
		case "var", "let", "const": // a variable with that name
			return "", false
		}
	}
	for _, method := range []string{".assign", ".replace"} {
		if rest, ok := bytes.CutPrefix(after, []byte(method)); ok {
			return argument(rest)
		}
	}
	after = bytes.TrimPrefix(after, []byte(".href"))
	after = bytes.TrimLeft(after, " \t")
	value, ok := bytes.CutPrefix(after, []byte("="))
	if !ok {
		return "", false
	}
	return jsString(value)
}

// argument returns the string that is the first argument of a call.
func argument(after []byte) (string, bool) {
	value, ok := bytes.CutPrefix(bytes.TrimLeft(after, " \t"), []byte("("))
	if !ok {
		return "", false
	}
	return jsString(value)
}

// jsString returns the string literal at the beginning of js, unless a + after it adds to it.
func jsString(js []byte) (string, bool) {
	js = bytes.TrimLeft(js, " \t\r\n")
	if len(js) == 0 || js[0] != '"' && js[0] != '\'' {
		return "", false
	}
	for i := 1; i < len(js) && i < 8<<10; i++ {
		switch js[i] {
		case '\\':
			i++
		case '\n', '\r':
			return "", false
		case js[0]:
			if after := bytes.TrimLeft(js[i+1:], " \t\r\n"); len(after) > 0 && after[0] == '+' {
				return "", false
			}
			ref := strings.TrimSpace(jsUnescape(string(js[1:i])))
			return ref, ref != "" && !strings.ContainsAny(ref, "<>{}")
		}
	}
	return "", false
}

// jsUnescape decodes the escapes that are used in URLs: \xHH, \uHHHH, and any other character for
// itself.
func jsUnescape(s string) string {
	return media.Unescape(s, func(to *strings.Builder, after string) int {
		if digits := map[byte]int{'x': 2, 'u': 4}[after[0]]; digits > 0 && digits < len(after) {
			if r, err := strconv.ParseUint(after[1:1+digits], 16, 32); err == nil {
				to.WriteRune(rune(r))
				return 1 + digits
			}
		}
		to.WriteByte(after[0])
		return 1
	})
}

func isWordByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '$' || c == '-'
}

// handlers adds the URLs in a tag's event handlers, such as onclick.
func (c *collector) handlers(attrs attributes, tag string) {
	for _, a := range attrs {
		if len(a.key) > 2 && string(a.key[:2]) == "on" {
			c.script(a.value, tag)
		}
	}
}

// scriptURL adds the URLs in ref if that is a javascript: URL, and reports whether it is.
func (c *collector) scriptURL(ref []byte, tag string) bool {
	const scheme = "javascript:"
	ref = bytes.TrimSpace(ref)
	if len(ref) < len(scheme) || !strings.EqualFold(string(ref[:len(scheme)]), scheme) {
		return false
	}
	js := string(ref[len(scheme):])
	if plain, err := url.PathUnescape(js); err == nil {
		js = plain
	}
	c.script([]byte(js), tag)
	return true
}

// pageEndings are the endings of menu values that are URLs of pages.
var pageEndings = []string{".html", ".htm", ".shtml", ".xhtml", ".php", ".asp", ".aspx", ".jsp", ".cgi", ".pl", ".pdf", "/"}

// menuAddress reports whether the value of an option is probably a URL to which a script sends the
// browser.
func menuAddress(value string) bool {
	if value == "" || strings.ContainsAny(value, " \t\r\n<>\"") {
		return false
	}
	for _, start := range []string{"http://", "https://", "/", "./", "../", "?"} {
		if len(value) > len(start) && hasPrefixFold(value, start) {
			return true
		}
	}
	path, _, _ := strings.Cut(value, "#")
	path, _, _ = strings.Cut(path, "?")
	return slices.ContainsFunc(pageEndings, func(end string) bool {
		return len(path) > len(end) && strings.EqualFold(path[len(path)-len(end):], end)
	})
}

// css adds the URLs of a style sheet, found as replay finds them.
func (c *collector) css(sheet []byte, tag string) {
	for r := range media.StyleRefs(sheet, nil) {
		c.add(media.UnescapeStyle(string(r.Raw)), Link{Tag: tag})
	}
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
