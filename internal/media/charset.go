package media

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Charset is the detected encoding of a page.
type Charset struct {
	Name    string            // as the WHATWG encoding standard writes it, in lower case
	Doubted string            // the declared encoding, if the bytes contradict it
	Query   encoding.Encoding // encoding for the queries of the page's links; nil: UTF-8
}

// sampleSize limits the part of a body that is decoded to judge declarations, in bytes.
const sampleSize = 256 << 10

// DecodeText decodes a body with a Content-Type header to UTF-8. Bytes that do not fit the encoding
// become U+FFFD.
func DecodeText(body []byte, contentType string) (string, Charset) {
	cs := DetectCharset(body, contentType)
	return cs.Decode(body), cs
}

// Decode decodes a body in the charset to UTF-8.
func (cs Charset) Decode(body []byte) string { return string(cs.DecodeBytes(body)) }

// DecodeBytes is Decode for callers that do not change the result: if the charset is UTF-8 and the
// body is valid, the result is a part of the body.
func (cs Charset) DecodeBytes(body []byte) []byte {
	name := cs.Name
	enc, err := htmlindex.Get(name)
	if name == "utf-8" || err != nil {
		body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
		if utf8.Valid(body) { // a check is faster than ToValidUTF8
			return body
		}
		return bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	if strings.HasPrefix(name, "utf-16") {
		enc = cs.utf16()
	}
	text, _ := enc.NewDecoder().Bytes(body) // decoders replace, they do not fail
	return text
}

// Reader returns a reader that decodes r from the charset to UTF-8.
func (cs Charset) Reader(r io.Reader) io.Reader {
	var decoder transform.Transformer
	switch enc, err := htmlindex.Get(cs.Name); {
	case strings.HasPrefix(cs.Name, "utf-16"):
		decoder = cs.utf16().NewDecoder()
	case err == nil && cs.Name != "utf-8":
		decoder = enc.NewDecoder()
	default:
		decoder = unicode.UTF8BOM.NewDecoder()
	}
	return transform.NewReader(r, decoder)
}

func (cs Charset) utf16() encoding.Encoding {
	if cs.Name == "utf-16be" {
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	}
	return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
}

// DetectCharset finds a body's encoding. It decides by the first of these: a byte order mark, or
// the zero bytes of UTF-16; seven-bit text with the escapes of ISO-2022-JP, which no other encoding
// has; the declaration of the header or else of the page, unless the bytes contradict it; the
// encoding that fits the bytes best.
func DetectCharset(body []byte, contentType string) Charset {
	name, doubted := detect(body, contentType)
	cs := Charset{Name: name, Doubted: doubted}
	if name != "utf-8" && !strings.HasPrefix(name, "utf-16") {
		cs.Query, _ = htmlindex.Get(name) // nil, as for UTF-8, if the name is empty
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
	if name := bareUTF16(body); name != "" {
		return name, ""
	}
	declared := declaredCharset(body, contentType)
	sample := sampleOf(body)
	if strings.HasPrefix(declared, "utf-16") { // declared by the header; the bytes may contradict it
		if bytes.IndexByte(sample, 0) >= 0 || !validUTF8(sample) && sniff(sample) == "" {
			return declared, ""
		}
		actual, _ := detect(body, "")
		return actual, declared
	}
	actual := sniff(sample)
	if declared == "" {
		if actual == "" || isASCII(sample) {
			actual = "windows-1252" // the HTML standard's default
			if IsXML(Sniff(contentType, body)) {
				actual = "utf-8"
			}
		}
		return actual, ""
	}
	if actual == "" || actual == declared || !judged(declared) && actual != "iso-2022-jp" {
		return declared, ""
	}
	if actual == "utf-8" && isASCII(sample) {
		return declared, ""
	}
	// If the declared encoding fits as well as the best one, the declaration counts: its author may
	// have known.
	if declared != "iso-2022-jp" && actual != "iso-2022-jp" && faults(sample, declared) <= faults(sample, actual) {
		return declared, ""
	}
	return actual, declared
}

// judged reports whether faults can judge an encoding.
func judged(name string) bool {
	switch name {
	case "utf-8", "euc-jp", "shift_jis", "iso-2022-jp", "windows-1252":
		return true
	}
	return false
}

// canonicalCharset returns the standard name of the encoding with this label; "" if there is none.
func canonicalCharset(label string) string {
	label = strings.ToLower(strings.TrimSpace(label))
	enc, err := htmlindex.Get(label)
	if err != nil {
		switch label { // labels of old Japanese pages that the standard lacks
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
	switch {
	case err != nil || name == "replacement":
		return ""
	case name == "x-user-defined":
		return "windows-1252"
	}
	return name
}

// sampleOf returns the part of a body that is decoded to judge encodings. If the first sampleSize
// bytes are ASCII, the part begins at the first byte that is not, because scripts and styles tell
// nothing.
func sampleOf(body []byte) []byte {
	from := 0
	if len(body) > sampleSize && isASCII(body[:sampleSize]) {
		from = sampleSize
		for from < len(body) && body[from] < utf8.RuneSelf && body[from] != 0x1b {
			from++
		}
	}
	return body[from:min(len(body), from+sampleSize)]
}

// bareUTF16 recognises UTF-16 without a byte order mark, by an XML declaration or by the zero bytes
// of markup.
func bareUTF16(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("<\x00?\x00x\x00")):
		return "utf-16le"
	case bytes.HasPrefix(b, []byte("\x00<\x00?\x00x")):
		return "utf-16be"
	}
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

// sniff returns the encoding that fits the bytes best: UTF-8, or one of the Japanese web. It
// returns "" if none fits.
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

// faults counts the signs that bytes are not in an encoding: invalid sequences, and the half-width
// katakana and rare rows that come from wrong decoding.
func faults(b []byte, name string) int {
	switch name {
	case "utf-8":
		return utf8Faults(b)
	case "euc-jp":
		return pairFaults(b, eucChar)
	case "shift_jis":
		return pairFaults(b, sjisChar)
	case "windows-1252":
		// All bytes are valid, but long rows of accented letters are unlikely.
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

// pairFaults counts the faults of a multi-byte encoding that includes ASCII. char gets the first
// two bytes of a character and returns the character's width and faults. A character at the end
// that the sample cuts is not a fault.
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
		return 2, 1 // half-width katakana: valid, but rare
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
		return 1, 1 // half-width katakana: valid, but EUC-JP looks like it
	case second < 0x40 || second == 0x7f || second > 0xfc:
	case 0xf0 <= first && first <= 0xfc:
		return 2, 1 // beyond the standard's rows
	case 0x81 <= first && first <= 0x9f || 0xe0 <= first && first <= 0xfc:
		return 2, 0
	}
	return 1, 2
}

// sevenBit reports whether hardly any byte has its highest bit set. Otherwise escapes of
// ISO-2022-JP in a page do not mean that the page is in that encoding.
func sevenBit(b []byte) bool {
	high := 0
	for _, c := range b {
		if c >= 0x80 {
			high++
		}
	}
	return high <= len(b)/100
}

// validUTF8 reports whether b is UTF-8, perhaps cut within its last character.
func validUTF8(b []byte) bool {
	for i := 0; i < utf8.UTFMax && i <= len(b); i++ {
		if utf8.Valid(b[:len(b)-i]) {
			return i == 0 || !utf8.FullRune(b[len(b)-i:])
		}
	}
	return false
}

// isASCII reports whether b is ASCII without escape characters, which begin characters of other
// encodings.
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

// PlainLines prepares a text with ASCII keywords, such as a robots.txt, for reading it line by
// line. It decodes UTF-16, and removes zero bytes and byte order marks, of which a joined file may
// have several. All other bytes stay as they are.
func PlainLines(text []byte) []byte {
	if bytes.IndexByte(text, 0) >= 0 || bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		if cs := DetectCharset(text, ""); strings.HasPrefix(cs.Name, "utf-16") {
			text = cs.DecodeBytes(text)
		}
		text = bytes.ReplaceAll(text, []byte{0}, nil)
	}
	if bom := []byte("\xef\xbb\xbf"); bytes.Contains(text, bom) {
		text = bytes.ReplaceAll(text, bom, nil)
	}
	return text
}
