package fetch

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// decoded is a body without its content codings.
type decoded struct {
	io.Reader
	removed bool // Content-Encoding no longer holds
	close   func()
}

// maxCodings is how many codings one upon the other are taken off.
const maxCodings = 4

// decode takes off the codings that Content-Encoding names, last first. A
// coding that the robot does not know stays on; one that is declared and not
// there is passed over, as browsers do with gzip.
func decode(r io.Reader, values []string) (*decoded, error) {
	var codings []string
	for coding := range strings.SplitSeq(strings.ToLower(strings.Join(values, ",")), ",") {
		if coding = strings.TrimSpace(coding); coding != "" && coding != "identity" {
			codings = append(codings, coding)
		}
	}
	d := &decoded{Reader: r, close: func() {}}
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

func (d *decoded) takeOff(coding string) error {
	in := bufio.NewReader(d.Reader)
	d.Reader, d.removed = in, true
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

// maxInMemory is how much of a body is kept in memory before it goes to a file.
const maxInMemory = 256 << 10

// spool keeps a body, in memory or in a temporary file, and digests it.
type spool struct {
	dir  string
	size int64
	sum  hash.Hash
	mem  bytes.Buffer
	file *os.File
}

func newSpool(dir string) *spool { return &spool{dir: dir, sum: sha256.New()} }

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.mem.Len()+len(p) > maxInMemory {
		file, err := os.CreateTemp(s.dir, "body-*")
		if err != nil {
			return 0, fmt.Errorf("the body's temporary file: %w", err)
		}
		s.file = file
		if _, err := s.mem.WriteTo(file); err != nil {
			return 0, errors.Join(fmt.Errorf("the body's temporary file: %w", err), s.close())
		}
		s.mem = bytes.Buffer{}
	}
	var (
		n   int
		err error
	)
	if s.file != nil {
		n, err = s.file.Write(p)
	} else {
		n, err = s.mem.Write(p)
	}
	s.sum.Write(p[:n])
	s.size += int64(n)
	return n, err
}

func (s *spool) digest() string {
	return "sha256:" + base32.StdEncoding.EncodeToString(s.sum.Sum(nil))
}

func (s *spool) open() io.ReadSeekCloser {
	if s.file != nil {
		return nopCloser{io.NewSectionReader(s.file, 0, s.size)}
	}
	return nopCloser{bytes.NewReader(s.mem.Bytes())}
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }
