package archive

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/naming"
)

// tarEntry is the content of one file's tar headers. The headers' bytes follow from it, so a reader
// checks them by building them again.
type tarEntry struct {
	name     string
	size     int64
	modified time.Time

	url, mime, truncated string // kept as extended attributes; empty for index and manifest cells
}

// The extended attributes of a page; GNU tar and bsdtar restore them with --xattrs.
const (
	attrURL       = "SCHILY.xattr.user.xdg.origin.url"
	attrMIME      = "SCHILY.xattr.user.mime_type"
	attrTruncated = "SCHILY.xattr.user.warc.truncated"
)

const (
	maxTarName = 100  // in the ustar header; a longer name is in a PAX record
	maxAttrURL = 2048 // a longer URL is not an attribute: ext4 allows 4 KiB for a file's attributes, and bsdtar fails on more
)

// headers returns the blocks before the file's data: a PAX header if needed, then the file's own.
func (e *tarEntry) headers() []byte { return e.appendTo(nil) }

// appendTo appends the result of headers.
func (e *tarEntry) appendTo(out []byte) []byte {
	var pax []byte
	if e.url != "" { // a page
		pax = make([]byte, 0, len(e.name)+len(e.url)+len(e.mime)+paxKeys)
	}
	out = slices.Grow(out, 3*blockSize+cap(pax))
	if len(e.name) > maxTarName {
		pax = appendPAX(pax, "path", e.name)
	}
	if e.mime != "" {
		pax = appendPAX(pax, attrMIME, e.mime)
	}
	if e.truncated != "" {
		pax = appendPAX(pax, attrTruncated, e.truncated)
	}
	if e.url != "" {
		pax = appendPAX(pax, attrURL, e.url)
	}
	if len(pax) > 0 {
		out = appendTarHeader(out, "././@PaxHeader", 'x', int64(len(pax)), time.Unix(0, 0))
		out = append(out, pax...)
		out = append(out, zeros[:padding(int64(len(pax)))]...)
	}
	return appendTarHeader(out, e.name[:min(len(e.name), maxTarName)], '0', e.size, e.modified)
}

// paxKeys is an upper limit for the length of a page's PAX records without their values.
const paxKeys = 192

func appendTarHeader(out []byte, name string, kind byte, size int64, modified time.Time) []byte {
	var h [blockSize]byte
	copy(h[0:], name)
	copy(h[100:], "0000644\x00")
	copy(h[108:], "0000000\x00")
	copy(h[116:], "0000000\x00")
	octal(h[124:], 11, size)
	octal(h[136:], 11, max(modified.Unix(), 0))
	copy(h[148:], "        ")
	h[156] = kind
	copy(h[257:], "ustar\x0000")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	octal(h[148:], 6, int64(sum))
	return append(out, h[:]...)
}

// octal writes a number with at least the given number of digits, and a zero byte.
func octal(to []byte, digits int, n int64) {
	for ; digits < 21 && n>>(3*digits) != 0; digits++ { // a time after the year 2242
	}
	to[digits] = 0
	for i := digits - 1; i >= 0; i-- {
		to[i] = '0' + byte(n&7)
		n >>= 3
	}
}

// appendPAX appends a record "<length> <key>=<value>\n". The length includes its own digits.
func appendPAX(b []byte, key, value string) []byte {
	rest := len(key) + len(value) + 3
	n := rest + len(strconv.Itoa(rest))
	n = rest + len(strconv.Itoa(n))
	b = strconv.AppendInt(b, int64(n), 10)
	return append(append(append(append(append(b, ' '), key...), '='), value...), '\n')
}

// parseTarHeaders parses the decoded T. It accepts exactly one regular file, with or without a PAX
// header before it.
func parseTarHeaders(b []byte) (*tarEntry, *FormatError) {
	e := new(tarEntry)
	if len(b) >= blockSize && b[156] == 'x' {
		size, ferr := parseTarBlock(b, new(tarEntry))
		if ferr != nil {
			return nil, ferr
		}
		end := blockSize + size + int64(padding(size))
		if size > int64(len(b)) || end > int64(len(b)) {
			return nil, corrupt("PAX header of %d bytes does not fit the tar header's %d", size, len(b))
		}
		if err := parsePAX(string(b[blockSize:blockSize+size]), e); err != nil {
			return nil, corrupt("PAX header: %v", err)
		}
		b = b[end:]
	}
	if len(b) != blockSize {
		return nil, corrupt("tar header has %d bytes after its extension, want one block of %d", len(b), blockSize)
	}
	switch b[156] {
	case '0':
	case '1', '2', '3', '4', '5', '6':
		return nil, &FormatError{Code: codeLinkEntry, Msg: fmt.Sprintf("tar entry %q has type %q: only regular files (type \"0\") are allowed", cString(b[:100]), b[156])}
	default:
		return nil, corrupt("tar entry has type %q, want \"0\"", b[156])
	}
	size, ferr := parseTarBlock(b, e)
	if ferr != nil {
		return nil, ferr
	}
	e.size = size
	if naming.Escapes(e.name) {
		return nil, &FormatError{Code: codePathEscape, Entry: e.name, Msg: "entry name leaves the host's directory"}
	}
	return e, nil
}

// parseTarBlock checks a header block's checksum and parses its time and size. It also takes the
// name, unless e has one already.
func parseTarBlock(b []byte, e *tarEntry) (size int64, ferr *FormatError) {
	sum := 8 * int(' ')
	for i, c := range b[:blockSize] {
		if i < 148 || i >= 156 {
			sum += int(c)
		}
	}
	if want, err := parseOctal(b[148:156]); err != nil || want != int64(sum) {
		return 0, corrupt("tar header's checksum %q is not %o", cString(b[148:156]), sum)
	}
	size, err := parseOctal(b[124:136])
	if err != nil {
		return 0, corrupt("tar header's size: %v", err)
	}
	modified, err := parseOctal(b[136:148])
	if err != nil {
		return 0, corrupt("tar header's time: %v", err)
	}
	if cString(b[345:500]) != "" {
		return 0, corrupt("tar header has a name prefix; long names belong into the PAX header")
	}
	if e.name == "" {
		e.name = cString(b[:100])
	}
	e.modified = time.Unix(modified, 0).UTC()
	return size, nil
}

func parsePAX(s string, e *tarEntry) error {
	for s != "" {
		digits, _, ok := strings.Cut(s, " ")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n <= len(digits)+1 || n > len(s) || s[n-1] != '\n' {
			return fmt.Errorf("record %.40q has no valid length", s)
		}
		key, value, ok := strings.Cut(s[len(digits)+1:n-1], "=")
		if !ok {
			return fmt.Errorf("record %.40q has no =", s)
		}
		var field *string
		switch key {
		case "path":
			field = &e.name
		case attrURL:
			field = &e.url
		case attrMIME:
			field = &e.mime
		case attrTruncated:
			field = &e.truncated
		default:
			return fmt.Errorf("key %q is not one that segments use", key)
		}
		if *field != "" || value == "" {
			return fmt.Errorf("key %q is empty or given twice", key)
		}
		*field = value
		s = s[n:]
	}
	return nil
}

func parseOctal(b []byte) (int64, error) {
	s := strings.Trim(string(b), " \x00")
	n, err := strconv.ParseInt(s, 8, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not an octal number", s)
	}
	return n, nil
}

func cString(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}
