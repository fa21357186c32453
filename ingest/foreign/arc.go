package foreign

import (
	"bytes"
	"fmt"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// An ARC file is what the Internet Archive and Heritrix 1 wrote before WARC
// (https://archive.org/web/researcher/ArcFileFormat.php). A record is a line with URL, IP address,
// date, media type and length, and that many bytes. In version 2 the line has arcMore fields before
// the length. The first record describes the file: its URL begins with arcBegins, and its content
// begins with the version.
const arcBegins = "filedesc://"

// nextARC reads the line of the next record of an ARC, or returns io.EOF. It returns the record
// with a WARC header of the same meaning: answers of web servers are responses, other files are
// resources. The previous record's block must have been read.
func (s *input) nextARC() (*warcRecord, error) {
	line, at, err := s.firstLine()
	if err != nil {
		return nil, err
	}
	a, ok := parseARC(line)
	if !ok {
		return nil, wrong(at, "", wire.ReasonCorruptMember, "a record of the ARC begins with %.80q, want URL, IP address, date, media type and length", line)
	}
	r := a.record(at)
	r.spot.within = at
	if strings.HasPrefix(a.url, arcBegins) {
		version, err := s.r.Peek(1)
		if err == nil && version[0] != '1' && version[0] != '2' {
			return nil, wrong(at, a.url, wire.ReasonForeign, "an ARC of version %.1q, want 1 or 2", version)
		}
	}
	return r, nil
}

// arcLine is the line that begins a record of an ARC.
type arcLine struct {
	url, ip, date, media string
	length               int64
}

// parseARC reads the line that begins a record. Some writers left spaces in URLs and media types;
// the date shows where the URL ends and the media type begins.
func parseARC(line string) (a arcLine, ok bool) {
	const least = 5
	fields := strings.Split(line, " ")
	last := len(fields) - 1
	if len(fields) < least {
		return a, false
	}
	var err error
	if a.length, err = strconv.ParseInt(fields[last], 10, 64); err != nil || a.length < 0 {
		return a, false
	}
	for n := 2; n < last; n++ {
		if !arcDate(fields[n]) {
			continue
		}
		a.url, a.ip, a.date = strings.Join(fields[:n-1], "%20"), fields[n-1], fields[n]
		a.media = strings.Join(mediaOfARC(fields[n+1:last]), " ")
		return a, strings.Contains(a.url, ":") && len(a.url)+len(a.media) < maxLine/2 // short enough to be in a header too
	}
	return a, false
}

// arcMore is the number of fields that version 2 has between media type and length: status,
// checksum, location, offset and file name. The block and the record's place tell the same.
const arcMore = 5

// mediaOfARC returns the media type's fields among those between date and length. It takes the
// version from the line itself, because the record that describes the file may be damaged.
func mediaOfARC(fields []string) []string {
	n := len(fields) - arcMore
	if n < 1 {
		return fields
	}
	status, offset := fields[n], fields[n+arcMore-2]
	_, err := strconv.ParseUint(offset, 10, 63)
	if _, serr := strconv.ParseUint(status, 10, 16); err != nil || serr != nil && status != "-" {
		return fields
	}
	return fields[:n]
}

// arcDate reports whether a field is a date: 14 digits, or 12 in the oldest files.
func arcDate(field string) bool {
	const old, full = len("199609231421"), len("19960923142103")
	if len(field) != old && len(field) != full {
		return false
	}
	return strings.Trim(field, "0123456789") == ""
}

// record returns the WARC record without its block. at is the line's offset in the inflated file.
func (a arcLine) record(at int64) *warcRecord {
	kind, mediaType := "resource", a.media
	switch scheme, _, _ := strings.Cut(strings.ToLower(a.url), ":"); scheme {
	case "http", "https":
		kind, mediaType = "response", "application/http; msgtype=response"
	case "dns":
		kind = "response"
	case strings.TrimSuffix(arcBegins, "://"):
		kind = "warcinfo"
	}
	if mediaType == "no-type" { // the server sent none
		mediaType = ""
	}
	r := &warcRecord{at: at, fields: make(textproto.MIMEHeader), length: a.length}
	var head bytes.Buffer
	head.WriteString("WARC/1.0\r\n")
	set := func(name, value string) {
		if value = strings.TrimSpace(strings.Map(printable, value)); value != "" {
			r.fields.Set(name, value)
			fmt.Fprintf(&head, "%s: %s\r\n", name, value)
		}
	}
	set("WARC-Type", kind)
	set("WARC-Record-ID", a.id(at))
	if kind == "warcinfo" {
		set("WARC-Filename", strings.TrimPrefix(a.url, arcBegins))
	} else {
		set("WARC-Target-URI", weburl.Bytes(a.url))
	}
	set("WARC-Date", a.time())
	if ip, err := netip.ParseAddr(a.ip); err == nil && !ip.IsUnspecified() {
		set("WARC-IP-Address", ip.String())
	}
	set("Content-Type", mediaType)
	set("Content-Length", strconv.FormatInt(a.length, 10))
	head.WriteString("\r\n")
	r.head = head.Bytes()
	return r
}

// time returns the date in the form of WARC-Date. If the field is no date, it returns the field.
func (a arcLine) time() string {
	const layout = "20060102150405"
	t, err := time.Parse(layout[:len(a.date)], a.date)
	if err != nil {
		return a.date
	}
	return t.Format(time.RFC3339)
}

// id makes an ID for the record, because an ARC has no IDs. It follows from the line and its place,
// so the same file gives the same IDs.
func (a arcLine) id(at int64) string {
	return archive.RecordID(fmt.Appendf(nil, "%d %v", at, a))
}
