package archive

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"sort"
	"sync"

	"sheaf/archive/deflate"
)

// ViewKind names a form of file that Sheaf puts together from stored ranges.
type ViewKind string

const (
	Members ViewKind = "members" // tar.gz of the members as they are stored
	Single  ViewKind = "single"  // tar.gz in one gzip member, for readers that stop after the first
	Files   ViewKind = "files"   // tar.gz of the pages' files alone: two members each, without the WARC record's head
	WARC    ViewKind = "warc"    // warc.gz, one member for each record
	Links   ViewKind = "links"   // gzip of the links cells' lines; for whole segments only
)

// Part is the part of a view that comes from one segment. If all cells are taken, the members and
// the single view include the links and the index cell; otherwise they do not.
type Part struct {
	Source Source
	Index  *Index
	Digest string // SHA-256 of the stored segment, hexadecimal
	Cells  []int  // numbers of the wanted cells, in the wanted order; nil: all
}

// wanted yields the cells that Cells numbers, in that order, or all cells if Cells is nil.
func (p Part) wanted() iter.Seq[*Cell] {
	return func(yield func(*Cell) bool) {
		if p.Cells == nil {
			for n := range p.Index.Cells {
				if !yield(&p.Index.Cells[n]) {
					return
				}
			}
			return
		}
		for _, n := range p.Cells {
			if !yield(&p.Index.Cells[n]) {
				return
			}
		}
	}
}

// check returns an error if Cells has a number that is not in the index.
func (p Part) check() error {
	for _, n := range p.Cells {
		if n < 0 || n >= len(p.Index.Cells) {
			return fmt.Errorf("segment of %s: cell %d of %d", p.Index.Host, n, len(p.Index.Cells))
		}
	}
	return nil
}

// View is a file that is computed from indexes. Its size is known, and any range can be read
// without the bytes before it. A View does not keep the indexes, and may be used concurrently.
type View struct {
	kind    ViewKind
	sources []Source // of the parts
	etag    string
	whole   bool // the stored bytes of one segment, including the end member

	start []byte // before the first cell
	refs  []cellRef
	ends  []int64 // end of each cell's bytes in the view
	end   []byte  // after the last cell
	size  int64
}

type cellRef struct {
	part int
	cell Place
}

// NewView makes a view. A members view of one whole segment is the stored segment itself.
func NewView(kind ViewKind, parts []Part) (*View, error) {
	if !slices.Contains([]ViewKind{Members, Single, Files, WARC, Links}, kind) {
		return nil, fmt.Errorf("view kind %q is not %s, %s, %s, %s or %s", kind, Members, Single, Files, WARC, Links)
	}
	v := &View{kind: kind, etag: viewETag(kind, parts)}
	v.start, _ = frameOf(kind, 0, 0)
	v.size = int64(len(v.start))
	v.grow(parts)
	for i, p := range parts {
		if err := v.addPart(i, p); err != nil {
			return nil, err
		}
	}
	crc, n := v.decoded()
	_, v.end = frameOf(kind, crc, n)
	v.whole = kind == Members && len(parts) == 1 && parts[0].Cells == nil && parts[0].Index.IndexLength > 0
	if v.whole {
		v.end = EndMember(parts[0].Index.CellsEnd, parts[0].Index.IndexLength)
	}
	v.size += int64(len(v.end))
	return v, nil
}

// frameOf returns the bytes before and after all cells of a view of parts of segments. crc and n
// are of the decoded bytes, in a Single or a Links view.
func frameOf(kind ViewKind, crc uint32, n int64) (start, end []byte) {
	switch kind {
	case Members, Files:
		return nil, EndMember(0, 0)
	case Single:
		return []byte(gzipPlainStart), singleEnd(crc, n)
	case Links:
		return []byte(gzipPlainStart), memberEnd(crc, n)
	}
	return warcInfo(), nil
}

// grow makes room for the cells of parts.
func (v *View) grow(parts []Part) {
	n := 0
	for _, p := range parts {
		if n += len(p.Cells); p.Cells == nil {
			n += len(p.Index.Cells) + 2 // with the links cell and the index cell
		}
	}
	if v.kind != Links {
		v.refs, v.ends = make([]cellRef, 0, n), make([]int64, 0, n)
	}
}

func (v *View) addPart(i int, p Part) error {
	v.sources = append(v.sources, p.Source)
	if v.kind == Links {
		if p.Cells != nil {
			return fmt.Errorf("part %d (%s): a choice of cells has no links view", i, p.Index.Host)
		}
		if p.Index.links != nil {
			v.addCell(i, &p.Index.links.Place)
		}
		return nil
	}
	if err := p.check(); err != nil {
		return err
	}
	for c := range p.wanted() {
		v.addCell(i, &c.Place)
	}
	if (v.kind == Members || v.kind == Single) && p.Cells == nil {
		if p.Index.links != nil {
			v.addCell(i, &p.Index.links.Place)
		}
		if p.Index.IndexLength > 0 {
			v.addCell(i, &p.Index.self.Place)
		}
	}
	return nil
}

func (v *View) addCell(part int, c *Place) {
	if (v.kind == Single || v.kind == Files) && c.HeaderLen == 0 { // WARC-only: nothing in a tar
		return
	}
	switch v.kind {
	case Members:
		v.size += c.Len()
	case Single:
		v.size += c.headerBlocks().n + c.bodyBlocks().n + int64(len(deflate.Zeros(padding(c.BodyLen), false)))
	case WARC:
		v.size += c.WARCLength()
	case Files:
		v.size += c.filesLength()
	case Links:
		v.size += c.bodyBlocks().n
	}
	v.refs = append(v.refs, cellRef{part, *c})
	v.ends = append(v.ends, v.size)
}

// decoded returns the CRC and the length of the decoded cells of a Single or a Links view. For
// other kinds it returns zeros.
func (v *View) decoded() (crc uint32, n int64) {
	for _, r := range v.refs {
		c := r.cell
		switch v.kind {
		case Single:
			pad := padding(c.BodyLen)
			padded := c.BodyLen + int64(pad)
			crc = deflate.JoinCRC(deflate.JoinCRC(crc, c.HeaderCRC, c.HeaderLen), deflate.CRCWithZeros(c.BodyCRC, pad), padded)
			n += c.HeaderLen + padded
		case Links:
			crc, n = deflate.JoinCRC(crc, c.BodyCRC, c.BodyLen), n+c.BodyLen
		default:
			return 0, 0
		}
	}
	return crc, n
}

// Find returns where a cell's bytes lie in a members or WARC view. nth counts the part's cells in
// the view, from 0.
func (v *View) Find(part, nth int) (offset, length int64, ok bool) {
	i := nth + sort.Search(len(v.refs), func(i int) bool { return v.refs[i].part >= part })
	if i >= len(v.refs) || v.refs[i].part != part {
		return 0, 0, false
	}
	if offset = int64(len(v.start)); i > 0 {
		offset = v.ends[i-1]
	}
	return offset, v.ends[i] - offset, true
}

// Held returns the view's approximate size in memory, in bytes.
func (v *View) Held() int64 { return 256 + int64(cap(v.refs))*80 }

// Size returns the view's length in bytes.
func (v *View) Size() int64 { return v.size }

// WARCStart returns the offset of the first cell's record in every WARC view, in bytes. The offset
// is computed once, because readers of the URL index ask for it with each row.
var WARCStart = sync.OnceValue(func() int64 { return int64(len(warcInfo())) })

// ETag returns a strong entity tag, quoted.
func (v *View) ETag() string { return v.etag }

// OpenRange returns n bytes of the view from off.
func (v *View) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if err := checkRange(off, n, v.size); err != nil {
		return nil, err
	}
	if v.whole {
		return v.sources[0].OpenRange(ctx, off, n)
	}
	return &viewReader{walk: v.walk(off, n), src: gatherReader{ctx: ctx}}, nil
}

// viewReader reads a range of a view, piece by piece.
type viewReader struct {
	walk
	src gatherReader
	err error
}

func (r *viewReader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && r.off < r.end && r.err == nil {
		if len(r.pieces) == 0 {
			r.err = r.nextCell()
			continue
		}
		var k int
		k, r.err = r.fromPiece(p[n:min(int64(len(p)), int64(n)+r.end-r.off)])
		n += k
	}
	if r.off == r.end && r.err == nil {
		r.err = io.EOF
	}
	if n > 0 {
		return n, nil
	}
	return n, r.err
}

// fromPiece reads from the first piece, and advances by what it has read.
func (r *viewReader) fromPiece(p []byte) (n int, err error) {
	first := &r.pieces[0]
	if first.given != nil {
		n = copy(p, first.given)
	} else {
		n, err = r.src.read(p[:min(int64(len(p)), first.stored.n)], first.stored.off)
	}
	r.advance(int64(n))
	return n, err
}

// nextCell sets the next pieces, and chooses the run of stored bytes to read for them.
func (r *viewReader) nextCell() error {
	next := r.next
	r.refill()
	if r.next == next {
		return nil // the view's start or end
	}
	if !r.src.holds(r.cell) {
		r.src.begin(r.v.sources[r.cell.part], r.cell.part, r.run(maxGap, math.MaxInt64, math.MaxInt64))
	}
	if r.v.kind != WARC {
		return nil
	}
	tail := &r.pieces[len(r.pieces)-1] // stored before the record; in the view it is after it
	given, err := r.src.all(tail.stored)
	*tail = piece{given: given}
	return err
}

// Close closes the open range. Read fails afterwards.
func (r *viewReader) Close() error {
	if r.err == nil {
		r.err = io.ErrClosedPipe
	}
	return r.src.close()
}

// viewVersion is part of every ETag. Change it when views of the same segments get other bytes.
const viewVersion = "1"

// viewETag returns the ETag of a view's bytes. It holds the version, the kind, and a digest of the
// segments, in order, and of the selected cells.
func viewETag(kind ViewKind, parts []Part) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%s %t %d\n", p.Digest, p.Cells == nil, len(p.Cells))
		for _, n := range p.Cells {
			h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
		}
	}
	return fmt.Sprintf(`"%s%s-%s"`, kind, viewVersion, hex.EncodeToString(h.Sum(nil)[:16]))
}

// SegmentETag returns the ETag of a whole segment's view. digest is the segment's SHA-256.
func SegmentETag(kind ViewKind, digest string) string {
	return viewETag(kind, []Part{{Digest: digest}})
}

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
	s.CRC, s.Raw = v.decoded()
	return v, s, nil
}

// Join returns the sums of s followed by next.
func (s Stretch) Join(next Stretch) Stretch {
	return Stretch{Size: s.Size + next.Size, CRC: deflate.JoinCRC(s.CRC, next.CRC, next.Raw), Raw: s.Raw + next.Raw}
}

// Frame returns the bytes before and after all stretches of a view. s is the join of the stretches.
func (s Stretch) Frame(kind ViewKind) (start, end []byte) { return frameOf(kind, s.CRC, s.Raw) }
