package archive

import "fmt"

// Stretch is what chosen cells of one segment are in a view, without the view's
// start and end. Of a file over many segments these sums are all that has to be
// kept: each segment's part of it can be made again when its bytes are wanted.
type Stretch struct {
	Size int64  // bytes
	CRC  uint32 // Single only: of what it decodes to
	Raw  int64  // Single only: how long that is
}

// NewStretch gives the bytes that a choice of a segment's cells has in a view, as a
// view without start and end, and their sums.
func NewStretch(kind ViewKind, part Part) (*View, Stretch, error) {
	if part.Cells == nil {
		return nil, Stretch{}, fmt.Errorf("stretch of %s: no cells are chosen", part.Index.Host)
	}
	if kind != Members && kind != Single && kind != WARC {
		return nil, Stretch{}, fmt.Errorf("stretch of %s: view kind %q is not %s, %s or %s", part.Index.Host, kind, Members, Single, WARC)
	}
	v := &View{kind: kind, parts: []Part{part}}
	if err := v.addPart(0, part); err != nil {
		return nil, Stretch{}, err
	}
	s := Stretch{Size: v.size}
	if kind == Single {
		s.CRC, s.Raw = v.tarSum()
	}
	return v, s, nil
}

// Join is s with next behind it.
func (s Stretch) Join(next Stretch) Stretch {
	return Stretch{Size: s.Size + next.Size, CRC: crcJoin(s.CRC, next.CRC, next.Raw), Raw: s.Raw + next.Raw}
}

// Frame gives what stands before and behind all stretches of a view, joined.
func (s Stretch) Frame(kind ViewKind) (start, end []byte) {
	switch kind {
	case Members:
		return nil, EndMember(0, 0)
	case Single:
		return []byte(gzipPlainStart), singleEnd(s.CRC, s.Raw)
	}
	return warcInfo(), nil
}
