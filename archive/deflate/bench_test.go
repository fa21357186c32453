package deflate

import (
	"bytes"
	"io"
	"testing"

	"github.com/klauspost/compress/flate"

	"sheaf/internal/testkit"
)

// BenchmarkInflate decodes pages one after another, by the Inflater and by the library's,
// which says less about where blocks end.
func BenchmarkInflate(b *testing.B) {
	c, err := NewCompressor(6)
	if err != nil {
		b.Fatal(err)
	}
	runs, size := [][]byte{}, int64(0)
	for i := range 200 {
		page := testkit.Text(20<<10, uint64(i))
		runs = append(runs, bytes.Clone(c.Run(page)))
		size += int64(len(page))
	}
	b.Run("own", func(b *testing.B) {
		b.SetBytes(size)
		f := NewInflater()
		for b.Loop() {
			for _, run := range runs {
				if err := f.Inflate(io.Discard, bytes.NewReader(run)); err != nil {
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
