package serve

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// The records of imported files that are in no segment: requests, metadata, DNS and the like, each as it came, and of an
// answer that had to be cut all of it. They lie beside their batch, a host's together, and the catalog's line says where.
// An edition has those that came with its batches; current has none, as they stand for no page.

// viewOthers is the name of the form among a line's views. It is none that an archive.View puts together.
const viewOthers = archive.ViewKind(wire.ViewOthers)

func hasOthers(l catalog.SegmentEntry) bool { _, ok := l.Views[wire.ViewOthers]; return ok }

// anyOthers reports whether the archive has such records.
func (s selection) anyOthers() bool { return !s.latest && slices.ContainsFunc(s.lines, hasOthers) }

// wholeOthers reports whether they are all those of the batches, whose stored bytes they are then.
func (s selection) wholeOthers() bool { return len(s.taken) == 0 }

// others finds these records.
func (s selection) others(ctx context.Context, name string, f form) (*entry, error) {
	switch {
	case !s.anyOthers():
		return nil, ErrNotFound
	case s.wholeOthers():
		return s.file(ctx, name, f)
	}
	return s.document(ctx, s.key("others"), name, f.media, s.modified(), s.writeOthers)
}

func (h *host) othersOf(l catalog.SegmentEntry) archive.Source {
	return store.Source(h.Store, wire.OthersKey(wire.BatchID(l.Batch)), l.Views[wire.ViewOthers].Offset)
}

// joinOthers joins what lies beside the batches.
func (s selection) joinOthers() *joined {
	j := new(joined)
	sum := sha256.New()
	for _, l := range s.lines {
		if hasOthers(l) {
			view := l.Views[wire.ViewOthers]
			j.parts = append(j.parts, joinedPart{s.othersOf(l), view.Size})
			j.size += view.Size
			fmt.Fprintf(sum, "%s ", view.SHA256)
		}
	}
	j.etag = `"others-` + hex.EncodeToString(sum.Sum(nil)[:16]) + `"`
	return j
}

// joined is files one after another.
type joined struct {
	parts []joinedPart
	size  int64
	etag  string
}

type joinedPart struct {
	src  archive.Source
	size int64
}

// Size and ETag implement sized.
func (j *joined) Size() int64  { return j.size }
func (j *joined) ETag() string { return j.etag }

// OpenRange implements ranges.
func (j *joined) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r := &joinedReader{ctx: ctx}
	for _, p := range j.parts {
		from, to := min(off, p.size), min(off+n, p.size)
		if from = max(from, 0); from < to {
			r.left = append(r.left, joinedRange{p.src, from, to - from})
		}
		off -= p.size
	}
	return r, nil
}

type joinedRange struct {
	src    archive.Source
	off, n int64
}

// joinedReader opens each part when the one before has been read.
type joinedReader struct {
	ctx  context.Context
	left []joinedRange
	in   io.ReadCloser
}

func (r *joinedReader) Read(p []byte) (int, error) {
	for {
		if r.in == nil {
			if len(r.left) == 0 {
				return 0, io.EOF
			}
			next := r.left[0]
			in, err := next.src.OpenRange(r.ctx, next.off, next.n)
			if err != nil {
				return 0, err
			}
			r.in, r.left = in, r.left[1:]
		}
		n, err := r.in.Read(p)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := r.Close(); err != nil || n > 0 {
			return n, err
		}
	}
}

// Close ends the part that is open.
func (r *joinedReader) Close() error {
	in := r.in
	if r.in = nil; in == nil {
		return nil
	}
	return in.Close()
}

// writeOthers writes the records that are left where some URLs are taken down.
func (s selection) writeOthers(ctx context.Context, w io.Writer) error {
	for _, l := range s.lines {
		if !hasOthers(l) {
			continue
		}
		if err := s.writeOthersOf(ctx, w, l); err != nil {
			return fmt.Errorf("records beside %s in edition %s: %w", s.name, l.Edition, err)
		}
	}
	return nil
}

func (h *host) writeOthersOf(ctx context.Context, w io.Writer, l catalog.SegmentEntry) error {
	stored, err := h.othersOf(l).OpenRange(ctx, 0, l.Views[wire.ViewOthers].Size)
	if err != nil {
		return err
	}
	defer stored.Close()
	if !slices.ContainsFunc(h.taken, func(t catalog.Tombstone) bool { return t.Edition == "" || t.Edition == l.Edition }) {
		_, err := io.Copy(w, stored)
		return err
	}
	in := bufio.NewReaderSize(stored, 64<<10)
	zr, err := gzip.NewReader(in)
	out := gzip.NewWriter(nil)
	for ; err == nil; err = zr.Reset(in) {
		zr.Multistream(false)
		if err := h.writeOther(out, w, zr, l); err != nil {
			return err
		}
	}
	if err == io.EOF { // no further record
		err = nil
	}
	return err
}

// writeOther writes a record, or leaves it out.
func (h *host) writeOther(out *gzip.Writer, w io.Writer, record io.Reader, l catalog.SegmentEntry) error {
	in := bufio.NewReaderSize(record, 16<<10)
	var head bytes.Buffer
	target := ""
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
		if name, value, _ := strings.Cut(text, ":"); strings.EqualFold(name, "WARC-Target-URI") {
			target = strings.Trim(value, "<> \t")
		}
	}
	if !h.leaves(l, target) {
		_, err := io.Copy(io.Discard, in)
		return err
	}
	out.Reset(w)
	if _, err := io.Copy(out, io.MultiReader(&head, in)); err != nil {
		return err
	}
	return out.Close()
}

// leaves reports whether a record with a target is left where some URLs are taken down. One that does not name the page
// that it is about, such as a crawler's log, may tell of those: it is not.
func (h *host) leaves(l catalog.SegmentEntry, target string) bool {
	if strings.HasPrefix(strings.ToLower(target), "dns:") {
		return true
	}
	url, err := weburl.Parse("", target, nil)
	return err == nil && !h.gone(l, url)
}
