package fetch

import (
	"errors"
	"fmt"
	"io"

	"sheaf/archive"
	"sheaf/archive/deflate"
)

// Packed receives the deflated body of a page that another machine has fetched.
type Packed struct {
	body *spool
	most int64
}

// ErrTooLong is why Packed refuses bytes: no body of the fetcher deflates to so many.
var ErrTooLong = errors.New("more bytes than a page may have")

// NewPacked returns an empty body. Unpack or Close must be called.
func (f *Fetcher) NewPacked() *Packed {
	body := f.newSpool(-1)
	body.sum = nil
	return &Packed{body, f.opt.MaxBody + f.opt.MaxBody>>10 + 1<<10} // at worst, blocks store 64 KiB with 5 bytes more
}

func (p *Packed) Write(b []byte) (int, error) {
	if p.body.size+int64(len(b)) > p.most {
		return 0, ErrTooLong
	}
	return p.body.Write(b)
}

// Close drops what has come.
func (p *Packed) Close() error { return p.body.close() }

// Unpack completes the response of another machine with its body. It verifies that the body has the
// response's size and digest. After an error, the response has no body.
func (f *Fetcher) Unpack(resp *Response, p *Packed) error {
	if resp.Size < 0 || resp.Size > f.opt.MaxBody {
		return errors.Join(ErrTooLong, p.Close())
	}
	resp.body, resp.packed = f.newSpool(resp.Size), p.body
	inflater := f.inflate.Get().(*deflate.Inflater)
	defer f.inflate.Put(inflater)
	err := inflater.Inflate(&exactly{resp.body, resp.Size}, p.body.open())
	switch got := resp.body.digest(); {
	case err != nil:
	case resp.body.size != resp.Size:
		err = fmt.Errorf("the body has %d bytes, not %d", resp.body.size, resp.Size)
	case got != resp.Digest:
		err = fmt.Errorf("the body's digest is %s, not %.100q", got, resp.Digest)
	}
	if err != nil {
		err = errors.Join(err, resp.Close())
		resp.body, resp.packed = nil, nil
	}
	return err
}

// exactly passes on a given number of bytes, and refuses more.
type exactly struct {
	to   io.Writer
	left int64
}

func (e *exactly) Write(b []byte) (int, error) {
	if e.left -= int64(len(b)); e.left < 0 {
		return 0, ErrTooLong
	}
	return e.to.Write(b)
}

// Deflated returns the body as another machine has deflated it; nil: it was fetched here.
func (r *Response) Deflated() *archive.Deflated {
	if r.packed == nil {
		return nil
	}
	return &archive.Deflated{Blocks: r.packed.open(), Size: r.packed.size, Body: r.Size}
}
