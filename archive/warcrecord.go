package archive

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"mime"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/deflate"
	"sheaf/archive/naming"
	"sheaf/internal/media"
	"sheaf/internal/preference"
)

const (
	revisitMIME = "warc/revisit"
	UnknownMIME = "unk"
	crlf2       = "\r\n\r\n"
)

// warcHead holds the fields of a WARC record's header. The header's bytes follow from them.
type warcHead struct {
	kind                       Kind
	url, ip, truncated         string
	preferences                string
	time                       time.Time
	payloadDigest, blockDigest string
	profile                    string    // Revisit only
	refersTo                   string    // Revisit only; empty: url
	refersDate                 time.Time // Revisit only; may be zero
	length                     int64     // of the block: HTTP header and body
	original                   []Field   // Record.Original; used by the writer
	id                         string    // of an imported record; empty: the ID follows from the other fields
	fields                     []Field   // further fields of an imported record
}

// typ returns the WARC-Type: revisit or, for all other kinds, response.
func (h *warcHead) typ() string {
	if h.kind == Revisit {
		return "revisit"
	}
	return "response"
}

func (h *warcHead) bytes() []byte { return h.appendTo(nil) }

// appendTo appends the result of bytes. The result is shorter than the sum of warcHeadRest, the
// URLs and the fields that an imported record keeps.
func (h *warcHead) appendTo(b []byte) []byte {
	line := func(name, value string) {
		if value != "" {
			b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
		}
	}
	date := func(name string, t time.Time) {
		b = append(append(b, name...), ": "...)
		b = append(t.UTC().AppendFormat(b, time.RFC3339Nano), "\r\n"...)
	}
	b = append(b, "WARC/1.1\r\n"...)
	line("WARC-Type", h.typ())
	if h.id != "" {
		line(recordIDField, h.id)
	} else {
		line(recordIDField, h.ownID())
	}
	date("WARC-Date", h.time)
	line("WARC-Target-URI", h.url)
	line("WARC-IP-Address", h.ip)
	line("WARC-Payload-Digest", h.payloadDigest)
	line("WARC-Block-Digest", h.blockDigest)
	line("WARC-Truncated", h.truncated)
	line(preferencesField, h.preferences)
	if h.kind == Revisit {
		line("WARC-Profile", h.profile)
		line("WARC-Refers-To-Target-URI", cmp.Or(h.refersTo, h.url))
		if !h.refersDate.IsZero() {
			date("WARC-Refers-To-Date", h.refersDate)
		}
	}
	for _, f := range h.fields {
		line(f.Name, f.Value)
	}
	line("Content-Type", "application/http;msgtype=response")
	line("Content-Length", strconv.FormatInt(h.length, 10))
	return append(b, "\r\n"...)
}

// warcHeadRest is an upper limit for the length of a record's header without its URLs.
const warcHeadRest = 1<<10 + preference.MaxLength

// preferencesField is the header field for Record.Preferences. WARC allows additional fields.
const preferencesField = "X-Crawler-Preferences"

// ownID returns the ID of a record that was not imported: it follows from the fields that
// identify the record.
func (h *warcHead) ownID() string {
	return RecordID(fmt.Appendf(nil, "%s\n%s\n%d\n%s", h.typ(), h.url, h.time.UnixNano(), h.payloadDigest))
}

// RecordID returns the WARC-Record-ID that follows from the text: a UUID of version 8 (RFC 9562).
func RecordID(text []byte) string {
	u := sha256.Sum256(text)
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("<urn:uuid:%x-%x-%x-%x-%x>", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// parseWARC parses a header that warcHead.bytes made. It does not check the header: the caller
// compares the result of bytes with the header's text.
func parseWARC(head []byte) (*warcHead, error) {
	text, ok := strings.CutPrefix(string(head), "WARC/1.1\r\n")
	if !ok {
		return nil, fmt.Errorf("%.20q is not WARC/1.1", head)
	}
	h := new(warcHead)
	var err error
	for line := range strings.SplitSeq(strings.TrimSuffix(text, crlf2), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "WARC-Type":
			h.kind = Response
			if value == "revisit" {
				h.kind = Revisit
			}
		case "WARC-Date":
			h.time, err = time.Parse(time.RFC3339Nano, value)
		case "WARC-Target-URI":
			h.url = strings.Clone(value) // so that a cell does not keep the whole header in memory
		case "WARC-IP-Address":
			h.ip = value
		case "WARC-Payload-Digest":
			h.payloadDigest = strings.Clone(value)
		case "WARC-Block-Digest":
			h.blockDigest = value
		case "WARC-Truncated":
			h.truncated = strings.Clone(value)
		case preferencesField:
			h.preferences = strings.Clone(value)
		case "WARC-Profile":
			h.profile = value
		case "WARC-Refers-To-Target-URI":
			if value != h.url {
				h.refersTo = strings.Clone(value)
			}
		case "WARC-Refers-To-Date":
			h.refersDate, err = time.Parse(time.RFC3339Nano, value)
		case "Content-Length":
			h.length, err = strconv.ParseInt(value, 10, 64)
		case recordIDField:
			h.id = strings.Clone(value)
		case "Content-Type": // a constant
		default:
			h.fields = append(h.fields, Field{strings.Clone(name), strings.Clone(value)})
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(h.fields) == 0 {
		h.id = "" // a robot's record has the ID that follows from it
	}
	return h, nil
}

// check returns an error if the header has a value that no record may have.
func (h *warcHead) check() error {
	switch h.truncated {
	case "", TruncatedLength, TruncatedTime, TruncatedDisconnect, TruncatedUnspecified:
	default:
		return fmt.Errorf("truncated is %q, want length, time, disconnect or unspecified", h.truncated)
	}
	if _, err := netip.ParseAddr(h.ip); h.ip != "" && err != nil {
		return fmt.Errorf("IP address: %w", err)
	}
	if err := h.checkFields(); err != nil {
		return err
	}
	if _, err := preference.Parse(h.preferences); err != nil {
		return err
	}
	if y := h.time.UTC().Year(); y < 1970 || y > 2200 {
		return fmt.Errorf("time %v is not between 1970 and 2200", h.time)
	}
	if h.kind != Revisit {
		if d, ok := strings.CutPrefix(h.payloadDigest, "sha256:"); !ok || !isBase32(d, sha256.Size) {
			return fmt.Errorf("payload digest %.80q is not sha256: and base32", h.payloadDigest)
		}
		return nil
	}
	return h.checkRevisit()
}

// revisitDigests maps the digest algorithms that a revisit may use to the digests' sizes. Other
// crawlers use SHA-1 or MD5, and a revisit may name their pages.
var revisitDigests = map[string]int{"sha256": sha256.Size, "sha1": sha1.Size, "md5": md5.Size}

// checkRevisit checks a revisit's payload digest, its profile and the URL to which it refers.
func (h *warcHead) checkRevisit() error {
	name, sum, _ := strings.Cut(h.payloadDigest, ":")
	if size := revisitDigests[name]; h.payloadDigest != "" && (size == 0 || !isBase32(sum, size)) {
		return fmt.Errorf("payload digest %.80q is not sha256:, sha1: or md5: and base32", h.payloadDigest)
	}
	if h.refersTo != "" {
		if _, err := naming.HostOf(h.refersTo); err != nil {
			return fmt.Errorf("refers to: %w", err)
		}
	}
	if h.profile != IdenticalPayload && h.profile != ServerNotModified {
		return fmt.Errorf("profile %.100q is not one of WARC 1.1's", h.profile)
	}
	return nil
}

// isBase32 reports whether s is a digest of size bytes in the form of digestString. It encodes the
// digest again, because the decoder accepts any unused bits.
func isBase32(s string, size int) bool {
	b, err := base32.StdEncoding.DecodeString(s)
	return err == nil && len(b) == size && base32.StdEncoding.EncodeToString(b) == s
}

func digestString(sum []byte) string { return "sha256:" + base32.StdEncoding.EncodeToString(sum) }

// parseHTTP parses status and media type from the head of a response.
func parseHTTP(head []byte) (status int, mimeType string, err error) {
	if !bytes.HasSuffix(head, []byte(crlf2)) || bytes.Index(head, []byte(crlf2)) != len(head)-4 {
		return 0, "", fmt.Errorf("HTTP header does not end with its first empty line")
	}
	first, rest, _ := strings.Cut(string(head), "\r\n")
	proto, code, _ := strings.Cut(first, " ")
	code, _, _ = strings.Cut(code, " ")
	status, err = strconv.Atoi(code)
	if err != nil || !strings.HasPrefix(proto, "HTTP/") || status < 100 || status > 999 {
		return 0, "", fmt.Errorf("HTTP status line %.60q is not valid", first)
	}
	return status, mediaType(headerValue(rest, "Content-Type")), nil
}

// headerValue returns the value of the header's first field with the name, or "".
func headerValue(head, name string) string {
	for line := range strings.SplitSeq(head, "\r\n") {
		if field, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(field, name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func mediaType(value string) string {
	value, _, _ = strings.Cut(value, ";")
	value = strings.ToLower(strings.TrimSpace(value))
	if t, _, err := mime.ParseMediaType(value); err != nil || t != value || len(t) > 100 || !strings.Contains(t, "/") || t == revisitMIME {
		return UnknownMIME
	}
	return strings.Clone(value) // so that a cell does not keep the whole header in memory
}

// fillCell copies the record's metadata to the cell.
func (h *warcHead) fillCell(c *Cell, host string, head []byte) error {
	status, mimeType, err := parseHTTP(head)
	if err != nil {
		return err
	}
	c.Kind, c.URL, c.URLKey, c.Time = h.kind, h.url, naming.SURT(h.url), h.time.UTC()
	c.Status, c.MIME, c.Digest, c.Truncated, c.RefersDate = status, mimeType, h.payloadDigest, h.truncated, h.refersDate
	c.RefersTo, c.Preferences = h.refersTo, h.preferences
	switch h.kind {
	case Page:
		c.Name = naming.FileName(host, h.url)
		if media.IsPartial(status, "") {
			if rng := headerValue(string(head), "Content-Range"); media.IsPartial(status, rng) {
				c.Kind, c.Name = Partial, naming.PartName(host, h.url, rng)
			}
		}
	case Revisit:
		c.MIME = revisitMIME
	}
	return nil
}

// tarEntry returns the tar headers of a page.
func (c *Cell) tarEntry() *tarEntry {
	e := &tarEntry{name: c.Name, size: c.BodyLen, modified: c.Time, url: c.URL, mime: c.MIME, truncated: c.Truncated}
	if c.MIME == UnknownMIME {
		e.mime = ""
	}
	if len(c.URL) > maxAttrURL {
		e.url = ""
	}
	return e
}

// warcInfo returns the constant record that begins every WARC view. It is in a stored block, so
// that it does not depend on a compressor.
func warcInfo() []byte {
	const fields = "software: sheaf\r\nformat: WARC File Format 1.1\r\n" +
		"conformsTo: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"
	record := fmt.Appendf(nil, "WARC/1.1\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: <urn:uuid:5ea6a5c4-1999-8000-8000-000000000001>\r\n"+
		"WARC-Date: 1999-01-01T00:00:00Z\r\nContent-Type: application/warc-fields\r\nContent-Length: %d\r\n\r\n%s%s", len(fields), fields, crlf2)
	out := append([]byte(gzipPlainStart), deflate.Stored(record, true)...)
	return appendTrailer(out, deflate.CRC(record), int64(len(record)))
}

// Field is a line of a WARC header.
type Field struct{ Name, Value string }

// MaxOriginal limits the sum of the names and values in Record.Original, in bytes.
const MaxOriginal = 4 << 10

// originalPrefix is put before the name of an original field that Sheaf writes with another value.
const originalPrefix = "X-Original-"

// recordIDField is the one original field that replaces Sheaf's own field of that name.
const recordIDField = "WARC-Record-ID"

// ownFields are the fields that Sheaf writes itself.
var ownFields = []string{
	"WARC-Type", recordIDField, "WARC-Date", "WARC-Target-URI", "WARC-IP-Address", "WARC-Payload-Digest", "WARC-Block-Digest", "WARC-Truncated",
	preferencesField, "WARC-Profile", "WARC-Refers-To-Target-URI", "WARC-Refers-To-Date", "Content-Type", "Content-Length",
}

func isOwnField(name string) bool {
	return slices.ContainsFunc(ownFields, func(own string) bool { return strings.EqualFold(own, name) })
}

// CheckOriginal returns an error if a record cannot keep the fields as its Original.
func CheckOriginal(fields []Field) error {
	size := 0
	for _, f := range fields {
		if f.Name == "" || strings.ContainsFunc(f.Name, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, c) }) {
			return fmt.Errorf("%.80q is no name of a header field", f.Name)
		}
		if f.Value == "" || strings.TrimSpace(f.Value) != f.Value || strings.ContainsFunc(f.Value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return fmt.Errorf("field %s: %.80q is empty, begins or ends with white space, or is more than one line", f.Name, f.Value)
		}
		if strings.EqualFold(f.Name, recordIDField) && !isRecordID(f.Value) {
			return fmt.Errorf("%s is %.80q, want a URI in angle brackets", f.Name, f.Value)
		}
		size += len(f.Name) + len(f.Value)
	}
	if size > MaxOriginal {
		return fmt.Errorf("original header fields of %d bytes are over %d", size, MaxOriginal)
	}
	return nil
}

// isRecordID reports whether a text has the form of a WARC-Record-ID: a URI in angle brackets.
func isRecordID(s string) bool {
	inner, ok := strings.CutPrefix(s, "<")
	inner, end := strings.CutSuffix(inner, ">")
	return ok && end && inner != "" && len(s) <= 256 && !strings.ContainsFunc(inner, func(c rune) bool { return c <= ' ' || c > '~' || c == '<' || c == '>' })
}

// keep sets the header's ID and its further fields from the original fields. It leaves out fields
// that the header already has with the same value. Call it when all else of the header is set.
func (h *warcHead) keep(original []Field) {
	if len(original) == 0 {
		return
	}
	own := string(h.bytes())
	for _, f := range original {
		switch {
		case strings.EqualFold(f.Name, recordIDField) && h.id == "":
			h.id = f.Value
		case strings.Contains(own, "\r\n"+f.Name+": "+f.Value+"\r\n"):
		case isOwnField(f.Name):
			h.fields = append(h.fields, Field{originalPrefix + f.Name, f.Value})
		default:
			h.fields = append(h.fields, f)
		}
	}
	if len(h.fields) == 0 && h.id != "" && h.id != h.ownID() { // see parseWARC
		h.fields = append(h.fields, Field{originalPrefix + recordIDField, h.id})
	}
}

// checkFields checks the fields that an imported record kept from its original header.
func (h *warcHead) checkFields() error {
	size := 0
	for _, f := range h.fields {
		if isOwnField(f.Name) {
			return fmt.Errorf("field %s is there twice", f.Name)
		}
		size += len(f.Name) + len(f.Value)
		if err := CheckOriginal([]Field{f}); err != nil {
			return err
		}
	}
	if most := MaxOriginal + len(originalPrefix)*len(h.fields); size > most {
		return fmt.Errorf("original header fields of %d bytes are over %d", size, most)
	}
	if h.id != "" && !isRecordID(h.id) {
		return fmt.Errorf("%s is %.80q, want a URI in angle brackets", recordIDField, h.id)
	}
	return nil
}
