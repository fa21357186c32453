package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/idna"
)

// MaxListLine is the limit for a line of a host list, in bytes without its LF.
const MaxListLine = 8 << 10

// HostLine is one line of a host list, for P1 (assigned hosts) and P2 (found hosts). The list is
// gzip of lines "URL LF" or "URL HT RefererURL LF". Programs that have agreed on a third field add
// it (see HeaderAccept); the referer may then be empty.
type HostLine struct {
	URL      string // absolute, http or https, in the form of NormalizeURL
	Referer  string // page that links to URL; may be empty
	Share    Share  // only in P1: this robot's share of the host
	Depth    int    // links from the start URL of the host to this one
	Handover string // only in P1: ID of another robot's hand-over of the host; empty: none
	Wait     bool   // only in P1: the robot must not visit the host yet, because another robot may still visit it

	// Interval is the time between two visits to the host's address, if an operator has set it
	// because the host's owner allows or asks for it. Only in P1. Zero: the robot's own interval.
	Interval time.Duration

	// Shortest is the shortest interval while the server answers as quickly as usual, if the host's
	// owner allows it. Only in P1. Zero: Interval or, without one, the robot's setting.
	Shortest time.Duration

	// RunPages is how many pages one visit to the host fetches over one connection, if an operator
	// has set it because the host's owner allows it. Only in P1. Zero: the robot's setting.
	RunPages int

	// Omit is a path, perhaps with a query. The robot must leave out the host's URLs that begin
	// with it. Only in P1. A list has a line for each such path.
	Omit string
}

// MaxOmit is the limit for a HostLine's Omit, in bytes.
const MaxOmit = 2000

// Bounds for Interval and Shortest.
const (
	LeastInterval = 100 * time.Millisecond
	MostInterval  = 24 * time.Hour
)

// MostRunPages bounds RunPages.
const MostRunPages = 1000

// Append appends the line with its LF.
func (l HostLine) Append(dst []byte) []byte {
	dst = append(dst, l.URL...)
	extra := l.extra()
	if l.Referer != "" || extra != "" {
		dst = append(dst, '\t')
		dst = append(dst, l.Referer...)
	}
	if extra != "" {
		dst = append(dst, '\t')
		dst = append(dst, extra...)
	}
	return append(dst, '\n')
}

// ParseHostLine parses a line without its LF. A URL without a scheme, such as "www.etl.go.jp:80" in
// the paper, is taken as an http URL.
func ParseHostLine(line string) (HostLine, error) {
	if len(line) > MaxListLine {
		return HostLine{}, fmt.Errorf("longer than %d bytes", MaxListLine)
	}
	first, second, tab := strings.Cut(strings.TrimSuffix(line, "\r"), "\t")
	target, _, err := NormalizeURL(first)
	if err != nil {
		return HostLine{}, err
	}
	if !tab {
		return HostLine{URL: target}, nil
	}
	l := HostLine{URL: target}
	second, third, more := strings.Cut(second, "\t")
	if second != "" || !more {
		if l.Referer, _, err = NormalizeURL(second); err != nil {
			return HostLine{}, fmt.Errorf("referer: %w", err)
		}
	}
	return l, l.parseExtra(third)
}

// WriteHostList writes the lines as a gzip'd host list. The same lines yield the same bytes.
func WriteHostList(w io.Writer, lines iter.Seq[HostLine]) error { return writeGzip(w, lines) }

var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func writeGzip[L interface{ Append(dst []byte) []byte }](w io.Writer, lines iter.Seq[L]) error {
	z := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(z)
	z.Reset(w)
	var buf []byte
	for l := range lines {
		buf = l.Append(buf[:0])
		if _, err := z.Write(buf); err != nil {
			return err
		}
	}
	return z.Close()
}

// LineError says which line of a list or log is wrong, and why. Lines are counted from 1.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// ErrTooLarge says that a list or log inflates to more bytes than its reader allows.
var ErrTooLarge = errors.New("inflates to more than is allowed; send it in parts")

// ReadHostList reads a gzip'd host list that inflates to at most limit bytes. It stops at the first
// error, which is a *LineError if a line is wrong.
func ReadHostList(r io.Reader, limit int64) iter.Seq2[HostLine, error] {
	return readGzip(r, limit, MaxListLine, func(line string) (HostLine, bool, error) {
		l, err := ParseHostLine(line)
		return l, true, err
	})
}

// readGzip inflates r to at most limit bytes, and yields what parse makes of its lines, each at
// most maxLine bytes long. It skips lines for which parse returns false. It stops at the first
// error.
func readGzip[L any](r io.Reader, limit int64, maxLine int, parse func(line string) (L, bool, error)) iter.Seq2[L, error] {
	return func(yield func(L, error) bool) {
		var none L
		z, err := gzip.NewReader(r)
		if err != nil {
			yield(none, fmt.Errorf("not gzip: %w", err))
			return
		}
		defer z.Close()
		lines := bufio.NewScanner(&boundedReader{r: z, left: limit})
		lines.Buffer(make([]byte, 0, 4<<10), maxLine+2)
		n := 0
		for lines.Scan() {
			n++
			l, ok, err := parse(lines.Text())
			if err != nil {
				yield(none, &LineError{n, err})
				return
			}
			if ok && !yield(l, nil) {
				return
			}
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(none, &LineError{n + 1, fmt.Errorf("longer than %d bytes", maxLine)})
		case errors.Is(err, ErrTooLarge):
			yield(none, err)
		case err != nil:
			yield(none, fmt.Errorf("after line %d: %w", n, err))
		}
	}
}

// boundedReader is a reader that returns ErrTooLarge if r has more than left bytes.
type boundedReader struct {
	r    io.Reader
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if int64(n) > b.left {
		return 0, ErrTooLarge
	}
	b.left -= int64(n)
	return n, err
}

// NormalizeURL checks that the robots can visit s. It returns s in its normal form, and the name of
// its host. In normal form the scheme is http or https (http if s has none), the host is in lower
// case and IDNA form, there is no default port, the path is at least "/", and there is no fragment.
// A URL with credentials is an error.
func NormalizeURL(s string) (normal, host string, err error) {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return "", "", fmt.Errorf("%q is not a URL: byte %#02x in it", s, s[i])
		}
	}
	if s == "" {
		return "", "", errors.New("the URL is empty")
	}
	if i := strings.Index(s, "://"); i < 0 || i+1 != strings.IndexAny(s, "/?#") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return "", "", fmt.Errorf("%q is not a URL: %w", s, errors.Unwrap(err))
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", "", fmt.Errorf("%q: scheme %q is neither http nor https", s, u.Scheme)
	case u.User != nil:
		return "", "", fmt.Errorf("%q: a URL with credentials is not accepted", s)
	}
	host, err = HostName(u)
	if err != nil {
		return "", "", fmt.Errorf("%q: %w", s, err)
	}
	u.Host = host
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" {
		u.Path, u.RawPath = "/", ""
	}
	return u.String(), host, nil
}

// HostName returns the service's name for u's host: the authority in lower case and IDNA form,
// without the default port of u's scheme.
func HostName(u *url.URL) (string, error) {
	name, err := asciiHost(u.Hostname())
	if err != nil {
		return "", err
	}
	port := u.Port()
	if port == "" {
		return name, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", fmt.Errorf("port %q is not between 1 and 65535", port)
	}
	if u.Scheme == "http" && n == 80 || u.Scheme == "https" && n == 443 {
		return name, nil
	}
	return name + ":" + strconv.FormatUint(n, 10), nil
}

func asciiHost(name string) (string, error) {
	if name == "" {
		return "", errors.New("no host")
	}
	if strings.Contains(name, ":") { // IPv6, without its brackets
		ip, err := netip.ParseAddr(name)
		if err != nil || ip.Zone() != "" {
			return "", fmt.Errorf("host %q is not an IPv6 address", name)
		}
		return "[" + ip.String() + "]", nil
	}
	ascii := strings.ToLower(strings.TrimSuffix(name, "."))
	if strings.ContainsFunc(ascii, func(r rune) bool { return r >= 0x80 }) {
		var err error
		ascii, err = idna.New(idna.MapForLookup(), idna.StrictDomainName(false)).ToASCII(ascii)
		if err != nil {
			return "", fmt.Errorf("host %q: %w", name, err)
		}
	}
	if len(ascii) > 253 {
		return "", fmt.Errorf("host %q is longer than 253 bytes", name)
	}
	for label := range strings.SplitSeq(ascii, ".") {
		if label == "" || len(label) > 63 {
			return "", fmt.Errorf("host %q: label %q is not 1 to 63 bytes", name, label)
		}
		for _, c := range []byte(label) {
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return "", fmt.Errorf("host %q: %q cannot stand in a host's name", name, c)
			}
		}
	}
	return ascii, nil
}
