package replay

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/weburl"
)

// Root is the path of stored pages: /web/<timestamp><mode>/<URL>.
const Root = "/web/"

// Mode says how to show a stored page.
type Mode string

// Modes. Other modes of web archives (im_, js_, cs_, fr_, mp_, oe_) are treated as Frame.
const (
	Plain Mode = ""    // rewritten, with a banner
	Frame Mode = "if_" // rewritten, for use within another page
	Bytes Mode = "id_" // the original bytes

	// TextOnly is the text of a page, without its markup.
	TextOnly Mode = "txt_"
)

// Address identifies one version of a page, or all its versions.
type Address struct {
	Period        // the given one; zero: the newest version
	Full   bool   // the Period is one second
	All    bool   // the list of versions, "*"
	Record string // name of a record of that second; empty: the record that stands for the page
	Mode   Mode
	URL    string // absolute, as weburl.URL.Bare returns it
}

// Period is what a timestamp means: a second, minute, hour, day, month or year.
type Period struct{ Since, Time time.Time } // its first and its last second

// Has reports whether a time is within the period.
func (p Period) Has(t time.Time) bool {
	return !t.Before(p.Since) && t.Before(p.Time.Add(time.Second))
}

// Errors of ParseAddress and ParseURL.
var (
	ErrTimestamp = errors.New("want 4 to 14 digits, yyyymmddhhmmss, or as many of them as are known")
	ErrURL       = errors.New("want the address of a page, such as http://www.example.jp/")
)

// ParseAddress parses what follows Root in a request: "20261121030000id_/http://host/?q". Without a
// timestamp it means the newest version. zone is the zone of a shortened timestamp, as in
// ParsePeriod.
func ParseAddress(s string, zone *time.Location) (Address, error) {
	var a Address
	first, rest, ok := strings.Cut(s, "/")
	first, record := cutRecord(first)
	if digits := leadingDigits(first); ok && isVersion(first, digits) {
		s, a.Record = rest, record
		stamp, mode := first[:digits], first[digits:]
		if a.All = mode == "*"; !a.All {
			a.Mode = readMode(mode)
		}
		if digits > 0 {
			var err error
			if a.Period, err = ParsePeriod(stamp, zone); err != nil {
				return Address{}, err
			}
			a.Full = digits == len(Layout)
		}
	}
	var err error
	a.URL, err = ParseURL(s)
	return a, err
}

// recordName is the length of a record's name, in hexadecimal digits.
const recordName = 8

// cutRecord takes the name of a record out of a version such as "20261121030000~01234567id_".
func cutRecord(version string) (rest, record string) {
	const begins = len(Layout) + len("~")
	if len(version) < begins+recordName || version[begins-1] != '~' || leadingDigits(version) != begins-1 {
		return version, ""
	}
	record = version[begins:][:recordName]
	if strings.Trim(record, "0123456789abcdef") != "" {
		return version, ""
	}
	return version[:begins-1] + version[begins+recordName:], record
}

func leadingDigits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// isVersion reports whether s is a version such as "2026id_", "id_" or "*", and not the name of a
// host.
func isVersion(s string, digits int) bool {
	switch tail := s[digits:]; len(tail) {
	case 0:
		return digits > 0
	case 1:
		return tail == "*"
	case len(TextOnly):
		return Mode(tail) == TextOnly
	case 3:
		return tail[2] == '_' && isLower(tail[0]) && isLower(tail[1])
	}
	return false
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	return c
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

func readMode(s string) Mode {
	switch Mode(s) {
	case Plain, Bytes, TextOnly:
		return Mode(s)
	}
	return Frame
}

// Layout is the layout of a complete timestamp.
const Layout = "20060102150405"

// Timestamp formats a time for a path.
func Timestamp(t time.Time) string { return t.UTC().Format(Layout) }

// ParsePeriod parses a timestamp of 4 to 14 digits. A timestamp of 14 digits is a second of UTC. A
// shorter one is a year, month, day, hour or minute in zone (nil: UTC); a last odd digit is
// ignored. A single 2 is the far future: the newest version.
func ParsePeriod(s string, zone *time.Location) (p Period, err error) {
	if s == "2" {
		s = "29991231235959"
	}
	if len(s) < 4 || len(s) > len(Layout) || leadingDigits(s) != len(s) {
		return Period{}, fmt.Errorf("timestamp %.20q: %w", s, ErrTimestamp)
	}
	digits := s[:len(s)&^1] // not half of a month or day
	if zone == nil || len(digits) == len(Layout) {
		zone = time.UTC
	}
	first, next, err := ParseDigits(digits, zone)
	if err != nil || first.Year() < 1 {
		return Period{}, fmt.Errorf("timestamp %.20q: %w", s, ErrTimestamp)
	}
	return Period{Since: first.UTC(), Time: next.Add(-time.Second).UTC()}, nil
}

// ParseDigits parses the first 4, 6, 8, 10, 12 or 14 digits of a timestamp: a year, month, day,
// hour, minute or second of a zone. It returns the beginnings of this period and of the next.
func ParseDigits(s string, zone *time.Location) (first, next time.Time, err error) {
	if first, err = time.ParseInLocation(Layout[:len(s)], s, zone); err != nil {
		return first, next, err
	}
	switch len(s) {
	case 4:
		next = first.AddDate(1, 0, 0)
	case 6:
		next = first.AddDate(0, 1, 0)
	case 8:
		next = first.AddDate(0, 0, 1)
	case 10:
		next = first.Add(time.Hour)
	case 12:
		next = first.Add(time.Minute)
	default:
		next = first.Add(time.Second)
	}
	return first, next, nil
}

// ParseURL parses the URL of a page from a request's path and query, in escaped form. The default
// scheme is http. A proxy may have replaced two slashes by one.
func ParseURL(s string) (string, error) {
	if len(s) > 3*weburl.MaxLength {
		return "", fmt.Errorf("URL of %d bytes: %w", len(s), ErrURL)
	}
	lower := strings.ToLower(s[:min(len(s), 16)])
	if strings.HasPrefix(lower, "http%3a") || strings.HasPrefix(lower, "https%3a") {
		s = weburl.Unescape(s)
		lower = strings.ToLower(s[:min(len(s), 16)])
	}
	for _, scheme := range []string{"http:", "https:"} {
		if strings.HasPrefix(lower, scheme) {
			s = scheme + "//" + strings.TrimLeft(s[len(scheme):], "/")
		}
	}
	if !strings.HasPrefix(lower, "http:") && !strings.HasPrefix(lower, "https:") {
		if scheme, rest, ok := strings.Cut(s, ":"); ok && !strings.Contains(scheme, "/") && strings.HasPrefix(rest, "/") {
			return "", fmt.Errorf("%.100q: %w", s, ErrURL) // another scheme, not a host with a port
		}
		s = "http://" + s
	}
	u, err := weburl.New(s, nil)
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("%.100q: %w", s, ErrURL)
	}
	return u.Bare(), nil
}

// Path returns the path of a version of a page.
func Path(t time.Time, mode Mode, url string) string {
	return Root + Timestamp(t) + string(mode) + "/" + InPath(url)
}

// RecordPath returns the path of one record of a page. Other records may be of the same second.
// Path returns the path of the record that stands for the page.
func RecordPath(t time.Time, record string, mode Mode, url string) string {
	return Root + Timestamp(t) + "~" + record + string(mode) + "/" + InPath(url)
}

// VersionsPath returns the path of the list of a page's versions.
func VersionsPath(url string) string { return Root + "*/" + InPath(url) }

// DiffPath returns the path of the page that compares two versions of a page.
func DiffPath(from, to time.Time, url string) string {
	return api.PathDiff + Timestamp(from) + "/" + Timestamp(to) + "/" + InPath(url)
}

// InPath returns a URL as it stands in the path of a request: a percent sign that begins no escape
// is escaped, as servers refuse such a path. The URL has the same key (naming.SURT) as before.
func InPath(url string) string {
	if !strings.Contains(url, "%") {
		return url
	}
	var b strings.Builder
	for i := range len(url) {
		b.WriteByte(url[i])
		if _, ok := weburl.Unhex(url[i:]); url[i] == '%' && !ok {
			b.WriteString("25")
		}
	}
	return b.String()
}
