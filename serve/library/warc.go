package library

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/cache"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// writeCDXJ writes the sorted CDXJ index of the archive's .warc.gz. Each line's filename is the
// .warc.gz's path in the tree.
func (a Archive) writeCDXJ(ctx context.Context, w io.Writer) (err error) {
	name := a.host.Place + "/" + a.base + formWARC
	index := archive.NewCDXJ(name)
	defer func() { err = errors.Join(err, index.Close()) }()
	err = a.eachPart(ctx, func(p archive.Part, _ catalog.SegmentEntry) error { return index.Add(p) })
	if err == nil {
		err = index.Write(ctx, w)
	}
	if err != nil {
		return fmt.Errorf("index of %s: %w", name, err)
	}
	return nil
}

// warcLength returns the length of an index's records in a WARC view, in bytes.
func warcLength(x *archive.Index) int64 {
	n := int64(0)
	for i := range x.Cells {
		n += x.Cells[i].WARCLength()
	}
	return n
}

// WARCOffset says where a record lies in its edition's .warc.gz: the file's path in the tree,
// without the slash before it, and the offset in bytes. The record is the cell at cellOffset in the
// segment, and before is the length of the segment's records before it in a WARC view.
func (h *Host) WARCOffset(ctx context.Context, seg catalog.SegmentEntry, cellOffset, before int64) (file string, offset int64, err error) {
	file, offset = h.Place+"/"+seg.Edition+formWARC, archive.WARCStart()+before
	for i := range h.Segments { // a long list is not copied for each record
		s := &h.Segments[i]
		if s.Edition != seg.Edition {
			continue
		}
		out, err := h.leftOut(ctx, s)
		if err != nil {
			return "", 0, err
		}
		if s.Seq == seg.Seq {
			n, _ := slices.BinarySearchFunc(out, cellOffset, func(c leftOut, offset int64) int { return cmp.Compare(c.offset, offset) })
			return file, offset - lengthOf(out[:n]), nil
		}
		length, err := h.recordLength(ctx, *s)
		if err != nil {
			return "", 0, err
		}
		offset += length - lengthOf(out)
	}
	return "", 0, fmt.Errorf("%s: the edition lacks the segment %d", file, seg.Seq)
}

// leftOut is a record that is taken down or hidden: its cell's offset in its segment, and the
// length of all such records of the segment up to it in a WARC view.
type leftOut struct{ offset, end int64 }

func lengthOf(out []leftOut) int64 {
	if n := len(out); n > 0 {
		return out[n-1].end
	}
	return 0
}

// leftOut returns what a segment lacks, in its order.
func (h *Host) leftOut(ctx context.Context, seg *catalog.SegmentEntry) ([]leftOut, error) {
	if !h.MayLack(*seg) {
		return nil, nil
	}
	return cache.GetOrCompute(ctx, h.from.Memo, fmt.Sprint("left out ", seg.Seq, " ", seg.SHA256, h.Lacks()), func(ctx context.Context) (out []leftOut, cost int64, err error) {
		index, err := h.from.Segments.ReadIndex(ctx, *seg) // not cached: it would push out many such lists
		if err != nil {
			return nil, 0, err
		}
		for i := range index.Cells {
			if c := &index.Cells[i]; h.Gone(*seg, c.URL, c.Time) {
				out = append(out, leftOut{c.Offset, lengthOf(out) + c.WARCLength()})
			}
		}
		return out, int64(4+len(out)) * 16, nil
	})
}

// recordLength returns the length of a segment's records in a WARC view, in bytes.
func (h *Host) recordLength(ctx context.Context, seg catalog.SegmentEntry) (int64, error) {
	if known, ok := seg.Views[string(archive.WARC)]; ok {
		return known.Size - archive.WARCStart(), nil
	}
	index, err := h.from.Segments.Index(ctx, seg)
	if err != nil {
		return 0, err
	}
	return warcLength(index), nil
}

// maxHashed is the size up to which a WACZ's data is read for a digest that the catalog does not
// know. A larger WACZ gets no digest: its index and its records have digests of their own.
const maxHashed = 64 << 20

// wacz computes the archive's .wacz.
func (a Archive) wacz(ctx context.Context) (*archive.WACZ, error) {
	return cache.GetOrCompute(ctx, a.host.from.Memo, a.key("wacz", a.base), func(ctx context.Context) (*archive.WACZ, int64, error) {
		parts, _, err := a.parts(ctx)
		if err != nil {
			return nil, 0, err
		}
		sum, err := a.warcSum(ctx)
		if err != nil {
			return nil, 0, fmt.Errorf("host %s: %w", a.host.Name, err)
		}
		z, err := archive.NewWACZ(ctx, parts, archive.WACZOptions{
			Title: a.host.Name + " " + a.base, Created: a.published(), WARCSHA256: sum,
		})
		if err != nil {
			return nil, 0, fmt.Errorf("host %s: %w", a.host.Name, NoSpace(err))
		}
		return z, z.Held(), nil
	})
}

// warcSum returns the SHA-256 of the archive's WARC view. It is empty if it is not known and the
// view is large.
func (a Archive) warcSum(ctx context.Context) (string, error) {
	v, known, err := a.view(ctx, archive.WARC)
	if known || err != nil {
		return v.SHA256, err
	}
	view, err := a.assemble(ctx, archive.WARC)
	if err != nil || view.Size() > maxHashed {
		return "", err
	}
	return sha256Of(ctx, view)
}

// The others of an archive are the records of imported files that are in no segment: requests,
// metadata, DNS answers and so on, as they were imported. If an answer had to be truncated, its
// whole record is among them. The others of a batch are one object, in which those of a host lie
// together. The catalog's entry of a segment says where its host's others lie. An edition has the
// others of its batches; current has none, as they stand for no page.

func hasOthers(seg catalog.SegmentEntry) bool {
	_, ok := seg.Views[wire.ViewOthers]
	return ok
}

// anyOthers reports whether the archive has others. The latest versions have none.
func (a Archive) anyOthers() bool { return !a.latest && slices.ContainsFunc(a.segments, hasOthers) }

// others returns the archive's file of others. It fails with ErrNotFound if the archive has none.
func (a Archive) others(ctx context.Context, f Form) (*Entry, error) {
	switch {
	case !a.anyOthers():
		return nil, ErrNotFound
	case a.host.Lacks() == "": // all others of the batches: their stored bytes
		return a.computed(ctx, f)
	}
	return a.document(ctx, f, a.key("others"), a.writeOthers)
}

// joinedOthers are the others of several batches, one after another.
type joinedOthers struct {
	Joined
	size int64
	etag string
}

func (j *joinedOthers) Size() int64  { return j.size }
func (j *joinedOthers) ETag() string { return j.etag }

// joinOthers joins the stored others of the archive's batches.
func (a Archive) joinOthers() *joinedOthers {
	j := new(joinedOthers)
	var (
		parts []Ranges
		ends  []int64 // of each part
	)
	sum := sha256.New()
	for _, seg := range a.segments {
		if hasOthers(seg) {
			view := seg.Views[wire.ViewOthers]
			j.size += view.Size
			parts, ends = append(parts, a.host.from.Segments.Others(seg)), append(ends, j.size)
			fmt.Fprintf(sum, "%s ", view.SHA256)
		}
	}
	j.etag = `"others-` + hex.EncodeToString(sum.Sum(nil)[:16]) + `"`
	j.Parts, j.End = len(parts), func(i int) int64 { return ends[i] }
	j.Open = func(_ context.Context, i int, _ int64) (Ranges, error) { return parts[i], nil }
	return j
}

// writeOthers writes the others, without those that are taken down or hidden.
func (a Archive) writeOthers(ctx context.Context, w io.Writer) error {
	for _, seg := range a.segments {
		if !hasOthers(seg) {
			continue
		}
		if err := a.host.writeOthersOf(ctx, w, seg); err != nil {
			return fmt.Errorf("others of %s in edition %s: %w", a.host.Name, seg.Edition, err)
		}
	}
	return nil
}

func (h *Host) writeOthersOf(ctx context.Context, w io.Writer, seg catalog.SegmentEntry) error {
	stored, err := h.from.Segments.Others(seg).OpenRange(ctx, 0, seg.Views[wire.ViewOthers].Size)
	if err != nil {
		return err
	}
	defer stored.Close()
	if !h.MayLack(seg) {
		_, err := io.Copy(w, stored)
		return err
	}
	in := bufio.NewReaderSize(stored, 64<<10)
	zr, err := gzip.NewReader(in)
	out := gzip.NewWriter(nil)
	for ; err == nil; err = zr.Reset(in) {
		zr.Multistream(false)
		if err := h.writeOther(out, w, zr, seg); err != nil {
			return err
		}
	}
	if err == io.EOF { // no more records
		err = nil
	}
	return err
}

// writeOther writes one of the others, unless it is taken down or hidden.
func (h *Host) writeOther(out *gzip.Writer, w io.Writer, record io.Reader, seg catalog.SegmentEntry) error {
	in := bufio.NewReaderSize(record, 16<<10)
	var head bytes.Buffer
	target, at := "", time.Time{}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("a record's header: %w", err)
		}
		head.Write(line)
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		switch name, value, _ := strings.Cut(text, ":"); strings.ToLower(name) {
		case "warc-target-uri":
			target = strings.Trim(value, "<> \t")
		case "warc-date":
			at, _ = time.Parse(time.RFC3339, strings.TrimSpace(value)) // zero if it fails: not known
		}
	}
	if !h.leavesOther(seg, target, at) {
		_, err := io.Copy(io.Discard, in)
		return err
	}
	out.Reset(w)
	if _, err := io.Copy(out, io.MultiReader(&head, in)); err != nil {
		return err
	}
	return out.Close()
}

// leavesOther reports whether one of the others may be shown while some pages are taken down or
// hidden. A record that does not name its page, such as a crawler's log, may tell about those
// pages, so it is not shown.
func (h *Host) leavesOther(seg catalog.SegmentEntry, target string, at time.Time) bool {
	if strings.HasPrefix(strings.ToLower(target), "dns:") {
		return true
	}
	url, err := weburl.About(target)
	return err == nil && !h.Gone(seg, url, at)
}
