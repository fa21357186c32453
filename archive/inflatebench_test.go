package archive

import (
	"bufio"
	"bytes"
	"io"
	"testing"

	"github.com/klauspost/compress/flate"
)

// BenchmarkInflate decodes pages one after another, by the walker's inflater and by the library's,
// which says less about where blocks end.
func BenchmarkInflate(b *testing.B) {
	c, err := newCompressor(6)
	if err != nil {
		b.Fatal(err)
	}
	runs, size := [][]byte{}, int64(0)
	for i := range 200 {
		page := text(20<<10, uint64(i))
		runs = append(runs, bytes.Clone(c.blocks(page)))
		size += int64(len(page))
	}
	b.Run("own", func(b *testing.B) {
		b.SetBytes(size)
		f, in := newInflater(), bufio.NewReaderSize(nil, 32<<10)
		for b.Loop() {
			for _, run := range runs {
				in.Reset(bytes.NewReader(run))
				if err := f.run(in, io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.SetBytes(size)
		r := flate.NewReader(nil)
		for b.Loop() {
			for _, run := range runs {
				r.(flate.Resetter).Reset(io.MultiReader(bytes.NewReader(run), bytes.NewReader([]byte{3, 0})), nil)
				if _, err := io.Copy(io.Discard, r); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
