package frontier

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// Entry is one URL to fetch.
type Entry struct {
	URL       string // canonical: absolute, without spaces and line ends
	Depth     int    // links from a seed
	Links     int    // links to it, about; only for pages of earlier cycles that were never visited
	Redirects int    // redirects in a row that led to it
	Tries     int    // failed fetches
	First     bool   // from PushFirst; not stored in the log
}

func hash(url string) uint64 {
	sum := sha256.Sum256([]byte(url))
	return binary.BigEndian.Uint64(sum[:])
}

// sumLength is the length of a checksum in characters.
const sumLength = 6

func checksum(text []byte) (letters [sumLength]byte) {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE(text))
	base64.RawURLEncoding.Encode(letters[:], sum[:])
	return letters
}

// checked returns the text with its checksum before it.
func checked(text string) string {
	sum := checksum([]byte(text))
	return string(sum[:]) + text
}

// check returns the text after the checksum, and whether the checksum is right.
func check(line []byte) (text []byte, ok bool) {
	if len(line) < sumLength {
		return nil, false
	}
	text = line[sumLength:]
	return text, checksum(text) == [sumLength]byte(line)
}

// A log line is: the checksum of the rest; depth, redirects and tries as ",2,1", the last two only
// if one is not 0; a space; the URL. Of a URL on the log's own host only the path is written,
// preceded by "s" for https, since most lines would repeat the host.

func (e Entry) append(b []byte, host string) []byte {
	start := len(b)
	b = append(b, "......"...)
	b = strconv.AppendInt(b, int64(e.Depth), 10)
	if e.Redirects != 0 || e.Tries != 0 {
		b = fmt.Appendf(b, ",%d,%d", e.Redirects, e.Tries)
	}
	b = append(b, ' ')
	b = append(b, shorten(e.URL, host)...)
	sum := checksum(b[start+sumLength:])
	copy(b[start:], sum[:])
	return append(b, '\n')
}

func shorten(url, host string) string {
	for _, kind := range []struct{ scheme, short string }{{"http://", ""}, {"https://", "s"}} {
		rest, ok := strings.CutPrefix(url, kind.scheme)
		if path, own := strings.CutPrefix(rest, host); ok && own && strings.HasPrefix(path, "/") {
			return kind.short + path
		}
	}
	return url
}

// appendURL appends the full URL for the result of shorten.
func appendURL(b, short []byte, host string) []byte {
	switch {
	case bytes.HasPrefix(short, []byte("/")):
		return append(append(append(b, "http://"...), host...), short...)
	case bytes.HasPrefix(short, []byte("s/")):
		return append(append(append(b, "https://"...), host...), short[1:]...)
	}
	return append(b, short...)
}

// splitLine checks a log line, without its line end, and splits it.
func splitLine(line []byte) (numbers, short []byte, ok bool) {
	text, ok := check(line)
	if !ok {
		return nil, nil, false
	}
	return bytes.Cut(text, []byte(" "))
}

func parseEntry(line []byte, host string) (Entry, error) {
	numbers, short, ok := splitLine(line)
	if !ok {
		return Entry{}, fmt.Errorf("log line %.200q is damaged", line)
	}
	e := Entry{URL: string(appendURL(nil, short, host))}
	into := []*int{&e.Depth, &e.Redirects, &e.Tries}
	for i, text := range strings.Split(string(numbers), ",") {
		n, err := strconv.Atoi(text)
		if err != nil || i >= len(into) {
			return Entry{}, fmt.Errorf("log line %.200q: %q are not its numbers", line, numbers)
		}
		*into[i] = n
	}
	return e, nil
}

func checkURL(url string) error {
	if strings.ContainsAny(url, " \t\r\n") || !strings.Contains(url, "://") {
		return fmt.Errorf("URL %q is not absolute or holds blanks: it is not canonical", url)
	}
	return nil
}

// Cell is a complete cell in a host's open segment.
type Cell struct {
	URL   string
	End   int64 // offset after it
	Visit Visit // of a page whose cell is a full copy; for Rebuild
	Again bool  // the page linked to others, which may be lost: Rebuild queues it again
}
