// Package charset finds out in which encoding a page's bytes are written. Old
// Japanese pages often do not say, or say something else.
package charset

import (
	"bytes"
	"encoding/binary"
	"mime"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// Charset is what a page's bytes turned out to be.
type Charset struct {
	Name    string            // as the WHATWG encoding standard writes it, in lower case
	Doubted string            // what was declared, and not believed
	Query   encoding.Encoding // for the queries of its links; nil: UTF-8
}

// sampleSize is how much of a body is tried when declarations are judged.
const sampleSize = 256 << 10

// Decode decodes a body that came with a Content-Type header to UTF-8. What does not
// fit the encoding becomes U+FFFD.
func Decode(body []byte, contentType string) (string, Charset) {
	cs := Detect(body, contentType)
	return cs.Decode(body), cs
}

// Decode decodes bytes that are written in the charset to UTF-8.
func (cs Charset) Decode(body []byte) string { return string(cs.DecodeBytes(body)) }

// DecodeBytes is Decode for those who only read: where nothing has to be decoded, the text is the
// body itself.
func (cs Charset) DecodeBytes(body []byte) []byte {
	name := cs.Name
	enc, err := htmlindex.Get(name)
	if name == "utf-8" || err != nil {
		body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
		if utf8.Valid(body) { // which is quicker to see than to mend
			return body
		}
		return bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	if strings.HasPrefix(name, "utf-16") {
		order := unicode.LittleEndian
		if name == "utf-16be" {
			order = unicode.BigEndian
		}
		enc = unicode.UTF16(order, unicode.UseBOM)
	}
	text, _ := enc.NewDecoder().Bytes(body) // decoders replace, they do not fail
	return text
}

// Detect finds a body's encoding. In this order: a byte order mark; ISO-2022-JP's
// escapes in seven bits, which nothing else has; what the header and then the page declare, unless
// the bytes say otherwise; the encoding in which the bytes make the most sense.
func Detect(body []byte, contentType string) Charset {
	name, doubted := detect(body, contentType)
	cs := Charset{Name: name, Doubted: doubted}
	if name != "utf-8" && !strings.HasPrefix(name, "utf-16") {
		cs.Query, _ = htmlindex.Get(name) // nil, as for UTF-8, where the name is none
	}
	return cs
}

func detect(body []byte, contentType string) (name, doubted string) {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return "utf-8", ""
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		return "utf-16le", ""
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		return "utf-16be", ""
	}
	sample := body[:min(len(body), sampleSize)]
	if name := bareUTF16(sample); name != "" {
		return name, ""
	}
	declared := declaredCharset(body, contentType)
	actual := sniff(sample)
	if declared == "" {
		if actual == "" {
			actual = "windows-1252"
		}
		return actual, ""
	}
	if actual == "" || actual == declared || !judged(declared) && actual != "iso-2022-jp" {
		return declared, ""
	}
	if actual == "utf-8" && isASCII(sample) {
		return declared, ""
	}
	// A declaration that fits hardly worse than the best stays: it was made by
	// somebody who may have known.
	if declared != "iso-2022-jp" && actual != "iso-2022-jp" && faults(sample, declared) <= faults(sample, actual) {
		return declared, ""
	}
	return actual, declared
}

// judged reports whether detection can tell a declared encoding from others.
func judged(name string) bool {
	switch name {
	case "utf-8", "euc-jp", "shift_jis", "iso-2022-jp", "windows-1252":
		return true
	}
	return false
}

var (
	metaCharset  = regexp.MustCompile(`(?is)^<meta\s[^>]{0,300}?charset\s*=\s*["']?\s*([a-z0-9_:.-]{1,40})`)
	firstCharset = regexp.MustCompile(`(?is)^\s*<\?xml\s[^>]{0,100}?encoding\s*=\s*["']([a-z0-9_:.-]{1,40})|^@charset "([a-z0-9_:.-]{1,40})"`)
	comment      = regexp.MustCompile(`(?s)<!--.*?-->`)
)

// longestMeta is how much of a meta element is searched.
const longestMeta = 512

// declaredCharset returns what the header or else the page's first 64 KiB
// declare, by its standard name.
func declaredCharset(body []byte, contentType string) string {
	_, params, _ := mime.ParseMediaType(contentType)
	if name := canonicalCharset(params["charset"]); name != "" {
		return name
	}
	head := body[:min(len(body), 64<<10)]
	if bytes.Contains(head, []byte("<!--")) {
		head = comment.ReplaceAll(head, nil)
	}
	if m := firstCharset.FindSubmatch(head[:min(len(head), longestMeta)]); m != nil {
		if name := canonicalCharset(string(bytes.Join(m[1:], nil))); name != "" {
			return name
		}
	}
	// A regular expression over all of the head would take longer than all else here.
	for rest := head; ; {
		at := bytes.IndexByte(rest, '<')
		if at < 0 {
			return ""
		}
		rest = rest[at:]
		if len(rest) >= 5 && bytes.EqualFold(rest[:5], []byte("<meta")) {
			if m := metaCharset.FindSubmatch(rest[:min(len(rest), longestMeta)]); m != nil {
				if name := canonicalCharset(string(m[1])); name != "" {
					return name
				}
			}
		}
		rest = rest[1:]
	}
}

func canonicalCharset(label string) string {
	label = strings.ToLower(strings.TrimSpace(label))
	enc, err := htmlindex.Get(label)
	if err != nil {
		switch label { // the labels of old Japanese pages that the standard lacks
		case "cp932", "ms932", "x-ms-cp932":
			return "shift_jis"
		case "eucjp", "euc_jp", "ujis":
			return "euc-jp"
		case "jis", "iso-2022-jp-1", "csiso2022jp2":
			return "iso-2022-jp"
		}
		return ""
	}
	name, err := htmlindex.Name(enc)
	if err != nil || name == "replacement" || name == "x-user-defined" {
		return ""
	}
	if strings.HasPrefix(name, "utf-16") { // declared in bytes that read as ASCII
		return "utf-8"
	}
	return name
}

// bareUTF16 finds UTF-16 without mark by the zero bytes that markup leaves.
func bareUTF16(b []byte) string {
	b = b[:min(len(b), 1024)&^1]
	var even, odd int
	for i := 0; i+1 < len(b); i += 2 {
		if b[i] == 0 && b[i+1] != 0 {
			even++
		}
		if b[i] != 0 && b[i+1] == 0 {
			odd++
		}
	}
	switch half := len(b) / 2; {
	case half >= 8 && odd > half/2 && even == 0:
		return "utf-16le"
	case half >= 8 && even > half/2 && odd == 0:
		return "utf-16be"
	}
	return ""
}

// sniff returns the encoding of the Japanese web, or UTF-8, in which the bytes
// make sense; "" when none does.
func sniff(b []byte) string {
	switch {
	case (bytes.Contains(b, []byte("\x1b$B")) || bytes.Contains(b, []byte("\x1b$@"))) && sevenBit(b):
		return "iso-2022-jp"
	case isASCII(b) || validUTF8(b):
		return "utf-8"
	}
	best, fewest := "", len(b)/50+1 // two in a hundred bytes may be damaged
	for _, name := range []string{"euc-jp", "shift_jis", "utf-8"} {
		if n := faults(b, name); n < fewest {
			best, fewest = name, n
		}
	}
	return best
}

// faults counts what does not fit an encoding: invalid sequences, and the
// half-width katakana and rare rows that wrong decoding brings.
func faults(b []byte, name string) int {
	switch name {
	case "utf-8":
		return utf8Faults(b)
	case "euc-jp":
		return pairFaults(b, eucChar)
	case "shift_jis":
		return pairFaults(b, sjisChar)
	case "windows-1252":
		// Anything is valid; so many letters with accents in a row are not likely.
		n := 0
		for i := 1; i < len(b); i++ {
			if b[i] >= 0x80 && b[i-1] >= 0x80 {
				n++
			}
		}
		return n
	}
	return 0
}

func utf8Faults(b []byte) int {
	n := 0
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			n++
		}
		i += size
	}
	return n
}

// pairFaults counts the faults of an encoding with characters of several bytes beside
// ASCII. char reads one, of which it sees the first two bytes. A character that
// the sample cuts is no fault.
func pairFaults(b []byte, char func(first, second byte) (width, faults int)) int {
	n := 0
	for i := 0; i+1 < len(b); i++ {
		if b[i] < 0x80 {
			continue
		}
		width, faults := char(b[i], b[i+1])
		i += width - 1
		n += faults
	}
	return n
}

func eucChar(first, second byte) (width, faults int) {
	switch {
	case first == 0x8e && 0xa1 <= second && second <= 0xdf:
		return 2, 1 // half-width katakana: valid, and rare
	case first == 0x8f && second >= 0xa1:
		return 3, 0
	case 0xa1 <= first && first <= 0xfe && 0xa1 <= second && second <= 0xfe:
		return 2, 0
	}
	return 1, 2
}

func sjisChar(first, second byte) (width, faults int) {
	switch {
	case 0xa1 <= first && first <= 0xdf:
		return 1, 1 // half-width katakana: valid, and what EUC-JP looks like
	case second < 0x40 || second == 0x7f || second > 0xfc:
	case 0xf0 <= first && first <= 0xfc:
		return 2, 1 // beyond the standard's rows
	case 0x81 <= first && first <= 0x9f || 0xe0 <= first && first <= 0xfc:
		return 2, 0
	}
	return 1, 2
}

// sevenBit reports whether hardly a byte has its highest bit set. A page in
// another encoding may show ISO-2022-JP's escapes without being written in it.
func sevenBit(b []byte) bool {
	high := 0
	for _, c := range b {
		if c >= 0x80 {
			high++
		}
	}
	return high <= len(b)/100
}

// validUTF8 allows for a sample that was cut within a character.
func validUTF8(b []byte) bool {
	for i := 0; i < utf8.UTFMax && i <= len(b); i++ {
		if utf8.Valid(b[:len(b)-i]) {
			return i == 0 || !utf8.FullRune(b[len(b)-i:])
		}
	}
	return false
}

// isASCII reports whether there is nothing but ASCII, and no escape, which other encodings have.
func isASCII(b []byte) bool {
	if bytes.IndexByte(b, 0x1b) >= 0 {
		return false
	}
	const word = 8
	for ; len(b) >= word; b = b[word:] {
		if binary.NativeEndian.Uint64(b)&0x8080808080808080 != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
