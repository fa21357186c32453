package media

import (
	"context"
	"io"
	"slices"
	"strings"

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
