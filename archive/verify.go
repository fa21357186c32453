package archive

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"time"

	"sheaf/internal/display"
	"sheaf/internal/preference"
	"sheaf/internal/wire"
)

// VerifyOptions are the limits and the expectations of a verifier.
type VerifyOptions struct {
	Host     string     // the cells' host; empty: the first cell's host
	MaxRatio int64      // of decoded to stored bytes, beyond Grace; 0: wire.MaxRatio
	Grace    int64      // bytes that may be decoded in any case; 0: wire.Grace
	MaxBody  int64      // limit for a decoded body; 0: wire.MaxBody
	Latest   time.Time  // the latest date that a record may have; zero: no limit
	Views    []ViewKind // views of the sealed segment to measure and hash in the same pass; Links only if it has a links cell
}

// ViewInfo describes a view as a file.
type ViewInfo struct {
	Size   int64
	SHA256 string // lower-case hexadecimal; empty for Files, which is not hashed
	ETag   string // quoted
}

// Summary describes a verified segment.
type Summary struct {
	Host, Segment            string
	Records, Revisits, Files int64
	First, Last              time.Time // of the records; zero if there are none
	IndexOffset, IndexLength int64
	RangeSize                int64  // of the cells, including the index cell
	RangeSHA256              string // of the cells, including the index cell, as in a batch's manifest
	Size                     int64  // of the sealed segment, including its end member
	SHA256                   string // of the sealed segment: its identity
	Views                    map[ViewKind]ViewInfo

	// Asked is the Cell.Preferences of the last robots.txt in the segment, or AsksNothing. It is
	// empty if the segment has no robots.txt.
	Asked string
}

// AsksNothing is the value of Summary.Asked if robots.txt states no preferences or was not found.
const AsksNothing = "-"

// EndMember returns the end member that turns the verified range into a segment.
func (s *Summary) EndMember() []byte { return EndMember(s.IndexOffset, s.IndexLength) }

// VerifyRange reads one host's cells and their index cell, as a batch holds them, to the end of r.
// It decodes and checks everything in one pass, so the caller can copy r elsewhere meanwhile. Its
// memory does not grow with bodies, only by 8 bytes for each record. Errors are *FormatError.
func VerifyRange(r io.Reader, opt VerifyOptions) (*Summary, error) {
	w := newWalker(r, opt)
	defer w.free()
	s, err := w.segment()
	if err != nil {
		return nil, err
	}
	return s, w.atEnd("the index cell")
}

// VerifySegment verifies a sealed segment: a range and its end member with WI.
func VerifySegment(r io.Reader, opt VerifyOptions) (*Summary, error) {
	w := newWalker(r, opt)
	defer w.free()
	s, err := w.segment()
	if err != nil {
		return nil, err
	}
	return s, w.endMember(func(it *item) *FormatError {
		switch {
		case it.kind != endItem:
			return corrupt("a cell after the index cell")
		case it.indexOff != s.IndexOffset || it.indexLen != s.IndexLength:
			return corrupt("WI says %d bytes at %d, but the index cell has %d at %d", it.indexLen, it.indexOff, s.IndexLength, s.IndexOffset)
		}
		return nil
	})
}

// endMember reads the end member, which must be the last item. check returns what is wrong with it.
func (w *walker) endMember(check func(*item) *FormatError) error {
	start := w.off
	it, err := w.next()
	if err == io.EOF {
		return w.fail(&FormatError{Code: codeTruncated, Msg: "ends before the end member"}, start)
	}
	if err != nil {
		return err
	}
	if ferr := check(&it); ferr != nil {
		return w.fail(ferr, start)
	}
	return w.atEnd("the end member")
}

// VerifyBatch verifies a whole batch file. It calls each for every host's segment, and returns the
// copy of the manifest in the batch.
func VerifyBatch(r io.Reader, opt VerifyOptions, each func(*Summary) error) (manifest []byte, err error) {
	w := newWalker(r, opt)
	defer w.free()
	for base := int64(0); ; base += w.off {
		w.begin(opt)
		s, err := w.segment()
		end := errors.Is(err, errManifest)
		if end {
			err = w.endMember(func(it *item) *FormatError {
				if it.kind != endItem || it.indexLen != 0 {
					return corrupt("the manifest is not followed by an end member without WI")
				}
				return nil
			})
		}
		if ferr, ok := errors.AsType[*FormatError](err); ok {
			ferr.Offset += base
		}
		if end || err != nil {
			return w.manifest, err
		}
		if err := each(s); err != nil {
			return nil, err
		}
	}
}

// VerifyBatchTail verifies the end of a batch, after the last host: the manifest's cell and the end
// member. It returns the copy of the manifest.
func VerifyBatchTail(r io.Reader) (manifest []byte, err error) {
	return VerifyBatch(r, VerifyOptions{}, func(*Summary) error {
		return corrupt("a host's cells where the manifest's should be")
	})
}

func (w *walker) atEnd(what string) error {
	if _, err := w.in.Peek(1); err != io.EOF {
		if err != nil {
			return w.readError(err, w.off, "what follows "+what)
		}
		return w.fail(corrupt("bytes after %s", what), w.off)
	}
	return nil
}

// errManifest says that the manifest follows instead of a segment.
var errManifest = errors.New("the manifest's cell")

// indexLines compares the lines of an index with the lines that follow from the cells before it.
type indexLines struct {
	seed maphash.Seed
	want []uint64 // hashes of the lines
	read int      // lines of the index so far
}

func (l *indexLines) expect(line []byte) { l.want = append(l.want, maphash.Bytes(l.seed, line)) }

// check compares the index's next line with the next line in want.
func (l *indexLines) check(line string) error {
	if l.read++; l.read > len(l.want) {
		return fmt.Errorf("there are only %d cells", len(l.want))
	}
	if maphash.String(l.seed, line) != l.want[l.read-1] {
		return fmt.Errorf("%.100q… is not the line of cell %d", line, l.read-1)
	}
	return nil
}

// segment reads cells up to the index cell, and compares the index's lines with them.
func (w *walker) segment() (*Summary, error) {
	w.raw = sha256.New()
	w.views = newViewHashes(w.opt.Views)
	s, lines := &Summary{}, &indexLines{seed: maphash.MakeSeed()}
	w.onLine = lines.check
	warcOff := int64(len(warcInfo()))
	var buf []byte
	links := "" // the segment's ID in the links cell
	for {
		start := w.off
		it, err := w.next()
		if err == io.EOF {
			return nil, w.fail(&FormatError{Code: codeTruncated, Msg: "ends before the index cell"}, start)
		}
		if err != nil {
			return nil, err
		}
		if links != "" && (it.kind != indexItem || it.segment != links) {
			return nil, w.fail(corrupt("the links cell of segment %s is not followed by the index cell of the same", links), start)
		}
		switch it.kind {
		case linksItem:
			if w.cell == 0 {
				return nil, w.fail(corrupt("a links cell without cells"), start)
			}
			links = it.segment
			buf = it.cell.appendLinksLine(buf[:0])
			lines.expect(buf)
			w.cell++
		case manifestItem:
			if start == 0 {
				w.manifest = it.manifest
				return nil, errManifest
			}
			return nil, w.fail(corrupt("the batch's manifest among the cells of %s", w.host), start)
		case endItem:
			return nil, w.fail(&FormatError{Code: codeTruncated, Msg: "the end member is before the index cell"}, start)
		case cellItem:
			c := &it.cell
			buf = c.appendLine(buf[:0], warcOff)
			lines.expect(buf)
			warcOff += c.WARCLength()
			s.count(c)
			if c.Kind.HasFile() {
				w.views.files += c.filesLength()
			}
			if err := w.checkTime(c); err != nil {
				return nil, err
			}
		case indexItem:
			if lines.read < len(lines.want) {
				return nil, w.fail(corrupt("the index has %d lines for %d cells", lines.read, len(lines.want)), start)
			}
			s.Host, s.Segment = w.host, it.segment
			s.IndexOffset, s.IndexLength = start, it.cell.Len()
			w.summarise(s)
			return s, nil
		}
	}
}

// checkTime returns an error if the record is dated after VerifyOptions.Latest.
func (w *walker) checkTime(c *Cell) error {
	latest := w.opt.Latest
	if latest.IsZero() || !c.Time.After(latest) {
		return nil
	}
	w.cell--
	return w.fail(&FormatError{Code: wire.ReasonClock, Entry: c.URL,
		Msg: fmt.Sprintf("the record is dated %s, the latest that may be is %s", c.Time.Format(time.RFC3339), latest.UTC().Format(time.RFC3339))}, c.Offset)
}

func (s *Summary) count(c *Cell) {
	s.Records++
	switch {
	case c.Kind.HasFile():
		s.Files++
	case c.Kind == Revisit:
		s.Revisits++
	}
	if preference.IsRobotsTxt(c.URL) && (c.Kind == Page || c.Kind == Response && c.Status/100 == 4) {
		s.Asked = cmp.Or(c.Preferences, AsksNothing)
	}
	if s.First.IsZero() || c.Time.Before(s.First) {
		s.First = c.Time
	}
	if c.Time.After(s.Last) {
		s.Last = c.Time
	}
}

// summarise sets sizes and digests, after all input of the range was read.
func (w *walker) summarise(s *Summary) {
	end := s.EndMember()
	s.RangeSize, s.RangeSHA256 = w.off, hex.EncodeToString(w.raw.Sum(nil))
	w.raw.Write(end)
	s.Size, s.SHA256 = w.off+int64(len(end)), hex.EncodeToString(w.raw.Sum(nil))
	w.raw = nil
	s.Views = w.views.infos(s)
	w.views = viewHashes{}
}

// FormatError says where stored bytes violate the format, and how.
type FormatError struct {
	Offset int64       // of the wrong member or byte, from the start of the input
	Cell   int         // the cell's number, from 0; -1 outside of cells
	Entry  string      // the tar entry's name or the record's URL, where known
	Code   wire.Reason // the reason that the quarantine shows
	Excess bool        // only a length is wrong: a body is too long, or breaks the rule of expansion
	Msg    string
	Err    error // the cause, such as an error of reading; may be nil
}

func (e *FormatError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "offset %d", e.Offset)
	if e.Cell >= 0 {
		fmt.Fprintf(&b, ", cell %d", e.Cell)
	}
	if e.Entry != "" {
		fmt.Fprintf(&b, " (%s)", display.Harmless(e.Entry))
	}
	fmt.Fprintf(&b, ": %s", e.Msg)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String() + " [" + string(e.Code) + "]"
}

func (e *FormatError) Unwrap() error { return e.Err }

// The codes of this package's FormatErrors.
const (
	codeSHA        = wire.ReasonSHAMismatch
	codeTruncated  = wire.ReasonTruncated
	codeCorrupt    = wire.ReasonCorruptMember
	codePathEscape = wire.ReasonPathEscape
	codeLinkEntry  = wire.ReasonLinkEntry
	codeBombRatio  = wire.ReasonBombRatio
)

func corrupt(format string, args ...any) *FormatError {
	return &FormatError{Code: codeCorrupt, Cell: -1, Msg: fmt.Sprintf(format, args...)}
}
