package coding

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// A body in chunks is read as far as it goes, and what is in none is told from it.
func TestChunks(t *testing.T) {
	for _, c := range []struct {
		name, body, want string
		err              error
		found            bool
	}{
		{"whole", "3\r\none\r\n4\r\n two\r\n0\r\n\r\n", "one two", nil, true},
		{"empty", "0\r\n\r\n", "", nil, true},
		{"without the last line end", "3\r\none\r\n0\r\n", "one", nil, true},
		{"more line ends", "3\r\none\r\n000\r\n\r\n\r\n", "one", nil, true},
		{"trailer and extension", "3;x=y\r\none\r\n0\r\nX-Sum: 1\r\n\r\n", "one", nil, true},
		{"padded", " 003   \r\none\r\n0 \r\n\r\n", "one", nil, true},
		{"LF alone", "3\none\n4\n two\n0\n\n", "one two", nil, true},
		{"cut after a chunk", "3\r\none\r\n", "one", io.ErrUnexpectedEOF, true},
		{"cut before its line end", "3\r\none", "one", io.ErrUnexpectedEOF, true},
		{"cut in its line end", "3\r\none\r", "one", io.ErrUnexpectedEOF, true},
		{"cut in a size", "3\r\none\r\n1", "one", io.ErrUnexpectedEOF, true},
		{"cut in a chunk", "3\r\none\r\nff\r\n two", "one two", io.ErrUnexpectedEOF, true},
		{"cut in the first chunk", "ff\r\n<p>", "<p>", io.ErrUnexpectedEOF, true},
		{"damaged size", "3\r\none\r\nxyz\r\ntwo", "one", ErrChunk, true},
		{"damaged chunk", "3\r\none\r\n3\r\ntwotwo\r\n", "onetwo", ErrChunk, true},
		{"no chunks", "<html>\r\n", "", ErrChunk, false},
		{"a number", "0", "", io.ErrUnexpectedEOF, false},
		{"numbers", "12\n13\n", "13\n", io.ErrUnexpectedEOF, false},
		{"a negative size", "-3\r\none\r\n", "", ErrChunk, false},
		{"a line too long", strings.Repeat("0", 10_000) + "\r\n", "", ErrChunk, false},
		{"a size too large", "fffffffffffffffff\r\n", "", ErrChunk, false},
		{"nothing", "", "", io.ErrUnexpectedEOF, false},
	} {
		for _, in := range []io.Reader{strings.NewReader(c.body), iotest.OneByteReader(strings.NewReader(c.body))} {
			r := NewChunks(in)
			got, err := io.ReadAll(r)
			if string(got) != c.want || !errors.Is(err, c.err) || r.Found() != c.found {
				t.Errorf("%s: %q, %v, found %v", c.name, got, err, r.Found())
			}
		}
	}
}
