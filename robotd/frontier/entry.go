package frontier

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// Entry is one URL to fetch.
type Entry struct {
	URL       string // in canonical form: no blanks, no line ends
	Depth     int    // links from a seed
	Redirects int    // redirects in a row that led here
	Tries     int    // times that it was fetched in vain
}

func hash(s string) uint64 {
	sum := sha256.Sum256([]byte(s))
	return binary.BigEndian.Uint64(sum[:])
}

func (e Entry) fields() string {
	return fmt.Sprintf("%d %d %d %s", e.Depth, e.Redirects, e.Tries, e.URL)
}

// line is the entry in the log: a checksum, a blank and the fields.
func (e Entry) line() string { return checked(e.fields()) + "\n" }

// checked puts its checksum before a text.
func checked(text string) string {
	return fmt.Sprintf("%08x %s", crc32.ChecksumIEEE([]byte(text)), text)
}

// check takes the checksum off and reports whether it is the text's.
func check(line string) (text string, ok bool) {
	sum, text, _ := strings.Cut(line, " ")
	want, err := strconv.ParseUint(sum, 16, 32)
	return text, err == nil && len(sum) == 8 && uint32(want) == crc32.ChecksumIEEE([]byte(text))
}

func parseEntry(line string) (Entry, error) {
	text, ok := check(line)
	if !ok {
		return Entry{}, fmt.Errorf("log line %.200q is damaged", line)
	}
	return parseFields(text)
}

func parseFields(line string) (Entry, error) {
	f := strings.SplitN(line, " ", 4)
	if len(f) != 4 {
		return Entry{}, fmt.Errorf("log line %q has %d fields, want 4", line, len(f))
	}
	e := Entry{URL: f[3]}
	for i, p := range []*int{&e.Depth, &e.Redirects, &e.Tries} {
		n, err := strconv.Atoi(f[i])
		if err != nil {
			return Entry{}, fmt.Errorf("log line %q: %w", line, err)
		}
		*p = n
	}
	return e, nil
}

func checkURL(url string) error {
	if url == "" || strings.ContainsAny(url, " \t\r\n") {
		return fmt.Errorf("URL %q is empty or holds blanks: it is not canonical", url)
	}
	return nil
}
