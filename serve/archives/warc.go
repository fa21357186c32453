package archives

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"sheaf/archive"
)

// writeCDXJ writes the index of the archive's .warc.gz: standard lines, sorted, whose filename is the
// file's path in the tree.
func (a Archive) writeCDXJ(ctx context.Context, w io.Writer) error {
	parts, _, err := a.parts(ctx)
	if err != nil {
		return err
	}
	name := a.host.Place + "/" + a.base + formWARC
	var all bytes.Buffer
	at := archive.WARCStart()
	for _, p := range parts {
		index := subset(p)
		if err := index.CDXJAt(&all, name, at); err != nil {
			return fmt.Errorf("index of %s: %w", name, err)
		}
		at += warcLength(index)
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

// subset returns an index of a part's chosen cells only.
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

// warcLength returns the length of an index's records in a WARC view, in bytes.
func warcLength(x *archive.Index) int64 {
	n := int64(0)
	for i := range x.Cells {
		n += x.Cells[i].WARCLength()
	}
	return n
}
