package fetch

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"sheaf/archive"
	"sheaf/archive/deflate"
)

// Bodies are kept in memory up to maxInMemory each and maxOfAll together. Other bodies go to
// temporary files. Otherwise pages that wait for a busy processor would fill the memory as fast as
// ten thousand servers can send them.
const (
	maxInMemory = 256 << 10
	maxOfAll    = 8 << 20
)

// spool keeps a body in memory or in a temporary file, and computes its digest.
type spool struct {
	dir     string
	memory  *atomic.Int64 // bytes that all spools hold in memory
	buffers *buffers
	size    int64
	sum     hash.Hash // nil: there is none
	mem     []byte    // of buffers
	held    int64     // this spool's part of memory, in bytes
	file    *os.File
}

// newSpool returns a spool for a body of the expected size in bytes; negative: unknown.
func (f *Fetcher) newSpool(expected int64) *spool {
	s := &spool{dir: f.opt.TempDir, memory: f.memory, buffers: &f.buffers, sum: sha256.New()}
	if expected > 0 && expected <= maxInMemory {
		s.room(int(expected))
	}
	return s
}

// hold reserves memory for a total of n bytes, and reports whether there was enough.
func (s *spool) hold(n int64) bool {
	if s.memory.Add(n-s.held) > maxOfAll {
		s.memory.Add(s.held - n)
		return false
	}
	s.held = n
	return true
}

// room reports whether n more bytes may be kept in memory, and makes room for them.
func (s *spool) room(n int) bool {
	need := len(s.mem) + n
	if need <= cap(s.mem) {
		return true
	}
	size := bufferSize(max(need, min(2*cap(s.mem), maxInMemory)))
	if need > maxInMemory || !s.hold(int64(size)) {
		return false
	}
	larger := append(s.buffers.get(size), s.mem...)
	s.buffers.put(s.mem)
	s.mem = larger
	return true
}

func (s *spool) Write(p []byte) (n int, err error) {
	if s.file == nil && !s.room(len(p)) {
		if err := s.toFile(); err != nil {
			return 0, fmt.Errorf("the body's temporary file: %w", err)
		}
	}
	if s.file != nil {
		n, err = s.file.Write(p)
	} else {
		s.mem, n = append(s.mem, p...), len(p)
	}
	if s.sum != nil {
		s.sum.Write(p[:n])
	}
	s.size += int64(n)
	return n, err
}

func (s *spool) toFile() error {
	file, err := os.CreateTemp(s.dir, "body-*")
	if err != nil {
		return err
	}
	s.file = file
	if _, err := file.Write(s.mem); err != nil {
		return errors.Join(err, s.close())
	}
	s.letGo()
	return nil
}

func (s *spool) letGo() {
	s.buffers.put(s.mem)
	s.mem = nil
	s.memory.Add(-s.held)
	s.held = 0
}

func (s *spool) digest() string {
	return "sha256:" + base32.StdEncoding.EncodeToString(s.sum.Sum(nil))
}

func (s *spool) open() io.ReadSeekCloser {
	if s.file != nil {
		return nopCloser{io.NewSectionReader(s.file, 0, s.size)}
	}
	return nopCloser{bytes.NewReader(s.mem)}
}

func (s *spool) close() error {
	s.letGo()
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }

// buffers lends memory for bodies, in a few sizes. Returned buffers are kept for the next body, up
// to maxIdle bytes. A sync.Pool would drop them at every second garbage collection, and a robot
// with little memory has several collections a second.
type buffers struct {
	mu   sync.Mutex // guards all below
	free [len(bufferSizes)][][]byte
	idle int // bytes in free
}

// maxIdle is how many bytes of unused buffers are kept.
const maxIdle = 1 << 20

// bufferSizes are the sizes of buffers that are kept.
var bufferSizes = [...]int{4 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10, 48 << 10, 64 << 10}

// bufferSize returns the size of the smallest buffer for n bytes.
func bufferSize(n int) int {
	for _, size := range bufferSizes {
		if n <= size {
			return size
		}
	}
	return n
}

// get returns an empty buffer of a size that bufferSize returned.
func (b *buffers) get(size int) []byte {
	if i := slices.Index(bufferSizes[:], size); i >= 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		if last := len(b.free[i]) - 1; last >= 0 {
			buf := b.free[i][last]
			b.free[i][last] = nil
			b.free[i] = b.free[i][:last]
			b.idle -= size
			return buf
		}
	}
	return make([]byte, 0, size)
}

// put takes back a buffer that is no longer used.
func (b *buffers) put(buf []byte) {
	i := slices.Index(bufferSizes[:], cap(buf))
	if i < 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.idle+cap(buf) <= maxIdle {
		b.free[i] = append(b.free[i], buf[:0])
		b.idle += cap(buf)
	}
}

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
