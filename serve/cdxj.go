package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"sheaf/archive"
)

// writeCDXJ writes the index of the selection's .warc.gz: standard lines, sorted,
// whose filename is the file's path in the tree.
func (s selection) writeCDXJ(ctx context.Context, w io.Writer) error {
	warc, err := s.assemble(ctx, archive.WARC)
	if err != nil {
		return err
	}
	parts, _, err := s.parts(ctx)
	if err != nil {
		return err
	}
	name := s.place + "/" + s.base + forms[formWARC].suffix
	// The records follow a constant head, one part's after another's.
	first := warc.Size()
	for i := range parts {
		parts[i].Index = subset(parts[i])
		first -= length(parts[i].Index)
	}
	var all bytes.Buffer
	for _, p := range parts {
		if err := p.Index.CDXJAt(&all, name, first); err != nil {
			return fmt.Errorf("index of %s: %w", name, err)
		}
		first += length(p.Index)
	}
	lines := bytes.SplitAfter(all.Bytes(), []byte("\n"))
	slices.SortFunc(lines, bytes.Compare)
	for _, line := range lines {
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// subset is an index of a part's cells alone.
func subset(p archive.Part) *archive.Index {
	if p.Cells == nil {
		return p.Index
	}
	of := &archive.Index{Segment: p.Index.Segment, Host: p.Index.Host}
	for _, c := range p.Cells {
		of.Cells = append(of.Cells, p.Index.Cells[c])
	}
	return of
}

// length is what the records take in a WARC view.
func length(x *archive.Index) int64 {
	n := int64(0)
	for i := range x.Cells {
		n += x.Cells[i].WARCLength()
	}
	return n
}
