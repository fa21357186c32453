package media

import (
	"bufio"
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
		{"a size too large", "fffffffffffffffff\r\n<p>", "<p>", io.ErrUnexpectedEOF, true},
		{"no line end after a chunk", "3\r\none4\r\n two0\r\n\r\n", "one two", nil, true},
		{"0x", "0x3\r\none\r\n0\r\n\r\n", "one", nil, true},
		{"an empty line first", "\r\n3\r\none\r\n0\r\n\r\n", "one", nil, true},
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

// A body that does not begin with a chunk stays where it is, and what follows the last chunk is
// taken if asked for.
func TestAroundChunks(t *testing.T) {
	for body, plain := range map[string]bool{"<p>page": true, "page": true, "  <p>": true, "abcd-": true, "12 pages": false, "": false} {
		in := bufio.NewReader(strings.NewReader(body))
		c := NewChunks(in)
		_, err := io.ReadAll(c)
		if left, _ := io.ReadAll(in); c.Plain() != plain || plain && string(left) != body || err == nil {
			t.Errorf("%q: plain %v, %v, %q is left", body, c.Plain(), err, left)
		}
	}
	for after, over := range map[string]bool{"\r\nnext": true, "A: b\nC: d\n\nnext": true, "": false, "A: b\r\n": false} {
		in := bufio.NewReader(strings.NewReader("3\r\none\r\n0\r\n" + after))
		c := NewChunks(in)
		if early := c.Over(); early {
			t.Error("a body is over before it was read")
		}
		_, err := io.ReadAll(c)
		if err != nil || c.Over() != over {
			t.Errorf("%q: %v; want it over: %v", after, err, over)
		}
		if left, _ := io.ReadAll(in); over && string(left) != "next" {
			t.Errorf("%q: %q is left", after, left)
		}
	}
}
