package library

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

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
