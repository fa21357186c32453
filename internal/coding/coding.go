// Package coding takes the content codings off HTTP bodies (RFC 9110, 8.4): the robot
// does as it fetches, import does with what others have kept coded. The idea is to be
// as forgiving as browsers are, because servers are wrong about their codings.
package coding

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Body is a body without its content codings.
type Body struct {
	io.Reader
	Removed bool // Content-Encoding no longer holds
	close   func()
}

// Close gives back what the decoders hold. What was read from stays open.
func (d *Body) Close() { d.close() }

// maxCodings is how many codings one upon the other are taken off.
const maxCodings = 4

// Decode takes off the codings that the values of Content-Encoding name, last first. A
// coding that is not known here stays on; one that is declared and not
// there is passed over, as browsers do with gzip.
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
	magic, err := in.Peek(2)
	if err != nil {
		if err == io.EOF { // nothing, or too little to be coded
			return nil
		}
		return err
	}
	switch coding {
	case "gzip", "x-gzip":
		if magic[0] == 0x1f && magic[1] == 0x8b {
			d.Reader = &gzipReader{in: in}
		}
	case "deflate":
		if magic[0]&15 == 8 && (uint(magic[0])<<8|uint(magic[1]))%31 == 0 {
			d.Reader, err = zlib.NewReader(in)
		} else {
			d.Reader = flate.NewReader(in)
		}
	case "br":
		d.Reader = brotli.NewReader(in)
	case "zstd":
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

// gzipReader reads members one after another and ends, as browsers do, where
// what follows a whole member is no other.
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
