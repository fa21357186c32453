package archive

import (
	"fmt"

	"sheaf/archive/deflate"
)

// Stretch holds the size and the sums of one segment's selected cells in a view, without the view's
// start and end. For a file of many segments only these sums must be kept: each segment's part can
// be made again when its bytes are wanted.
type Stretch struct {
	Size int64  // bytes
	CRC  uint32 // of the decoded bytes; Single only
	Raw  int64  // number of decoded bytes; Single only
}

// NewStretch returns a Members, Single or WARC view of part.Cells without its Frame, and its sums.
func NewStretch(kind ViewKind, part Part) (*View, Stretch, error) {
	if part.Cells == nil {
		return nil, Stretch{}, fmt.Errorf("stretch of %s: no cells are chosen", part.Index.Host)
	}
	if kind != Members && kind != Single && kind != WARC {
		return nil, Stretch{}, fmt.Errorf("stretch of %s: view kind %q is not %s, %s or %s", part.Index.Host, kind, Members, Single, WARC)
	}
	v := &View{kind: kind}
	v.grow([]Part{part})
	if err := v.addPart(0, part); err != nil {
		return nil, Stretch{}, err
	}
	s := Stretch{Size: v.size}
	if kind == Single {
		s.CRC, s.Raw = v.tarSum()
	}
	return v, s, nil
}

// Join returns the sums of s followed by next.
func (s Stretch) Join(next Stretch) Stretch {
	return Stretch{Size: s.Size + next.Size, CRC: deflate.JoinCRC(s.CRC, next.CRC, next.Raw), Raw: s.Raw + next.Raw}
}

// Frame returns the bytes before and after all stretches of a view. s is the join of the stretches.
func (s Stretch) Frame(kind ViewKind) (start, end []byte) {
	switch kind {
	case Members:
		return nil, EndMember(0, 0)
	case Single:
		return []byte(gzipPlainStart), singleEnd(s.CRC, s.Raw)
	}
	return warcInfo(), nil
}
