package library

import (
	"bufio"
	"net/url"
	"strings"
	"testing"
)

func TestLocation(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 301 Moved\r\nLocation: /there\r\n\r\n":                  "http://example.jp/there",
		"HTTP/1.0 308 Moved\r\nlocation: https://example.org/a?b\r\n\r\n": "https://example.org/a?b",
		"HTTP/1.1 301 Moved\r\n\r\n":                                      "",
		"HTTP/1.1 301 Moved\r\nLocation: http://[\r\n\r\n":                "",
		"no answer": "",
	} {
		if got := location(bufio.NewReader(strings.NewReader(answer)), "http://example.jp/a/b"); got != want {
			t.Errorf("%q leads to %q, want %q", answer, got, want)
		}
	}
}

// FuzzLocation: whatever a server answered, a target is a URL that can be read, or none.
func FuzzLocation(f *testing.F) {
	f.Add("HTTP/1.1 301 Moved\r\nLocation: ../there#x\r\n\r\n", "http://example.jp/a/b")
	f.Add("HTTP/1.1 301\r\nLocation: //[::1\r\n\r\n", "http://example.jp/%zz")
	f.Fuzz(func(t *testing.T, answer, page string) {
		to := location(bufio.NewReader(strings.NewReader(answer)), page)
		if _, err := url.Parse(to); err != nil {
			t.Errorf("%q of %q leads to %q: %v", answer, page, to, err)
		}
	})
}
