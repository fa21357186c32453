package foreign

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/wire"
)

// warcRecord is one record of a foreign WARC (ISO 28500:2009 and :2017).
type warcRecord struct {
	at     int64 // its offset in the inflated file
	spot   spot  // place in the file, for lenient reading
	head   []byte
	fields textproto.MIMEHeader // if a name has several values, the first counts
	length int64                // of the block
	block  *block               // once it was read
	query  string               // addition of its request to the URL; see methodQuery
}

func (r *warcRecord) get(name string) string { return r.fields.Get(name) }
func (r *warcRecord) url() string            { return strings.Trim(r.get("WARC-Target-URI"), "<> ") }

// date returns the record's WARC-Date.
func (r *warcRecord) date() (time.Time, error) { return r.time("WARC-Date") }

// dateLayouts are the forms of dates: WARC/1.1's forms, of any precision, and WARC/0.17 writers'
// forms.
var dateLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02", "2006-01", "2006", "2006-01-02T15:04:05", "20060102150405"}

// time returns the time in a field. For a less precise time, such as a day, it returns the
// beginning.
func (r *warcRecord) time(name string) (time.Time, error) {
	text := strings.ToUpper(r.get(name))
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is %.40q, want a time such as 2026-11-21T02:03:04Z", name, r.get(name))
}

// isHTTP reports whether Content-Type says that the block is an HTTP response. In a response record
// the field may be missing.
func (r *warcRecord) isHTTP() bool {
	mediaType := strings.ToLower(strings.ReplaceAll(r.get("Content-Type"), " ", ""))
	return mediaType == "" || strings.HasPrefix(mediaType, "application/http") && !strings.Contains(mediaType, "msgtype=request")
}

// crlf2 ends a header.
const crlf2 = "\r\n\r\n"

// cutHead splits a block after its first empty line. b is the block or its beginning. A line ends
// with LF, with or without CR before it (RFC 9112, 2.2).
func cutHead(b []byte) (head, rest []byte, ok bool) {
	for n := 0; ; {
		line := bytes.IndexByte(b[n:], '\n')
		if line < 0 {
			return nil, nil, false
		}
		n += line + 1
		for _, empty := range []string{"\n", "\r\n"} {
			if bytes.HasPrefix(b[n:], []byte(empty)) {
				n += len(empty)
				return b[:n], b[n:], true
			}
		}
	}
}

// printable is for strings.Map: it drops everything except printable ASCII.
func printable(c rune) rune {
	if c < ' ' || c > '~' {
		return -1
	}
	return c
}

// Limits of a record's header: bytes of a line, and number of lines.
const (
	maxLine   = 64 << 10
	maxFields = 1000
)

// warcVersions are the first lines of records that this package reads.
var warcVersions = []string{"WARC/1.0", "WARC/1.1", "WARC/0.17", "WARC/0.18"}

// nextRecord reads the header of the next record, or returns io.EOF. The previous record's block
// must have been read.
func (s *input) nextRecord() (*warcRecord, error) {
	version, at, err := s.firstLine()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(warcVersions, version) {
		return nil, wrong(at, "", wire.ReasonCorruptMember, "a record begins with %.40q, want WARC/1.0 or WARC/1.1", version)
	}
	r := &warcRecord{at: at, spot: spot{within: at}, head: []byte(version + "\r\n"), fields: make(textproto.MIMEHeader)}
	for n := 0; ; n++ {
		line, err := s.line(maxLine)
		if err != nil {
			return nil, s.reading(err, r.url())
		}
		line = strings.TrimRight(line, "\r\n")
		r.head = append(append(r.head, line...), "\r\n"...)
		if line == "" {
			break
		}
		name, _, ok := strings.Cut(line, ":")
		folded := n > 0 && isSpace(line[0])
		switch {
		case n >= maxFields:
			return nil, wrong(s.n, "", wire.ReasonCorruptMember, "a record with more than %d header lines", maxFields)
		case !folded && (!ok || name == ""):
			return nil, wrong(s.n, "", wire.ReasonCorruptMember, "header line %.80q has no name and colon", line)
		}
	}
	for _, f := range headerFields(r.head) {
		r.fields.Add(f.Name, f.Value)
	}
	if r.length, err = strconv.ParseInt(r.get("Content-Length"), 10, 64); err != nil || r.length < 0 {
		return nil, wrong(at, r.url(), wire.ReasonCorruptMember, "Content-Length is %.40q, want a number of bytes", r.get("Content-Length"))
	}
	if r.get("WARC-Type") == "" {
		return nil, wrong(at, r.url(), wire.ReasonCorruptMember, "a record without WARC-Type")
	}
	return r, nil
}

// check compares the block with the record's WARC-Block-Digest, if the digest's algorithm is known.
func (r *warcRecord) check() error {
	text := r.get("WARC-Block-Digest")
	name, _, h := algorithm(text)
	if h == nil {
		return nil
	}
	if _, err := io.Copy(h, r.block.from(0)); err != nil {
		return err
	}
	sum := h.Sum(nil)
	if want, ok := parseDigest(text); !ok || want.sum != string(sum) {
		return wrong(r.at, r.url(), wire.ReasonSHAMismatch, "its block has %s %s, WARC-Block-Digest says %.80q", name, base32.StdEncoding.EncodeToString(sum), text)
	}
	return nil
}

// maxMemory is the longest block, in bytes, that is kept in memory. A longer block is kept in a
// file.
const maxMemory = 1 << 20

// block keeps the block of the present record, so that it can be read more than once.
type block struct {
	dir  string
	mem  bytes.Buffer
	file *os.File // nil: mem has the whole block
	size int64
}

// fill replaces the block by all that r has.
func (b *block) fill(r io.Reader) error {
	if err := b.reset(); err != nil {
		return err
	}
	n, err := readStart(&b.mem, r)
	if b.size = n; err == io.EOF {
		return nil
	} else if err != nil {
		return err
	}
	if b.file, err = files.Nameless(b.dir); err != nil {
		return err
	}
	if _, err := b.file.Write(b.mem.Bytes()); err != nil {
		return err
	}
	b.mem.Reset()
	more, err := io.Copy(b.file, r)
	b.size += more
	return err
}

// readStart reads up to maxMemory bytes into an empty buffer. It returns io.EOF if r has no more.
func readStart(to *bytes.Buffer, r io.Reader) (int64, error) {
	const most = 64 << 10 // bytes of most blocks and members
	n, err := io.CopyN(to, r, most)
	if err != nil {
		return n, err
	}
	to.Grow(maxMemory) // once: a buffer that doubles takes four times as much
	more, err := io.CopyN(to, r, maxMemory-most)
	return n + more, err
}

// from returns a reader of the block from off on.
func (b *block) from(off int64) io.Reader {
	if b.file == nil {
		return bytes.NewReader(b.mem.Bytes()[min(off, b.size):])
	}
	return io.NewSectionReader(b.file, off, b.size-off)
}

func (b *block) reset() error {
	b.mem.Reset()
	b.size = 0
	f := b.file
	if b.file = nil; f == nil {
		return nil
	}
	return f.Close()
}

// claimed is a digest that a WARC record states, of its block or its payload.
type claimed struct {
	algorithm string // "sha1", "sha256" or "md5"
	sum       string // the digest as bytes
}

// algorithm splits a digest written as algorithm:value. h is nil if the algorithm is not known.
func algorithm(text string) (name, value string, h hash.Hash) {
	name, value, _ = strings.Cut(text, ":")
	switch name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "-", ""); name {
	case "sha1":
		h = sha1.New()
	case "sha256":
		h = sha256.New()
	case "md5":
		h = md5.New()
	}
	return name, value, h
}

// parseDigest reads a digest. Crawlers write the value in base 32 or 16, in either case, or in base
// 64, with or without padding; the length tells which. For other values and unknown algorithms ok
// is false.
func parseDigest(text string) (d claimed, ok bool) {
	name, value, h := algorithm(text)
	if h == nil {
		return d, false
	}
	size := h.Size()
	value = strings.TrimRight(strings.TrimSpace(value), "=")
	var sum []byte
	var err error
	switch len(value) {
	case hex.EncodedLen(size):
		sum, err = hex.DecodeString(value)
	case base32.StdEncoding.WithPadding(base32.NoPadding).EncodedLen(size):
		sum, err = base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(value))
	case base64.RawStdEncoding.EncodedLen(size):
		sum, err = base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(value))
	default:
		return d, false
	}
	return claimed{name, string(sum)}, err == nil
}

// payload returns the record's WARC-Payload-Digest in one form. A digest that cannot be parsed
// stays unchanged.
func (r *warcRecord) payload() string {
	text := r.get("WARC-Payload-Digest")
	if d, ok := parseDigest(text); ok {
		return d.algorithm + ":" + hex.EncodeToString([]byte(d.sum))
	}
	return text
}

// stored returns the digest as revisits in segments have it, or "" if the digest is empty.
func (d claimed) stored() string {
	if d.sum == "" {
		return ""
	}
	return d.algorithm + ":" + base32.StdEncoding.EncodeToString([]byte(d.sum))
}
