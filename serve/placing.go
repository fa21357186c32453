package serve

import (
	"context"
	"fmt"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// Place tells where the record lies as a WARC file holds it: the path in the tree,
// without the slash before it, of the file that its edition brought of the host,
// and the offset there. Its length is WARCLength.
func (c *Capture) Place(ctx context.Context) (file string, offset int64, err error) {
	file = c.host.place + "/" + c.Line.Edition + forms[formWARC].suffix
	edition := c.host.archive(c.Line.Edition)
	if len(c.host.taken) > 0 {
		offset, err = edition.offsetOf(ctx, c)
		return file, offset, err
	}
	offset = archive.WARCStart() + c.before
	for _, l := range edition.lines {
		if l.Seq == c.Line.Seq {
			return file, offset, nil
		}
		records, err := c.host.recordBytes(ctx, l)
		if err != nil {
			return "", 0, err
		}
		offset += records
	}
	return "", 0, fmt.Errorf("place of %.200s: edition %s lacks its segment", c.URL, c.Line.Edition)
}

// recordBytes is how long a segment's records are in the WARC view.
func (l *Library) recordBytes(ctx context.Context, line catalog.SegmentEntry) (int64, error) {
	if known, ok := line.Views[string(archive.WARC)]; ok {
		return known.Size - archive.WARCStart(), nil
	}
	index, err := l.index(ctx, line)
	if err != nil {
		return 0, err
	}
	return length(index), nil
}

// offsetOf finds a record in an archive of which some are taken down.
func (s selection) offsetOf(ctx context.Context, c *Capture) (int64, error) {
	type cell struct{ seq, offset int64 }
	places, err := recall(ctx, s.cache, s.key("places"), func(ctx context.Context) (map[cell]int64, int64, error) {
		parts, lines, err := s.parts(ctx)
		if err != nil {
			return nil, 0, err
		}
		places := make(map[cell]int64)
		at := archive.WARCStart()
		for i, p := range parts {
			for n := range chosen(p) {
				of := &p.Index.Cells[n]
				places[cell{lines[i].Seq, of.Offset}] = at
				at += of.WARCLength()
			}
		}
		return places, int64(1+len(places)) * 64, nil
	})
	if err != nil {
		return 0, err
	}
	at, ok := places[cell{c.Line.Seq, c.Offset}]
	if !ok {
		return 0, fmt.Errorf("place of %.200s: %w", c.URL, ErrNotFound)
	}
	return at, nil
}
