package archives

import (
	"context"
	"fmt"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/bytecache"
	"sheaf/serve/content"
)

// WARCOffset says where a record lies in its edition's .warc.gz: the file's path in the tree, without
// the slash before it, and the offset in bytes. The record is the cell at cellOffset in the segment,
// and before is the length of the segment's records before it in a WARC view.
func (h Host) WARCOffset(ctx context.Context, seg catalog.SegmentEntry, cellOffset, before int64) (file string, offset int64, err error) {
	file = h.Place + "/" + seg.Edition + formWARC
	edition := h.Named(seg.Edition)
	if len(h.TakenDown()) > 0 {
		offset, err = edition.offsetAmongLeft(ctx, seg, cellOffset)
		return file, offset, err
	}
	offset = archive.WARCStart() + before
	for _, s := range edition.segments {
		if s.Seq == seg.Seq {
			return file, offset, nil
		}
		length, err := h.recordLength(ctx, s)
		if err != nil {
			return "", 0, err
		}
		offset += length
	}
	return "", 0, fmt.Errorf("%s: the edition lacks the segment %d", file, seg.Seq)
}

// recordLength returns the length of a segment's records in a WARC view, in bytes.
func (h Host) recordLength(ctx context.Context, seg catalog.SegmentEntry) (int64, error) {
	if known, ok := seg.Views[string(archive.WARC)]; ok {
		return known.Size - archive.WARCStart(), nil
	}
	index, err := h.from.Segments.Index(ctx, seg)
	if err != nil {
		return 0, err
	}
	return warcLength(index), nil
}

// offsetAmongLeft returns a record's offset in an archive of which some records are taken down.
func (a Archive) offsetAmongLeft(ctx context.Context, seg catalog.SegmentEntry, cellOffset int64) (int64, error) {
	type cell struct{ seq, offset int64 }
	offsets, err := bytecache.GetOrCompute(ctx, a.host.from.Memo, a.key("places"), func(ctx context.Context) (map[cell]int64, int64, error) {
		parts, segments, err := a.parts(ctx)
		if err != nil {
			return nil, 0, err
		}
		offsets := make(map[cell]int64)
		at := archive.WARCStart()
		for i, p := range parts {
			for n := range chosen(p) {
				of := &p.Index.Cells[n]
				offsets[cell{segments[i].Seq, of.Offset}] = at
				at += of.WARCLength()
			}
		}
		return offsets, int64(1+len(offsets)) * 64, nil
	})
	if err != nil {
		return 0, err
	}
	at, ok := offsets[cell{seg.Seq, cellOffset}]
	if !ok {
		return 0, content.ErrNotFound
	}
	return at, nil
}
