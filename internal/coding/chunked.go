package coding

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
)

// Chunks reads a body in the chunked transfer coding (RFC 9112, 7.1), as forgiving as browsers are:
// a line may end with LF alone, and a size may have spaces around it. It ends with io.EOF after the
// last chunk, with io.ErrUnexpectedEOF if the body ends before that, and with ErrChunk where
// something else than a chunk follows.
type Chunks struct {
	in    *bufio.Reader
	left  int64 // bytes of the chunk that are not read
	found bool
	crlf  bool // the last size ends with CRLF
	inOne bool // the line end of a chunk is to come
	err   error
}

// ErrChunk says that a body in chunks has something else where a chunk should begin or end.
var ErrChunk = errors.New("the body is not in chunks from here on")

// NewChunks returns a reader of the body in r.
func NewChunks(r io.Reader) *Chunks { return &Chunks{in: bufio.NewReader(r)} }

// Found reports whether the body, as far as it was read, is in chunks: the first one is whole, or
// the body ends within it.
func (c *Chunks) Found() bool { return c.found }

// Read implements io.Reader.
func (c *Chunks) Read(p []byte) (n int, err error) {
	for c.err == nil && c.left == 0 {
		c.err = c.next()
	}
	if c.err != nil {
		return 0, c.err
	}
	n, err = c.in.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	switch {
	case err == io.EOF:
		c.found = c.found || c.crlf // a number in a line of a text is hardly ended so
		c.err = io.ErrUnexpectedEOF
	case err != nil:
		c.err = err
	}
	return n, c.err
}

// next reads the end of a chunk and the size of the next one.
func (c *Chunks) next() error {
	if c.inOne {
		line, err := c.line()
		switch {
		case err == nil && line != "":
			return ErrChunk
		case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
			return err
		}
		c.found = true
	}
	line, err := c.line()
	if err != nil {
		return err
	}
	text, _, _ := strings.Cut(line, ";") // what follows is an extension
	size, err := strconv.ParseInt(strings.TrimSpace(text), 16, 64)
	if err != nil || size < 0 || strings.ContainsAny(text, "+_") {
		return ErrChunk
	}
	c.left, c.inOne = size, true
	if size == 0 {
		c.found = true
		return io.EOF
	}
	return nil
}

// line reads a line without its end.
func (c *Chunks) line() (string, error) {
	b, err := c.in.ReadSlice('\n')
	switch {
	case err == bufio.ErrBufferFull:
		return "", ErrChunk
	case err == io.EOF:
		return "", io.ErrUnexpectedEOF
	case err != nil:
		return "", err
	}
	line, crlf := strings.CutSuffix(string(b[:len(b)-1]), "\r")
	c.crlf = crlf
	return line, nil
}
