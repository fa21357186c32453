package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"sheaf/internal/stream"
	"sheaf/serve/library"
)

// Content is a file or a stored body for http.ServeContent. It opens nothing before the first Read.
// It is used by one goroutine at a time and must be closed.
type Content struct {
	Size int64
	// Open returns a reader of at least the n bytes from off on.
	Open func(off, n int64) (io.ReadCloser, error)
	// Forward says that each reader from Open begins at 0 and checks the body at its end. Read then
	// returns the end of a range only after it has read the rest of the body.
	Forward bool

	file *library.File   // the kernel can send it; nil: not a file
	ctx  context.Context // of the file

	pos     int64         // where the next Read begins
	body    io.ReadCloser // stands at bodyPos; may be nil
	bodyPos int64
	until   int64 // end of the range that is sent; 0: unknown
	err     error // why reading failed
}

// ofFile returns the content of an open file.
func ofFile(ctx context.Context, f *library.File) *Content {
	return &Content{Size: f.Size, file: f, ctx: ctx, Open: func(off, n int64) (io.ReadCloser, error) {
		return f.OpenRange(ctx, off, n)
	}}
}

// Begun gives c an open reader at the beginning of the content.
func (c *Content) Begun(body io.ReadCloser) { c.body = body }

// Err returns why reading failed, or nil if it did not.
func (c *Content) Err() error { return c.err }

// Seek implements io.Seeker.
func (c *Content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.pos
	case io.SeekEnd:
		offset += c.Size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek to %d, before the beginning", offset)
	}
	c.pos = offset
	return offset, nil
}

// Read implements io.Reader.
func (c *Content) Read(p []byte) (n int, err error) {
	if c.pos >= c.Size {
		return 0, io.EOF
	}
	defer func() {
		if err != nil && err != io.EOF {
			c.err = err
		}
	}()
	if err := c.place(); err != nil {
		return 0, err
	}
	n, err = c.body.Read(p[:min(int64(len(p)), c.Size-c.pos)])
	c.pos += int64(n)
	c.bodyPos = c.pos
	if errors.Is(err, io.EOF) && c.pos < c.Size {
		err = io.ErrUnexpectedEOF
	}
	if c.Forward && c.until > 0 && c.pos >= c.until && (err == nil || err == io.EOF) {
		if _, failed := io.Copy(io.Discard, c.body); failed != nil {
			n, err = 0, failed
		}
		c.bodyPos = c.Size
	}
	return n, err
}

// place makes body stand where the next Read begins.
func (c *Content) place() (err error) {
	if c.body != nil && c.bodyPos != c.pos && (!c.Forward || c.bodyPos > c.pos) {
		c.Close()
	}
	if c.body == nil {
		body, err := c.Open(c.pos, c.Size-c.pos)
		if err != nil {
			return err
		}
		c.body, c.bodyPos = body, c.pos
		if c.Forward {
			c.bodyPos = 0
		}
	}
	if skip := c.pos - c.bodyPos; skip > 0 {
		n, err := io.CopyN(io.Discard, c.body, skip)
		c.bodyPos += n
		return err
	}
	return nil
}

// Close closes the open reader, if any. A later Read opens another.
func (c *Content) Close() error {
	if c.body == nil {
		return nil
	}
	body := c.body
	c.body = nil
	return body.Close()
}

// copyBuffer is how many bytes at a time pass through the process if the kernel cannot send them.
const copyBuffer = 128 << 10

// sendStep is how many bytes are sent before the account's limits are looked at again.
const sendStep = 1 << 20

var buffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// sendTo sends the next n bytes of a file at the account's pace. The kernel sends bytes that lie in
// local files.
func (c *Content) sendTo(w stream.Writer, n int64) (int64, error) {
	from, err := c.file.Extents(c.pos, n)
	switch {
	case err != nil:
		c.err = err
		return 0, err
	case from == nil && n == 0: // a file may be empty
		return 0, nil
	case from == nil:
		buf := buffers.Get().(*[copyBuffer]byte)
		defer buffers.Put(buf)
		return io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(c, n), buf[:])
	}
	defer from.Close()
	sent, err := stream.Send(c.ctx, w, from, func(ctx context.Context, n int64) (int64, error) { return c.file.Pace(ctx, min(n, sendStep)) })
	c.pos += sent
	if failed, ok := errors.AsType[*stream.SourceError](err); ok {
		c.err = failed.Err
	}
	return sent, err
}
