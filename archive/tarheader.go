package archive

import (
	"archive/tar"
	"bytes"
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

// parseTarHeaders parses the decoded T: the headers of exactly one regular file. It does not check
// that they are written as appendTo writes them.
func parseTarHeaders(b []byte) (*tarEntry, *FormatError) {
	in := bytes.NewReader(b)
	h, err := tar.NewReader(in).Next()
	switch {
	case err != nil:
		return nil, corrupt("tar headers of %d bytes: %v", len(b), err)
	case '1' <= h.Typeflag && h.Typeflag <= '6':
		return nil, &FormatError{Code: codeLinkEntry, Msg: fmt.Sprintf("tar entry %q has type %q: only regular files (type \"0\") are allowed", h.Name, h.Typeflag)}
	case h.Typeflag != tar.TypeReg:
		return nil, corrupt("tar entry has type %q, want \"0\"", h.Typeflag)
	case in.Len() > 0 || cString(b[len(b)-blockSize+345:len(b)-blockSize+500]) != "":
		return nil, corrupt("tar header of %q is followed by %d bytes, or has a name prefix; long names belong into the PAX header", h.Name, in.Len())
	case !oneExtension(b, len(h.PAXRecords)):
		return nil, corrupt("tar header of %q has another extension than one PAX header with each key once", h.Name)
	case naming.Escapes(h.Name):
		return nil, &FormatError{Code: codePathEscape, Entry: h.Name, Msg: "entry name leaves the host's directory"}
	}
	return &tarEntry{name: h.Name, size: h.Size, modified: h.ModTime.UTC()}, nil
}

// oneExtension reports whether the headers of a file are its own, perhaps after one PAX header with
// the given number of records. In a PAX header of segments, only records end with newlines.
func oneExtension(b []byte, records int) bool {
	if b[156] != 'x' {
		return len(b) == blockSize
	}
	size, err := strconv.ParseInt(strings.Trim(string(b[124:136]), " \x00"), 8, 32)
	pax := b[blockSize : len(b)-blockSize]
	return err == nil && int(size)+padding(size) == len(pax) && bytes.Count(pax, []byte("\n")) == records
}

func cString(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}
