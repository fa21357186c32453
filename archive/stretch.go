package archive

import (
	"fmt"

	"sheaf/archive/deflate"
)

// Stretch describes the bytes of selected cells of one segment in a view, without the view's start
// and end. For a file of many segments these sums are all that must be kept: each segment's part
// can be made again when its bytes are wanted.
type Stretch struct {
	Size int64  // bytes
	CRC  uint32 // Single only: of the decoded bytes
	Raw  int64  // Single only: number of decoded bytes
}

// NewStretch returns the bytes of selected cells in a view, as a view without start and end, and
// their sums.
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

// Frame returns what is in a view before and after all stretches. s is their join.
func (s Stretch) Frame(kind ViewKind) (start, end []byte) {
	switch kind {
	case Members:
		return nil, EndMember(0, 0)
	case Single:
		return []byte(gzipPlainStart), singleEnd(s.CRC, s.Raw)
	}
	return warcInfo(), nil
}
