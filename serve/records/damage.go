package records

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"

	"sheaf/archive"
)

// DamageError says that stored bytes are not those that the index describes. The record must not be
// shown.
type DamageError struct {
	Object string // in the store
	Offset int64  // of the record's cell in the object, in bytes
	URL    string
	Err    error // what is different

	again bool // the record now comes from the copy of the store
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("object %s is damaged: record of %.200s at offset %d: %v", e.Object, e.URL, e.Offset, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// wholeFirst is the size, in bytes, up to which Response checks a body before it returns.
const wholeFirst = 1 << 20

// damage logs and counts a damaged record, and returns the error for it. If the store itself
// failed, it only returns that error: the bytes may be good.
func (c *Capture) damage(ctx context.Context, from *storedRecord, err error) error {
	if from.err != nil {
		return fmt.Errorf("read record of %.200s: %w", c.URL, from.err)
	}
	records := c.finder.records
	e := &DamageError{Object: c.Segment.Object, Offset: c.Segment.Offset + c.Offset, URL: c.URL, Err: err, again: records.archive.Segments.Doubt(*c.Segment)}
	records.damaged.Add(1)
	text := "stored record is damaged: not shown; run sheaf fsck --deep"
	if e.again {
		text = "stored record is damaged: the segment comes from the copy now"
	}
	records.archive.Log.ErrorContext(ctx, text, "object", e.Object, "offset", e.Offset,
		"url", e.URL, "segment", c.Segment.SHA256, "err", err)
	return e
}

// storedRecord reads a record from the store. It keeps the store's own error, and computes the
// CRC-32 of what was read.
type storedRecord struct {
	io.ReadCloser
	crc uint32
	err error
}

func (s *storedRecord) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.crc = crc32.Update(s.crc, crc32.IEEETable, p[:n])
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// read opens the stored record and calls open, whose answer has the record as its body, or a part
// of it. An error of open says that the record is damaged, unless the store itself has failed. If
// the segment of a damaged record comes from the store's copy from now on, read begins once more.
func (c *Capture) read(ctx context.Context, open func(*storedRecord) (*Response, error)) (*Response, error) {
	r, err := c.readOnce(ctx, open)
	if damage, ok := errors.AsType[*DamageError](err); ok && damage.again {
		return c.readOnce(ctx, open)
	}
	return r, err
}

func (c *Capture) readOnce(ctx context.Context, open func(*storedRecord) (*Response, error)) (*Response, error) {
	record, err := c.Record(ctx)
	if err != nil {
		return nil, err
	}
	from := &storedRecord{ReadCloser: record}
	r, err := open(from)
	if err != nil {
		record.Close()
		return nil, c.damage(ctx, from, err)
	}
	return r, nil
}

// whole opens a record up to its body, or all of it if the body is short.
func (c *Capture) whole(ctx context.Context, from *storedRecord) (*Response, error) {
	in := unzippers.Get().(*unzipper)
	r, err := in.response(from)
	if err == nil && c.Kind.HasFile() && r.Size != c.BodyLen {
		err = c.otherSize(r)
	}
	if err != nil {
		return nil, err
	}
	b := &checkedBody{ctx: ctx, capture: c, from: from, in: in.text, payload: sha256.New(), left: r.Size}
	r.Body = b
	if r.Size > wholeFirst {
		return r, nil
	}
	body := newBuffer(r.Size)
	if _, err := io.ReadFull(in.text, body.bytes); err != nil {
		return nil, err
	}
	b.payload.Write(body.bytes)
	if err := b.check(); err != nil {
		return nil, err
	}
	r.Body = body.body(0, r.Size, from)
	unzippers.Put(in)
	return r, nil
}

// unzipper decompresses records. Its buffers are used again: they are larger than most pages.
type unzipper struct {
	gzip gzip.Reader
	text *bufio.Reader // of the decompressed record
}

var unzippers = sync.Pool{New: func() any { return &unzipper{text: bufio.NewReaderSize(nil, 16<<10)} }}

// response reads a record up to its body.
func (u *unzipper) response(from io.Reader) (*Response, error) {
	if err := u.gzip.Reset(from); err != nil {
		return nil, err
	}
	u.text.Reset(&u.gzip)
	return readResponse(u.text)
}

// buffer holds bytes of a record. It is used again when its body is closed.
type buffer struct{ bytes []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// largeBuffer is the size above which a buffer is not used again, in bytes.
const largeBuffer = 128 << 10

// newBuffer returns a buffer of n bytes with any content.
func newBuffer(n int64) *buffer {
	b := buffers.Get().(*buffer)
	if int64(cap(b.bytes)) < n {
		b.bytes = make([]byte, n)
	}
	b.bytes = b.bytes[:n]
	return b
}

// body returns the n bytes from off, which were checked, as a body. Closing it closes record.
func (b *buffer) body(off, n int64, record io.Closer) io.ReadCloser {
	return &wholeBody{bytes.NewReader(b.bytes[off : off+n]), b, record}
}

// wholeBody is a body that is in memory and was checked.
type wholeBody struct {
	*bytes.Reader
	buffer *buffer // nil: it is closed
	record io.Closer
}

// Close closes the record and gives the buffer back. Later reads find no bytes.
func (b *wholeBody) Close() error {
	if b.buffer == nil {
		return nil
	}
	if b.Reset(nil); cap(b.buffer.bytes) <= largeBuffer {
		buffers.Put(b.buffer)
	}
	b.buffer = nil
	return b.record.Close()
}

// checkedBody reads a record's body. It returns the last bytes only after the whole record was
// found to be what the index says, so nobody gets a damaged body completely.
type checkedBody struct {
	ctx     context.Context
	capture *Capture
	from    *storedRecord
	in      io.Reader // of the body, and of what is behind it in the record
	payload hash.Hash // of the body; nil: its digest is not compared
	left    int64     // bytes of the body that are still to be read
	err     error
}

// Read reads the body. It checks the record before it returns the last bytes.
func (b *checkedBody) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case b.left == 0:
		return 0, io.EOF
	}
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	if b.payload != nil {
		b.payload.Write(p[:n])
	}
	b.left -= int64(n)
	switch {
	case b.left == 0 && (err == nil || err == io.EOF):
		err = b.check()
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		b.err = b.capture.damage(b.ctx, b.from, err)
		return 0, b.err
	}
	return n, nil
}

// check reads the rest of the record behind the body and compares the record with the index.
func (b *checkedBody) check() error {
	c := b.capture
	if _, err := io.Copy(io.Discard, b.in); err != nil {
		return err
	}
	if b.from.crc != c.RecordCRC {
		return c.otherCRC(b.from)
	}
	if b.payload == nil {
		return nil
	}
	if got := "sha256:" + base32.StdEncoding.EncodeToString(b.payload.Sum(nil)); got != c.Digest {
		return fmt.Errorf("the body's digest is %s, the index says %s", got, c.Digest)
	}
	return nil
}

// Close closes the stored record, whether it was checked or not.
func (b *checkedBody) Close() error { return b.from.Close() }

// otherCRC returns the error for a record with a wrong checksum.
func (c *Capture) otherCRC(from *storedRecord) error {
	return fmt.Errorf("the stored record's CRC-32 is %08x, the index says %08x", from.crc, c.RecordCRC)
}

// otherSize returns the error for a record whose body has a wrong length.
func (c *Capture) otherSize(r *Response) error {
	return fmt.Errorf("a body of %d bytes, the index says %d", r.Size, c.BodyLen)
}

// InGzip is Response with the page's body as it is stored, in gzip: the bytes of Body's view. It
// fails with library.ErrNotFound if the record has no stored page. It inflates only the headers. A
// body of up to 1 MiB in gzip is checked at once, a longer one before its last bytes are returned.
// The check compares the stored record's CRC-32 with the index. The client checks what it inflates
// by the CRC-32 at the end.
func (c *Capture) InGzip(ctx context.Context) (*Response, error) {
	if c.Original != nil {
		return c.answerOf(ctx, (*Capture).InGzip)
	}
	view, err := c.Body()
	if err != nil {
		return nil, err
	}
	return c.read(ctx, func(from *storedRecord) (*Response, error) { return c.openGzip(ctx, from, view) })
}

// openGzip reads a stored record up to its body's blocks, or all of it if the body is short.
func (c *Capture) openGzip(ctx context.Context, from *storedRecord, view *archive.PageView) (*Response, error) {
	n := c.HeadLen
	if view.Size() <= wholeFirst {
		n = c.WARCLength()
	}
	record := newBuffer(n)
	if _, err := io.ReadFull(from, record.bytes); err != nil {
		return nil, err
	}
	if n > c.HeadLen && from.crc != c.RecordCRC {
		return nil, c.otherCRC(from)
	}
	in := unzippers.Get().(*unzipper)
	defer unzippers.Put(in)
	r, err := in.response(bytes.NewReader(record.bytes[:c.HeadLen]))
	if err == nil && r.Size != c.BodyLen {
		err = c.otherSize(r)
	}
	if err != nil {
		return nil, err
	}
	start, end := view.Frame()
	r.Size, r.Gzip = view.Size(), true
	blocks := r.Size - int64(len(start)+len(end))
	if n == c.HeadLen {
		b := &checkedBody{ctx: ctx, capture: c, from: from, in: from, left: blocks}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(start), b, bytes.NewReader(end)), b}
		return r, nil
	}
	// What is before and behind the blocks is longer than what replaces it.
	at := c.HeadLen - int64(len(start))
	copy(record.bytes[at:], start)
	copy(record.bytes[c.HeadLen+blocks:], end)
	r.Body = record.body(at, r.Size, from)
	return r, nil
}
