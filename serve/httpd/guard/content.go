package guard

import (
	"context"
	"errors"
	"io"
	"sync"

	"sheaf/internal/stream"
	"sheaf/serve/library"
)

// content is an open file for http.ServeContent, which the kernel can send.
type content struct {
	stream.Content
	file *library.File
	ctx  context.Context // of the file
}

// ofFile returns the content of an open file.
func ofFile(ctx context.Context, f *library.File) *content {
	open := func(off, n int64) (io.ReadCloser, error) { return f.OpenRange(ctx, off, n) }
	return &content{stream.Content{Size: f.Size, Open: open}, f, ctx}
}

// copyBuffer is how many bytes at a time pass through the process if the kernel cannot send them.
const copyBuffer = 128 << 10

// sendStep is how many bytes are sent before the account's limits are looked at again.
const sendStep = 1 << 20

var buffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// sendTo sends the next n bytes of a file at the account's pace. The kernel sends bytes that lie in
// local files.
func (c *content) sendTo(w stream.Writer, n int64) (int64, error) {
	from, err := c.file.Extents(c.At(), n)
	switch {
	case err != nil:
		c.Fail(err)
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
	c.Skip(sent)
	if failed, ok := errors.AsType[*stream.SourceError](err); ok {
		c.Fail(failed.Err)
	}
	return sent, err
}
