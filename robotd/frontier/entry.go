package frontier

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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

func (e Entry) line() string {
	return fmt.Sprintf("%d %d %d %s\n", e.Depth, e.Redirects, e.Tries, e.URL)
}

func parseEntry(line string) (Entry, error) {
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
