package archive

import (
	"context"
	"io"
	"testing"
)

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
		for _, kind := range []ViewKind{Members, Single, Files, WARC} {
			if v, err := NewView(kind, []Part{partOf(data, x)}); err == nil {
				if rc, err := v.OpenRange(context.Background(), 0, min(v.Size(), 1<<20)); err == nil {
					io.Copy(io.Discard, rc)
					rc.Close()
				}
			}
		}
	})
}
