package stream

import (
	"errors"
	"fmt"
	"io"
)

// Content makes bytes that can be opened anywhere an io.ReadSeekCloser, such as http.ServeContent
// takes. It opens nothing before the first Read. It is used by one goroutine at a time and must be
// closed.
type Content struct {
	Size int64
	// Open returns a reader of at least the n bytes from off on.
	Open func(off, n int64) (io.ReadCloser, error)
	// Forward says that each reader from Open begins at 0 and checks the content at its end. Read
	// then returns the end of what Until names only after it has read the rest of the content.
	Forward bool

	at     int64         // where the next Read begins
	body   io.ReadCloser // stands at bodyAt; may be nil
	bodyAt int64
	until  int64 // end of the range that is read; 0: unknown
	err    error // why reading failed
}

// Begun gives c an open reader at the beginning of the content.
func (c *Content) Begun(body io.ReadCloser) { c.body = body }

// At returns where the next Read begins.
func (c *Content) At() int64 { return c.at }

// Skip passes over n bytes that were read in another way.
func (c *Content) Skip(n int64) { c.at += n }

// Until says that the next n bytes are a range, behind which nothing is read.
func (c *Content) Until(n int64) { c.until = c.at + n }

// Err returns why reading failed, or nil if it did not.
func (c *Content) Err() error { return c.err }

// Fail notes why reading in another way failed.
func (c *Content) Fail(err error) { c.err = err }

// Seek implements io.Seeker.
func (c *Content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.Size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek to %d, before the beginning", offset)
	}
	c.at = offset
	return offset, nil
}

// Read implements io.Reader.
func (c *Content) Read(p []byte) (n int, err error) {
	if c.at >= c.Size {
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
	n, err = c.body.Read(p[:min(int64(len(p)), c.Size-c.at)])
	c.at += int64(n)
	c.bodyAt = c.at
	if errors.Is(err, io.EOF) && c.at < c.Size {
		err = io.ErrUnexpectedEOF
	}
	if c.Forward && c.until > 0 && c.at >= c.until && (err == nil || err == io.EOF) {
		if _, failed := io.Copy(io.Discard, c.body); failed != nil {
			n, err = 0, failed
		}
		c.bodyAt = c.Size
	}
	return n, err
}

// place makes body stand where the next Read begins.
func (c *Content) place() (err error) {
	if c.body != nil && c.bodyAt != c.at && (!c.Forward || c.bodyAt > c.at) {
		c.Close()
	}
	if c.body == nil {
		body, err := c.Open(c.at, c.Size-c.at)
		if err != nil {
			return err
		}
		c.body, c.bodyAt = body, c.at
		if c.Forward {
			c.bodyAt = 0
		}
	}
	if skip := c.at - c.bodyAt; skip > 0 {
		n, err := io.CopyN(io.Discard, c.body, skip)
		c.bodyAt += n
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
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
