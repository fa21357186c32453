package media

import (
	"bytes"
	"compress/gzip"
	"io"
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
	d := Decode(&body, []string{"gzip, zstd"})
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

// Of a body in more codings than two, nothing is decoded.
func TestThreeCodings(t *testing.T) {
	d := Decode(bytes.NewReader([]byte("as it came")), []string{"gzip, gzip", "zstd"})
	if got, err := io.ReadAll(d); err != nil || string(got) != "as it came" || d.Removed {
		t.Errorf("%q, %v, removed %t", got, err, d.Removed)
	}
}
