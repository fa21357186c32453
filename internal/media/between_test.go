package media

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// A few bytes that become hundreds of MB of empty gzip members cost no more than a few bytes may,
// although nothing comes out of them.
func TestNothingOfVeryMuch(t *testing.T) {
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	w, err := zstd.NewWriter(&body)
	if err != nil {
		t.Fatal(err)
	}
	many := bytes.Repeat(member.Bytes(), 1<<20/member.Len())
	for range 400 {
		if _, err := w.Write(many); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	size := int64(body.Len())
	d := Decode(t.Context(), &body, []string{"gzip, zstd"})
	defer d.Close()
	n, err := io.Copy(io.Discard, d)
	if n != 0 || err != io.ErrUnexpectedEOF {
		t.Errorf("%d bytes, %v; want none and %v", n, err, io.ErrUnexpectedEOF)
	}
	passed := d.layers[1].source.(*between).n
	if most := betweenGrace + betweenRatio*size + 1<<20; passed > most {
		t.Errorf("%d bytes of %d passed between the codings, want at most %d", passed, size, most)
	}
}

// after cancels a context with its n-th read.
type after struct {
	io.Reader
	n      int
	cancel func()
}

func (a *after) Read(p []byte) (int, error) {
	if a.n--; a.n == 0 {
		a.cancel()
	}
	return a.Reader.Read(p[:min(len(p), 100)])
}

// Decoding ends when its context ends: between two blocks of what comes, of what is between two
// codings, and of what comes out.
func TestDecodingEndsWithItsContext(t *testing.T) {
	members := strings.Repeat(gz(""), 1<<20/len(gz("")))
	for name, c := range map[string]struct {
		body, codings string
		reads         int // after which the context ends
	}{
		"members":         {members, "gzip", 20},
		"between codings": {zs(strings.Repeat(members, 8)), "gzip, zstd", 1},
		"what comes out":  {zs(strings.Repeat("page", 1<<20)), "zstd", 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		source := &after{strings.NewReader(c.body), c.reads, cancel}
		d := Decode(ctx, source, []string{c.codings})
		n, err := io.Copy(io.Discard, d)
		if !errors.Is(err, context.Canceled) || n > 1<<20 || source.n < 0 {
			t.Errorf("%s: %d bytes and %d reads more, %v", name, n, -source.n, err)
		}
		if len(d.layers) > 1 && d.layers[1].source.(*between).n > 64<<10 {
			t.Errorf("%s: %d bytes passed", name, d.layers[1].source.(*between).n)
		}
		d.Close()
	}
}

// Of a body in more codings than two, nothing is decoded.
func TestThreeCodings(t *testing.T) {
	d := Decode(t.Context(), bytes.NewReader([]byte("as it came")), []string{"gzip, gzip", "zstd"})
	if got, err := io.ReadAll(d); err != nil || string(got) != "as it came" || d.Removed {
		t.Errorf("%q, %v, removed %t", got, err, d.Removed)
	}
}
