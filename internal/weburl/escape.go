package weburl

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/width"
)

// set lists the printable ASCII characters that are percent-encoded in a part of a URL. Control
// characters and characters outside ASCII are always percent-encoded.
type set string

const (
	controlSet      set = ""
	querySet        set = ` "#<>`
	specialQuerySet set = ` "#<>'`
	pathSet         set = " \"#<>?`{}"
	keySet          set = " #%"
	formSet         set = " !\"#$%&'()+,/:;<=>?@[\\]^`{|}~"
	userSet         set = " \"#<>?`{}/:;=@[\\]^|"
)

const hexDigits = "0123456789ABCDEF"

func (s set) has(c byte) bool {
	return c < ' ' || c > '~' || strings.IndexByte(string(s), c) >= 0
}

// Escape percent-encodes the bytes of s that are in more, that are control characters or that are
// not ASCII, whatever their encoding.
func Escape(s, more string) string { return escape(s, set(more)) }

func escape(s string, set set) string {
	for i := 0; i < len(s); i++ {
		if set.has(s[i]) {
			return string(appendEscaped(make([]byte, 0, len(s)+16), s, set))
		}
	}
	return s
}

// appendEscaped appends s, whose bytes may be in any encoding, with the characters of set
// percent-encoded.
func appendEscaped(out []byte, s string, set set) []byte {
	for i := range len(s) {
		if c := s[i]; set.has(c) {
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			out = append(out, c)
		}
	}
	return out
}

// Bytes percent-encodes the bytes of a URL that are not ASCII, whatever their encoding. It also
// encodes a backslash that is the second byte of a character in Shift_JIS, which would otherwise be
// taken for a slash.
func Bytes(url string) string {
	var b strings.Builder
	for i := 0; i < len(url); i++ {
		c := url[i]
		if c < utf8.RuneSelf {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
		lead := 0x81 <= c && c <= 0x9f || 0xe0 <= c && c <= 0xfc
		if lead && i+1 < len(url) && (url[i+1] == '\\' || url[i+1] >= utf8.RuneSelf) {
			i++
			fmt.Fprintf(&b, "%%%02X", url[i])
		}
	}
	return b.String()
}

// escapeQuery percent-encodes a query in the page's encoding. A character that the encoding lacks
// is written as its HTML character reference, percent-encoded.
func escapeQuery(s string, set set, enc encoding.Encoding) string {
	if enc == nil || isASCII(s) {
		return escape(s, set)
	}
	s = standIn(s, enc)
	var out []byte
	run := 0 // start of the characters not yet written; ISO-2022-JP needs one encoder for a run
	for i, r := range s {
		if canEncode(r, enc) {
			continue
		}
		out = appendEscaped(out, encode(s[run:i], enc), set)
		run = i + utf8.RuneLen(r)
		out = append(out, "%26%23"...)
		out = strconv.AppendInt(out, int64(r), 10)
		out = append(out, "%3B"...)
	}
	return string(appendEscaped(out, encode(s[run:], enc), set))
}

// FormEscape encodes a form's name or value as application/x-www-form-urlencoded, in the page's
// encoding; nil means UTF-8.
func FormEscape(s string, enc encoding.Encoding) string {
	escaped := escapeQuery(s, formSet, enc)
	return strings.ReplaceAll(escaped, "%20", "+")
}

func canEncode(r rune, enc encoding.Encoding) bool {
	if r < utf8.RuneSelf {
		return true
	}
	b, err := enc.NewEncoder().String(string(r))
	return err == nil && writable(b, enc)
}

// toASCII switches ISO-2022-JP back to ASCII, which the encoder of x/text does not do at the end.
const toASCII = "\x1b(B"

// encode encodes s, which canEncode must have accepted.
func encode(s string, enc encoding.Encoding) string {
	b, err := enc.NewEncoder().String(s)
	if err != nil {
		return ""
	}
	if last := strings.LastIndexByte(b, 0x1b); last >= 0 && !strings.HasPrefix(b[last:], toASCII) {
		b += toASCII
	}
	return asWritten(b, enc)
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// UnescapeUnreserved decodes %XX of unreserved characters, and writes the digits of other %XX in
// upper case (RFC 3986, 6.2.2.1 and 6.2.2.2).
func UnescapeUnreserved(s string) string {
	return unescape(s, func(c byte) bool { return plain(c) || c == '.' || c == '~' })
}

// unescape decodes %XX of characters for which hasPlain returns true, and writes the digits of
// other %XX in upper case.
func unescape(s string, hasPlain func(c byte) bool) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c, ok := Unhex(s[i:])
		switch {
		case !ok:
			out = append(out, s[i])
			continue
		case hasPlain(c) && !joins(out, c):
			out = append(out, c)
		default:
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		}
		i += 2
	}
	return string(out)
}

// joins reports whether byte c after out might become part of an escape that begins with a lone
// percent sign in out. So "%%66" must not become "%f": with a 6 after it, "%f6" would be an escape.
func joins(out []byte, c byte) bool {
	hex := func(c byte) bool { return strings.IndexByte(hexDigits, upper(c)) >= 0 }
	n := len(out)
	return hex(c) && (n > 0 && out[n-1] == '%' || n > 1 && out[n-2] == '%' && hex(out[n-1]))
}

// Unescape decodes percent-encoding leniently: invalid escapes stay.
func Unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if c, ok := Unhex(s[i:]); ok {
			out = append(out, c)
			i += 2
		} else {
			out = append(out, s[i])
		}
	}
	return string(out)
}

// Unhex decodes a leading %XX.
func Unhex(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	hi := strings.IndexByte(hexDigits, upper(s[1]))
	lo := strings.IndexByte(hexDigits, upper(s[2]))
	if hi < 0 || lo < 0 {
		return 0, false
	}
	return byte(hi<<4 | lo), true
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

// Browsers encode Japanese by the WHATWG encoding standard. This file handles the differences of
// golang.org/x/text: characters that are replaced by others, the choice between two Shift_JIS codes
// for the same character, and the rows of JIS X 0212, which EUC-JP only decodes.

// standIn replaces the characters that an encoding writes as other characters.
func standIn(s string, enc encoding.Encoding) string {
	switch enc {
	case japanese.ShiftJIS, japanese.EUCJP:
		return strings.NewReplacer("\u2212", "\uff0d", "\u00a5", `\`, "\u203e", "~").Replace(s)
	case japanese.ISO2022JP:
		s = strings.ReplaceAll(s, "\u2212", "\uff0d")
		if strings.IndexFunc(s, halfKatakana) < 0 {
			return s
		}
		var b strings.Builder
		for _, r := range s {
			if !halfKatakana(r) {
				b.WriteRune(r)
				continue
			}
			b.WriteString(width.Widen.String(string(r)))
		}
		return b.String()
	}
	return s
}

func halfKatakana(r rune) bool { return 0xff61 <= r && r <= 0xff9f }

// writable reports whether browsers would write b, the encoding of one character by x/text.
func writable(b string, enc encoding.Encoding) bool {
	return enc != japanese.EUCJP || !strings.HasPrefix(b, "\x8f")
}

// asWritten changes x/text's encoding b of a text to that of browsers. In Shift_JIS, browsers write
// the characters of rows ED and EE (chosen by NEC) by their duplicates in rows FA to FC (IBM's).
func asWritten(b string, enc encoding.Encoding) string {
	if enc != japanese.ShiftJIS {
		return b
	}
	out := []byte(b)
	for i := 0; i+1 < len(out); i++ {
		lead := out[i]
		if lead < 0x80 || 0xa1 <= lead && lead <= 0xdf {
			continue
		}
		if lead == 0xed || lead == 0xee {
			out[i], out[i+1] = doubleOf(lead, out[i+1])
		}
		i++
	}
	return string(out)
}

// doubleOf returns IBM's code for the character with this code of NEC. Both have the kanji in the
// same order, but IBM has the symbols before the kanji and NEC after them.
func doubleOf(lead, trail byte) (byte, byte) {
	const row = 188
	at := int(lead-0xed)*row + int(trail) - 0x40
	if trail > 0x7f {
		at--
	}
	switch {
	case at < 360: // kanji
		at += 28
	case 362 <= at && at < 372: // small roman numbers
		at -= 362
	case at >= 373: // broken bar, apostrophe, quotation mark
		at += 21 - 373
	default: // the not sign, which is elsewhere in IBM's list
		return lead, trail
	}
	lead, trail = byte(0xfa+at/row), byte(0x40+at%row)
	if trail >= 0x7f {
		trail++
	}
	return lead, trail
}
