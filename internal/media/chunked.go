package media

import (
	"bufio"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
)

// Chunks reads a body in the chunked transfer coding (RFC 9112, 7.1). It is as forgiving as curl
// and wget: a line may end with LF alone, a size may have spaces around it or 0x before it, and the
// line end behind a chunk may be missing. Read returns io.EOF after the last chunk,
// io.ErrUnexpectedEOF if the body ends before the last chunk, and ErrChunk if something else than a
// chunk follows.
type Chunks struct {
	in    *bufio.Reader
	left  int64 // bytes of the chunk that are not read yet
	found bool
	plain bool
	crlf  bool // the last size ends with CRLF
	inOne bool // a chunk was read, so its line end comes next
	begun bool
	err   error
}

// ErrChunk says that the body has other bytes at a place where a chunk should begin or end.
var ErrChunk = errors.New("the body is not in chunks from here on")

// NewChunks returns a reader of the body in r. If r is a bufio.Reader with a buffer of 4 KiB or
// more, Chunks takes only the chunks from it.
func NewChunks(r io.Reader) *Chunks { return &Chunks{in: bufio.NewReader(r)} }

// Found reports whether the body read so far is in chunks: its first chunk is whole, or the body
// ends within a chunk after a size with CRLF.
func (c *Chunks) Found() bool { return c.found }

// Plain reports whether the body does not begin with a chunk. Then Chunks has taken nothing from
// it.
func (c *Chunks) Plain() bool { return c.plain }

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
		c.found = c.found || c.crlf // a line of a plain text hardly consists of a number and CRLF
		c.err = io.ErrUnexpectedEOF
	case err != nil:
		c.err = err
	}
	return n, c.err
}

// next reads the end of a chunk and the size of the next one.
func (c *Chunks) next() error {
	if !c.begun && !c.beginsChunk() {
		c.plain = true
		return ErrChunk
	}
	c.begun = true
	line, err := c.line()
	if c.inOne && (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) {
		c.found = true
	}
	if err == nil && line == "" { // the line end behind the chunk before
		line, err = c.line()
	}
	if err != nil {
		return err
	}
	size, ok := chunkSize(line)
	if !ok {
		return ErrChunk
	}
	c.left, c.inOne = size, true
	if size == 0 {
		c.found = true
		return io.EOF
	}
	return nil
}

const (
	hexDigits = "0123456789abcdefABCDEF"
	spaces    = " \t\r\n"
)

// beginsChunk reports whether the body begins with the line of a chunk, or ends within such a line.
func (c *Chunks) beginsChunk() bool {
	const most = 32 // bytes of a line that suffice to decide
	digits := 0
	for n := range most {
		start, err := c.in.Peek(n + 1)
		if err != nil {
			return true // the body ends or breaks off here
		}
		switch at := start[n]; {
		case strings.IndexByte(hexDigits, at) >= 0, digits == 1 && at|0x20 == 'x':
			digits++
		case digits > 0 || strings.IndexByte(spaces, at) < 0:
			return digits > 0 && strings.IndexByte(spaces+";", at) >= 0
		}
	}
	return digits > 0
}

// chunkSize parses the line before a chunk. For a number that is too large it returns a size longer
// than any body.
func chunkSize(line string) (size int64, ok bool) {
	text, _, _ := strings.Cut(line, ";") // extensions follow the semicolon
	text = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(text)), "0x")
	if text == "" || strings.Trim(text, hexDigits) != "" {
		return 0, false
	}
	size, err := strconv.ParseInt(text, 16, 64)
	if err != nil {
		size = math.MaxInt64
	}
	return size, true
}

// Over reads the trailer after the last chunk, up to an empty line. It returns true if that line
// has come, so that the next byte no longer belongs to the body.
func (c *Chunks) Over() bool {
	const most = 100 // lines
	for range most {
		if c.err != io.EOF {
			break
		}
		line, err := c.line()
		if line == "" || err != nil {
			return err == nil
		}
	}
	return false
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
