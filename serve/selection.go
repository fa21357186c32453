package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
)

// selection is what one archive of a host is made of.
type selection struct {
	*host
	base   string // of the archive's name
	lines  []catalog.SegmentEntry
	latest bool // only the record that stands for each URL now
}

func (h *host) archive(base string) selection {
	switch base {
	case baseAll:
		return selection{host: h, base: base, lines: h.lines}
	case baseCurrent:
		return selection{host: h, base: base, lines: h.lines, latest: true}
	}
	in := func(edition string) bool { return edition == base }
	if from, to, ok := cutSpan(base); ok {
		in = func(edition string) bool { return from <= day(edition) && day(edition) <= to }
	}
	var of []catalog.SegmentEntry
	for _, l := range h.lines {
		if in(l.Edition) {
			of = append(of, l)
		}
	}
	return selection{host: h, base: base, lines: of}
}

// cutSpan divides a name such as 20261101-20261121 into the span's first and last
// day. An edition's name is none: what follows its day is a short number.
func cutSpan(base string) (from, to string, ok bool) {
	from, to, ok = strings.Cut(base, "-")
	return from, to, ok && isDay(from) && isDay(to) && from <= to
}

func isDay(s string) bool {
	_, err := time.Parse(dayLayout, s)
	return err == nil
}

const dayLayout = "20060102"

// day is the day in an edition's name.
func day(edition string) string { return edition[:min(len(dayLayout), len(edition))] }

func (s selection) modified() time.Time { return s.lines[len(s.lines)-1].Published }

// whole reports whether the archive is one whole segment, of which the catalog knows the digests.
func (s selection) whole(ctx context.Context) (bool, error) {
	if len(s.lines) != 1 || s.latest {
		return false, nil
	}
	touched, err := s.touched(ctx)
	return !touched, err
}

// touched reports whether records of the selection's segments are taken down by their URLs.
func (s selection) touched(ctx context.Context) (bool, error) {
	for _, l := range s.lines {
		if !slices.ContainsFunc(s.taken, func(t catalog.Tombstone) bool { return t.Edition == "" || t.Edition == l.Edition }) {
			continue
		}
		index, err := s.index(ctx, l)
		if err != nil {
			return false, err
		}
		if s.left(l, index) != nil {
			return true, nil
		}
	}
	return false, nil
}

// digest returns the SHA-256 of the archive's file in a form: the one that is known or, where records of its
// segment are taken down, that of what remains, for which all of it is read once. It is empty where the file
// is of several segments.
func (s selection) digest(ctx context.Context, e *entry, f form) (string, error) {
	if e.SHA256 != "" || len(s.lines) != 1 || s.latest || s.base == baseAll {
		return e.SHA256, nil
	}
	return recall(ctx, s.cache, s.key("digest", f.suffix), func(ctx context.Context) (string, int64, error) {
		in, err := s.content(ctx, f)
		if err != nil {
			return "", 0, err
		}
		r, err := in.OpenRange(ctx, 0, in.Size())
		if err != nil {
			return "", 0, err
		}
		defer r.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			return "", 0, fmt.Errorf("digest of %s: %w", e.Name, err)
		}
		return hex.EncodeToString(sum.Sum(nil)), 256, nil
	})
}

// file describes the archive in one form, out of the catalog alone where that knows it.
func (s selection) file(ctx context.Context, name string, f form) (*entry, error) {
	e := &entry{
		Node: Node{Name: name, Modified: whole(s.modified()), Type: f.media},
		open: func(ctx context.Context) (ranges, error) { return s.content(ctx, f) },
	}
	whole, err := s.whole(ctx)
	if err != nil {
		return nil, err
	}
	if known, ok := s.lines[0].Views[string(f.kind)]; ok && whole {
		e.Size, e.ETag, e.SHA256 = known.Size, known.ETag, known.SHA256
		return e, nil
	}
	a, err := s.content(ctx, f)
	if err != nil {
		return nil, err
	}
	e.Size, e.ETag = a.Size(), a.ETag()
	return e, nil
}

// sized are ranges of a whole whose size and tag are known.
type sized interface {
	ranges
	Size() int64
	ETag() string
}

// content is what is in the archive's file of a form.
func (s selection) content(ctx context.Context, f form) (sized, error) {
	switch {
	case f.suffix == formWACZ:
		return s.wacz(ctx)
	case f.kind == viewOthers:
		return s.joinOthers(), nil
	}
	return s.assemble(ctx, f.kind)
}

// Bytes that a cached index and a cached view take for each record, about.
const (
	indexCost = 600
	viewCost  = 200
)

// assemble computes the archive's view, or finds it computed.
func (s selection) assemble(ctx context.Context, kind archive.ViewKind) (*archive.View, error) {
	return recall(ctx, s.cache, s.key("view", string(kind)), func(ctx context.Context) (*archive.View, int64, error) {
		parts, _, err := s.parts(ctx)
		if err != nil {
			return nil, 0, err
		}
		view, err := archive.NewView(kind, parts)
		if err != nil {
			return nil, 0, fmt.Errorf("host %s: %w", s.name, err)
		}
		cost := int64(viewCost)
		for _, p := range parts {
			cost += int64(len(p.Index.Cells)) * viewCost
		}
		return view, cost, nil
	})
}

// key names what is computed of a selection: the same for as long as the host's
// own lines and take-downs are the same.
func (s selection) key(what ...string) string {
	d := sha256.New()
	fmt.Fprintf(d, "%q %q %v", what, s.name, s.latest)
	for _, l := range s.lines {
		fmt.Fprintf(d, " %d %s %s", l.Seq, l.Edition, l.SHA256)
	}
	for _, t := range s.taken {
		fmt.Fprintf(d, " %q %q", t.Edition, t.URLPrefix)
	}
	return hex.EncodeToString(d.Sum(nil))
}

// parts reads the indexes of the selection and chooses its records.
func (s selection) parts(ctx context.Context) ([]archive.Part, []catalog.SegmentEntry, error) {
	parts := make([]archive.Part, len(s.lines))
	load, loadCtx := errgroup.WithContext(ctx)
	load.SetLimit(8)
	for i, l := range s.lines {
		load.Go(func() error {
			index, err := s.index(loadCtx, l)
			if err != nil {
				return err
			}
			parts[i] = archive.Part{Source: s.source(l), Index: index, Digest: l.SHA256, Cells: s.left(l, index)}
			return nil
		})
	}
	if err := load.Wait(); err != nil {
		return nil, nil, err
	}
	if s.latest {
		parts = latest(parts)
	}
	var (
		kept  []archive.Part
		lines []catalog.SegmentEntry
	)
	for i, p := range parts {
		if p.Cells == nil || len(p.Cells) > 0 {
			kept, lines = append(kept, p), append(lines, s.lines[i])
		}
	}
	return kept, lines, nil
}

func (l *Library) source(line catalog.SegmentEntry) archive.Source {
	return store.Source(l.Store, line.Object, line.Offset)
}

func (l *Library) index(ctx context.Context, line catalog.SegmentEntry) (*archive.Index, error) {
	return recall(ctx, l.cache, "index "+line.SHA256, func(ctx context.Context) (*archive.Index, int64, error) {
		index, err := archive.ReadIndexAt(ctx, l.source(line), line.IndexOffset, line.IndexLength)
		if err != nil {
			return nil, 0, fmt.Errorf("index of %s in edition %s: %w", line.Host, line.Edition, err)
		}
		return index, int64(1+len(index.Cells)) * indexCost, nil
	})
}

// chosen yields the numbers of a part's cells.
func chosen(p archive.Part) iter.Seq[int] {
	return func(yield func(int) bool) {
		if p.Cells != nil {
			slices.Values(p.Cells)(yield)
			return
		}
		for i := range p.Index.Cells {
			if !yield(i) {
				return
			}
		}
	}
}
