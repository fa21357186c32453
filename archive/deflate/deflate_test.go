package deflate

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"

	"sheaf/internal/testkit"
)

func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// FuzzInflate holds the inflater against the library's: what it accepts, the library decodes alike.
func FuzzInflate(f *testing.F) {
	for level := range 10 {
		c, err := NewCompressor(level)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(c.Run(testkit.Text(5000, uint64(level))))
		f.Add(c.Run(noise(700, 1)))
		f.Add(c.Run(make([]byte, 70000)))
	}
	f.Add(Zeros(300, false))
	inflate := NewInflater()
	f.Fuzz(func(t *testing.T, blocks []byte) {
		var got bytes.Buffer
		if inflate.Inflate(&got, bytes.NewReader(blocks)) != nil {
			return
		}
		want, err := io.ReadAll(flate.NewReader(bytes.NewReader(append(bytes.Clone(blocks), 3, 0))))
		if err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("decoded %d bytes, the library %d: %v", got.Len(), len(want), err)
		}
	})
}

// TestInflate decodes what the library deflates at every level.
func TestInflate(t *testing.T) {
	testkit.Slow(t)
	inflate := NewInflater()
	for level := range 10 {
		c, err := NewCompressor(level)
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"text": testkit.Text(500000, 9), "noise": noise(200000, 9), "zeros": make([]byte, 400000), "none": nil} {
			var got bytes.Buffer
			if err := inflate.Inflate(&got, bytes.NewReader(c.Run(data))); err != nil || !bytes.Equal(got.Bytes(), data) {
				t.Errorf("level %d, %s: %d of %d bytes, %v", level, name, got.Len(), len(data), err)
			}
		}
	}
}

// FuzzFixed deflates by fixed codes: both inflaters must find the same data, also behind other
// bytes.
func FuzzFixed(f *testing.F) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, data := range [][]byte{nil, {0}, {200, 200, 200}, all, testkit.Text(MaxFixed, 3), noise(MaxFixed, 4), make([]byte, MaxFixed),
		append(noise(MaxFixed-300, 5), noise(300, 5)...), append(all, all...)} {
		f.Add(data)
	}
	inflate := NewInflater()
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), MaxFixed)]
		run, ok := bytes.CutPrefix(AppendFixed([]byte("before"), data), []byte("before"))
		var got bytes.Buffer
		if err := inflate.Inflate(&got, bytes.NewReader(run)); !ok || err != nil || !bytes.Equal(got.Bytes(), data) {
			t.Errorf("%d of %d bytes, %v", got.Len(), len(data), err)
		}
		got.Reset()
		_, err := io.Copy(&got, flate.NewReader(io.MultiReader(bytes.NewReader(run), strings.NewReader("\x03\x00"))))
		if err != nil || !bytes.Equal(got.Bytes(), data) {
			t.Errorf("the library finds %d of %d bytes, %v", got.Len(), len(data), err)
		}
	})
}

// The zeros that pad a tar entry, final and not.
func TestZeros(t *testing.T) {
	inflate := NewInflater()
	for n := range 512 {
		final, open := Zeros(n, true), Zeros(n, false)
		if len(final) > 7 || len(open) > 11 {
			t.Errorf("%d zeros take %d and %d bytes", n, len(final), len(open))
		}
		got, err := io.ReadAll(flate.NewReader(bytes.NewReader(final)))
		if err != nil || !bytes.Equal(got, make([]byte, n)) {
			t.Errorf("final: %d zeros give %d, %v", n, len(got), err)
		}
		var buf bytes.Buffer
		if err := inflate.Inflate(&buf, bytes.NewReader(open)); err != nil || !bytes.Equal(buf.Bytes(), make([]byte, n)) {
			t.Errorf("open: %d zeros give %d, %v", n, buf.Len(), err)
		}
	}
}

// What a segment cannot hold is refused, and an Inflater decodes the next run all the same.
func TestNoRun(t *testing.T) {
	c, err := NewCompressor(6)
	testkit.Must(t, err)
	body := testkit.Text(200_000, 1)
	run := bytes.Clone(c.Run(body))
	f := NewInflater()
	for what, b := range map[string][]byte{
		"a final block": append(bytes.Clone(run), 3, 0), "half of it": run[:len(run)/2], "no blocks": []byte("<html>"),
	} {
		if err := f.Inflate(io.Discard, bytes.NewReader(b)); !errors.Is(err, ErrBlocks) {
			t.Errorf("%s: %v", what, err)
		}
		var out bytes.Buffer
		testkit.Must(t, f.Inflate(&out, bytes.NewReader(run)))
		if !bytes.Equal(out.Bytes(), body) {
			t.Fatal("the body is another one")
		}
	}
}
