// Package coding decodes the content codings of HTTP bodies (RFC 9110, 8.4), for the robot and for
// the import of foreign files. It is as forgiving as browsers are, because servers often declare
// wrong codings.
package coding

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Body is a body after decoding.
type Body struct {
	io.Reader
	Removed bool // the codings are decoded, so Content-Encoding no longer applies
	close   func()
}

// Close releases the decoders. It does not close the reader given to Decode.
func (d *Body) Close() { d.close() }

// maxCodings limits the number of codings of one body.
const maxCodings = 4

// Decode decodes the codings that the values of Content-Encoding name, the last one first. If a
// coding is unknown, nothing is decoded. If a coding is declared but the body is not in it, because
// it begins otherwise or with text, the coding is ignored, as browsers do with gzip. A body that
// ends too early is decoded as far as it goes, and then io.ErrUnexpectedEOF comes.
func Decode(r io.Reader, values []string) (*Body, error) {
	var codings []string
	for coding := range strings.SplitSeq(strings.ToLower(strings.Join(values, ",")), ",") {
		if coding = strings.TrimSpace(coding); coding != "" && coding != "identity" {
			codings = append(codings, coding)
		}
	}
	d := &Body{Reader: r, close: func() {}}
	if len(codings) > maxCodings {
		return d, nil
	}
	for _, coding := range codings {
		switch coding {
		case "gzip", "x-gzip", "deflate", "br", "zstd":
		default:
			return d, nil
		}
	}
	for i := len(codings) - 1; i >= 0; i-- {
		if err := d.takeOff(codings[i]); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

func (d *Body) takeOff(coding string) error {
	in := bufio.NewReader(d.Reader)
	d.Reader, d.Removed = in, true
	const enough = 64 // bytes: no encoded body begins with so much text
	magic, err := in.Peek(enough)
	if len(magic) < 2 { // empty, or too short to be encoded
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		return err
	}
	err = nil // it comes again
	switch coding {
	case "gzip", "x-gzip":
		if magic[0] == 0x1f && magic[1] == 0x8b {
			d.Reader = &gzipReader{in: in}
		}
	case "deflate":
		switch {
		case magic[0]&15 == 8 && (uint(magic[0])<<8|uint(magic[1]))%31 == 0:
			d.Reader, err = zlib.NewReader(in)
		case !isText(magic):
			d.Reader = flate.NewReader(in)
		}
	case "br":
		if !isText(magic) {
			d.Reader = brotli.NewReader(in)
		}
	case "zstd":
		if !bytes.HasPrefix(magic, []byte(zstdMagic)) {
			return nil
		}
		var z *zstd.Decoder
		z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
		if err == nil {
			d.Reader = z
			outer := d.close
			d.close = func() { z.Close(); outer() }
		}
	}
	return err
}

// zstdMagic begins a frame (RFC 8878).
const zstdMagic = "\x28\xb5\x2f\xfd"

// isText reports whether the beginning of a body is printable ASCII.
func isText(b []byte) bool {
	return !bytes.ContainsFunc(b, func(r rune) bool { return (r < ' ' || r > '~') && r != '\t' && r != '\r' && r != '\n' })
}

// gzipReader decodes gzip members one after another. Like browsers it ends where what follows a
// member is not another one.
type gzipReader struct {
	in *bufio.Reader
	z  *gzip.Reader
}

func (g *gzipReader) Read(p []byte) (int, error) {
	if g.z == nil {
		z, err := gzip.NewReader(g.in)
		if err != nil {
			return 0, err
		}
		z.Multistream(false)
		g.z = z
	}
	n, err := g.z.Read(p)
	if err != io.EOF {
		return n, err
	}
	if magic, _ := g.in.Peek(2); len(magic) < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
		return n, io.EOF
	}
	if err := g.z.Reset(g.in); err != nil {
		return n, io.EOF
	}
	g.z.Multistream(false)
	return n, nil
}
