package media

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"hash"
	"hash/adler32"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"sheaf/internal/stream"
)

// Body is a body without its content codings. If the body is not in a declared coding, Read returns
// its bytes as they are. If it ends too early, or grows too much between two codings, Read returns
// the bytes up to there, then io.ErrUnexpectedEOF.
type Body struct {
	Removed bool // the codings are decoded or not there, so Content-Encoding no longer applies

	out    io.Reader
	layers []*layer
}

// maxCodings limits the number of codings of one body. A body with more is not decoded.
const maxCodings = 2

// Between two codings there may be betweenGrace bytes, and betweenRatio bytes for each byte of the
// body. So the work is bounded by the size of the body, even if nothing comes out in the end.
const (
	betweenGrace = 16 << 20
	betweenRatio = 100
)

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// between passes on the bytes between two codings, up to the bound.
type between struct {
	counted
	body *counted
}

func (b *between) Read(p []byte) (int, error) {
	if b.n > betweenGrace+betweenRatio*b.body.n {
		return 0, io.ErrUnexpectedEOF
	}
	return b.counted.Read(p)
}

// Decode decodes the codings that the values of Content-Encoding name, the last one first. If a
// coding is unknown, nothing is decoded. Decode reads nothing before the first Read. Read returns
// the context's error soon after the context has ended, even while it decodes much without a
// result.
func Decode(ctx context.Context, r io.Reader, values []string) *Body {
	var codings []string
	for coding := range strings.SplitSeq(strings.ToLower(strings.Join(values, ",")), ",") {
		if coding = strings.TrimSpace(coding); coding != "" && coding != "identity" {
			codings = append(codings, coding)
		}
	}
	d := &Body{out: r}
	if len(codings) > maxCodings {
		return d
	}
	for _, coding := range codings {
		switch coding {
		case "gzip", "x-gzip", "deflate", "br", "zstd":
		default:
			return d
		}
	}
	body := &counted{Reader: stream.UntilDone(ctx, r)}
	d.out = body
	for i := len(codings) - 1; i >= 0; i-- {
		l := &layer{coding: codings[i], source: d.out}
		d.layers, d.out, d.Removed = append(d.layers, l), l, true
		if i > 0 {
			d.out = &between{counted{Reader: stream.UntilDone(ctx, l)}, body}
		}
	}
	d.out = stream.UntilDone(ctx, d.out)
	return d
}

func (d *Body) Read(p []byte) (int, error) { return d.out.Read(p) }

// Absent reports whether the body was not in a declared coding, and Read returned it as it is. A
// missing gzip coding does not count, because browsers accept that.
func (d *Body) Absent() bool {
	return slices.ContainsFunc(d.layers, func(l *layer) bool { return l.absent })
}

// Damaged reports whether a checksum in the body was wrong.
func (d *Body) Damaged() bool {
	return slices.ContainsFunc(d.layers, func(l *layer) bool { return l.damaged })
}

// Close releases the decoders. It does not close the reader given to Decode.
func (d *Body) Close() {
	for _, l := range d.layers {
		l.close()
	}
}

// layer decodes one coding of a body.
type layer struct {
	coding string
	source io.Reader
	failed error  // error of source
	sure   bool   // it is known whether the body is in the coding
	kept   []byte // all bytes from source, until the layer is sure

	absent, damaged bool // see Body

	out  io.Reader // nil: nothing was read yet
	zstd *zstd.Decoder
}

const (
	proof    = 256       // number of decoded bytes after which a body counts as being in its coding
	mostKept = 256 << 10 // limit for the bytes of a body that are kept until then
	empty    = 16        // longest encoding of an empty body, in bytes
)

func (l *layer) Read(p []byte) (int, error) {
	if l.out == nil {
		l.out = l.begin()
		l.sure, l.kept = true, nil
	}
	n, err := l.out.Read(p)
	if errors.Is(err, zstd.ErrCRCMismatch) {
		l.damaged, err = true, io.EOF
	}
	if err == io.EOF && l.failed != nil {
		err = l.failed
	}
	return n, err
}

func (l *layer) close() {
	if l.zstd != nil {
		l.zstd.Close()
	}
}

// raw reads the source of a layer.
type raw struct{ *layer }

func (r raw) Read(p []byte) (int, error) {
	n, err := r.source.Read(p)
	if !r.sure {
		r.kept = append(r.kept, p[:n]...)
		r.sure = len(r.kept) > mostKept
	}
	if err != nil && err != io.EOF {
		r.failed = err
	}
	return n, err
}

// begin returns a reader of the decoded body. If the first bytes cannot be decoded, it returns a
// reader of the body as it is.
func (l *layer) begin() io.Reader {
	in := bufio.NewReader(raw{l})
	magic, _ := in.Peek(2)                                       // an error is returned again by the next read
	if len(magic) < 2 && (len(magic) == 0 || l.coding != "br") { // the body is too short to be encoded
		return in
	}
	decoder, certain := l.decoder(in, magic)
	first := make([]byte, proof)
	n, err := 0, error(nil)
	for n < len(first) && err == nil {
		var k int
		k, err = decoder.Read(first[n:])
		n += k
	}
	decoded := io.MultiReader(bytes.NewReader(first[:n]), decoder)
	switch {
	case err == nil, certain && n > 0, l.sure, errors.Is(err, zstd.ErrCRCMismatch):
		return decoded
	case err == io.EOF && (certain || n > 0 || len(l.kept) <= empty):
		return decoded
	case (l.failed != nil || errors.Is(err, io.ErrUnexpectedEOF)) && (certain || !isText(l.kept)): // the body broke off
		return decoded
	}
	l.absent = true
	return io.MultiReader(bytes.NewReader(slices.Clip(l.kept)), l.rest())
}

// rest returns a reader of the source after the kept bytes.
func (l *layer) rest() io.Reader {
	if l.failed != nil {
		return Failing{l.failed}
	}
	return raw{l}
}

// Failing is a body that could not be read. Read returns Err.
type Failing struct{ Err error }

// Read implements io.Reader.
func (f Failing) Read([]byte) (int, error) { return 0, f.Err }

// isText reports whether a body looks like a text that is not encoded.
func isText(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c < '\t' || '\r' < c && c < ' ' && c != 0x1b })
}

// decoder returns a reader that decodes the layer's coding. certain is true for gzip: its first
// bytes show whether the body is in gzip. If it is not, the reader returns the body as it is.
func (l *layer) decoder(in *bufio.Reader, magic []byte) (decoder io.Reader, certain bool) {
	switch l.coding {
	case "br":
		return brotli.NewReader(in), false
	case "deflate":
		if magic[0]&15 == 8 && (uint(magic[0])<<8|uint(magic[1]))%31 == 0 {
			_, _ = in.Discard(len(magic))
			return &deflated{in: in, damaged: &l.damaged, sum: adler32.New()}, false
		}
		return flate.NewReader(in), false
	case "zstd":
		var err error
		l.zstd, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return Failing{err}, false
		}
		return l.zstd, false
	}
	if !isGzip(magic) {
		return in, true
	}
	return &deflated{in: in, damaged: &l.damaged, sum: crc32.NewIEEE(), gzip: true}, true
}

func isGzip(magic []byte) bool { return len(magic) > 1 && magic[0] == 0x1f && magic[1] == 0x8b }

// deflated decodes a deflated text with a checksum after it: gzip members one after another, or a
// zlib text whose header was read before. The checksum may be missing, as curl and wget allow. Like
// browsers, deflated ignores bytes after a gzip member that are not another member.
type deflated struct {
	in      *bufio.Reader
	damaged *bool // set if a checksum is wrong
	sum     hash.Hash32
	gzip    bool
	z       io.ReadCloser // reads the current member; nil: there is none
	spent   io.ReadCloser // reader of the member before; its memory is used for the next one
	over    bool
}

// Read implements io.Reader. It skips empty members: buffered readers give up after a hundred reads
// without a byte.
func (d *deflated) Read(p []byte) (n int, err error) {
	for n == 0 && err == nil && len(p) > 0 {
		n, err = d.read(p)
	}
	return n, err
}

// read reads from one member. At the member's end it may return neither bytes nor an error.
func (d *deflated) read(p []byte) (int, error) {
	if d.over {
		return 0, io.EOF
	}
	if d.z == nil {
		if d.gzip {
			if err := skipGzipHeader(d.in); err != nil {
				return 0, err
			}
		}
		if d.spent == nil {
			d.spent = flate.NewReader(d.in)
		} else if err := d.spent.(flate.Resetter).Reset(d.in, nil); err != nil {
			return 0, err
		}
		d.z = d.spent
		d.sum.Reset()
	}
	n, err := d.z.Read(p)
	d.sum.Write(p[:n])
	if err != io.EOF {
		return n, err
	}
	d.z = nil
	var tail [8]byte // CRC and size, or Adler-32
	k, _ := io.ReadFull(d.in, tail[:map[bool]int{true: 8, false: 4}[d.gzip]])
	sum := d.sum.Sum(nil)
	if d.gzip {
		slices.Reverse(sum)
	}
	if k >= len(sum) && !bytes.Equal(sum, tail[:len(sum)]) {
		*d.damaged = true
	}
	magic, _ := d.in.Peek(2)
	if d.over = !d.gzip || !isGzip(magic); d.over {
		return n, io.EOF
	}
	return n, nil
}

// Flags of a gzip header (RFC 1952).
const (
	flagSum = 1 << (iota + 1)
	flagExtra
	flagName
	flagComment
)

// skipGzipHeader reads the header of a gzip member.
func skipGzipHeader(in *bufio.Reader) error {
	var head [10]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return noEOF(err)
	}
	if !isGzip(head[:]) || head[2] != 8 {
		return errors.New("no header of gzip")
	}
	flags, err := head[3], error(nil)
	if flags&flagExtra != 0 {
		var size [2]byte
		if _, err = io.ReadFull(in, size[:]); err == nil {
			_, err = in.Discard(int(size[0]) | int(size[1])<<8)
		}
	}
	for _, text := range []byte{flagName, flagComment} {
		for c := byte(1); flags&text != 0 && c != 0 && err == nil; {
			c, err = in.ReadByte()
		}
	}
	if flags&flagSum != 0 && err == nil {
		_, err = in.Discard(2)
	}
	return noEOF(err)
}

// noEOF turns io.EOF into io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
