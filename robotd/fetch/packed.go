package fetch

import (
	"errors"
	"fmt"
	"io"

	"sheaf/archive"
	"sheaf/archive/deflate"
)

// packedBody receives the deflated body of a page that another machine has fetched.
type packedBody struct {
	atMost
	body *spool
}

// errTooLong is why a packedBody refuses bytes: no body of the fetcher deflates to so many.
var errTooLong = errors.New("more bytes than a page may have")

// newPacked returns an empty body. unpack or Close must be called.
func (f *Fetcher) newPacked() *packedBody {
	body := f.newSpool(-1)
	body.sum = nil
	return &packedBody{atMost{body, f.opt.MaxBody + f.opt.MaxBody>>10 + 1<<10}, body} // at worst, blocks store 64 KiB with 5 bytes more
}

// Close drops what has come.
func (p *packedBody) Close() error { return p.body.close() }

// unpack completes the response of another machine with its body. It verifies that the body has the
// response's size and digest. After an error, the response has no body.
func (f *Fetcher) unpack(resp *Response, p *packedBody) error {
	if resp.Size < 0 || resp.Size > f.opt.MaxBody {
		return errors.Join(errTooLong, p.Close())
	}
	resp.body, resp.packed = f.newSpool(resp.Size), p.body
	inflater := f.inflate.Get().(*deflate.Inflater)
	defer f.inflate.Put(inflater)
	err := inflater.Inflate(&atMost{resp.body, resp.Size}, p.body.open())
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

// atMost passes on a number of bytes, and refuses more.
type atMost struct {
	to   io.Writer
	left int64
}

func (e *atMost) Write(b []byte) (int, error) {
	if e.left -= int64(len(b)); e.left < 0 {
		return 0, errTooLong
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
