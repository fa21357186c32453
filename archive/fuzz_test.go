package archive

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"

	"sheaf/internal/testkit"
)

// FuzzInflate holds the inflater against the library's: what it accepts, the library decodes alike.
func FuzzInflate(f *testing.F) {
	for level := range 10 {
		c, err := newCompressor(level)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(c.blocks(text(5000, uint64(level))))
		f.Add(c.blocks(noise(700, 1)))
		f.Add(c.blocks(make([]byte, 70000)))
	}
	f.Add(zeroBlock(300, false))
	inflate := newInflater()
	f.Fuzz(func(t *testing.T, blocks []byte) {
		var got bytes.Buffer
		if inflate.run(bufio.NewReader(bytes.NewReader(blocks)), &got) != nil {
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
	inflate := newInflater()
	for level := range 10 {
		c, err := newCompressor(level)
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"text": text(500000, 9), "noise": noise(200000, 9), "zeros": make([]byte, 400000), "none": nil} {
			var got bytes.Buffer
			if err := inflate.run(bufio.NewReader(bytes.NewReader(c.blocks(data))), &got); err != nil || !bytes.Equal(got.Bytes(), data) {
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
	for _, data := range [][]byte{nil, {0}, {200, 200, 200}, all, text(maxFixed, 3), noise(maxFixed, 4), make([]byte, maxFixed),
		append(noise(maxFixed-300, 5), noise(300, 5)...), append(all, all...)} {
		f.Add(data)
	}
	inflate := newInflater()
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), maxFixed)]
		run, ok := bytes.CutPrefix(appendFixed([]byte("before"), data), []byte("before"))
		var got bytes.Buffer
		if err := inflate.run(bufio.NewReader(bytes.NewReader(run)), &got); !ok || err != nil || !bytes.Equal(got.Bytes(), data) {
			t.Errorf("%d of %d bytes, %v", got.Len(), len(data), err)
		}
		got.Reset()
		_, err := io.Copy(&got, flate.NewReader(io.MultiReader(bytes.NewReader(run), strings.NewReader("\x03\x00"))))
		if err != nil || !bytes.Equal(got.Bytes(), data) {
			t.Errorf("the library finds %d of %d bytes, %v", got.Len(), len(data), err)
		}
	})
}

// TestPadding decodes every entry of the table, final and not.
func TestPadding(t *testing.T) {
	inflate := newInflater()
	for n := range blockSize {
		final, open := zeroBlock(n, true), zeroBlock(n, false)
		if len(final) > 7 || len(open) > 11 {
			t.Errorf("%d zeros take %d and %d bytes", n, len(final), len(open))
		}
		got, err := io.ReadAll(flate.NewReader(bytes.NewReader(final)))
		if err != nil || !bytes.Equal(got, zeros[:n]) {
			t.Errorf("final: %d zeros give %d, %v", n, len(got), err)
		}
		var buf bytes.Buffer
		if err := inflate.run(bufio.NewReader(bytes.NewReader(open)), &buf); err != nil || !bytes.Equal(buf.Bytes(), zeros[:n]) {
			t.Errorf("open: %d zeros give %d, %v", n, buf.Len(), err)
		}
	}
}

func FuzzIndexLine(f *testing.F) {
	_, x := smallSegment(f)
	for i := range x.Cells {
		f.Add(string(x.Cells[i].appendLine(nil, 500)))
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, err := parseLine(line, testHost)
		if err != nil {
			return
		}
		c2, err := parseLine(string(c.appendLine(nil, 500)), testHost)
		if err != nil || *c2 != *c {
			t.Errorf("read back as %+v, was %+v: %v", c2, c, err)
		}
	})
}

// FuzzReadIndex passes files that are not segments to the reader: it must not panic, nor views of
// what it accepts.
func FuzzReadIndex(f *testing.F) {
	data, x := smallSegment(f)
	f.Add(data)
	f.Add(data[:x.CellsEnd])
	f.Add(EndMember(0, 1<<40))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := ReadIndex(context.Background(), sourceOf(data), int64(len(data)))
		if err != nil {
			return
		}
		for _, kind := range []ViewKind{Members, Single, WARC} {
			if v, err := NewView(kind, []Part{partOf(data, x)}); err == nil {
				if rc, err := v.OpenRange(context.Background(), 0, min(v.Size(), 1<<20)); err == nil {
					io.Copy(io.Discard, rc)
					rc.Close()
				}
			}
		}
	})
}
