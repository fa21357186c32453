package library

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/cache"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// Names of a host's archives that belong to no edition.
const (
	Current = "current" // the latest version of every page
	baseAll = "all"     // everything
)

// Archive is one archive of a host: of an edition or a span of days, current or all.
type Archive struct {
	host     *Host
	base     string                 // of its files' names
	segments []catalog.SegmentEntry // what it consists of
	latest   bool                   // only the record that stands for each URL now
}

// Named returns the archive with a base name: an edition, a span of days, current or all. The
// archive has no segments if the host has nothing of that name.
func (h *Host) Named(base string) Archive {
	if base == baseAll || base == Current {
		return Archive{h, base, h.Segments, base == Current}
	}
	in := func(edition string) bool { return edition == base }
	if from, to, ok := cutSpan(base); ok {
		in = func(edition string) bool { return from <= catalog.DayOf(edition) && catalog.DayOf(edition) <= to }
	}
	var of []catalog.SegmentEntry
	for _, seg := range h.Segments {
		if in(seg.Edition) {
			of = append(of, seg)
		}
	}
	return Archive{h, base, of, false}
}

// editions yields the archive of each edition that brought something of the host, oldest first. It
// looks at each segment once, since there may be tens of thousands of editions.
func (h *Host) editions() iter.Seq[Archive] {
	return func(yield func(Archive) bool) {
		for from := 0; from < len(h.Segments); {
			edition, to := h.Segments[from].Edition, from+1
			for to < len(h.Segments) && h.Segments[to].Edition == edition {
				to++
			}
			if !yield(Archive{h, edition, h.Segments[from:to], false}) {
				return
			}
			from = to
		}
	}
}

// all yields the editions' archives, then current and all.
func (h *Host) all() iter.Seq[Archive] {
	return func(yield func(Archive) bool) {
		for a := range h.editions() {
			if !yield(a) {
				return
			}
		}
		_ = yield(h.Named(Current)) && yield(h.Named(baseAll))
	}
}

// cutSpan divides a name such as 20261101-20261121 into the span's first and last day. An edition's
// name is no span: what follows its day is a short number.
func cutSpan(base string) (from, to string, ok bool) {
	from, to, ok = strings.Cut(base, "-")
	return from, to, ok && isDay(from) && isDay(to) && from <= to
}

const dayLayout = "20060102"

func isDay(s string) bool {
	_, err := time.Parse(dayLayout, s)
	return err == nil
}

func (a Archive) isEdition() bool { return a.base != Current && a.base != baseAll }

func (a Archive) published() time.Time { return a.segments[len(a.segments)-1].Published }

// LastModified returns the time when something of the host was last published, taken down, hidden
// or shown again.
func (h *Host) LastModified() time.Time {
	return h.Modified(h.Named(baseAll).published(), Any, true)
}

// modified returns the time when the archive's files last changed. An edition's files change when
// some of its records are taken down by their URLs, hidden or shown again.
func (a Archive) modified(ctx context.Context) (time.Time, error) {
	published := a.published()
	if !a.host.Altered() {
		return published, nil
	}
	if slices.ContainsFunc(a.segments, func(seg catalog.SegmentEntry) bool { return seg.Edition != a.base }) || !a.isEdition() {
		return a.host.Modified(published, Any, true), nil
	}
	return a.editionModified(ctx, published)
}

// editionModified is modified for one edition.
func (a Archive) editionModified(ctx context.Context, published time.Time) (time.Time, error) {
	key := a.key("modified", fmt.Sprint(a.host.LastModified()))
	return cache.GetOrCompute(ctx, a.host.from.Memo, key, func(ctx context.Context) (time.Time, int64, error) {
		var urls []string // read only if some of them may be taken down or hidden
		hidden, named := false, a.host.NamesURLs(a.base)
		for _, seg := range a.segments {
			if !named && !a.host.MayHide(seg) {
				continue
			}
			index, err := a.host.from.Segments.Index(ctx, seg)
			if err != nil {
				return published, 0, err
			}
			hidden = hidden || a.host.Hidden(seg, index)
			for i := range index.Cells {
				urls = append(urls, index.Cells[i].URL)
			}
		}
		return a.host.Modified(published, func(x catalog.Alteration) bool {
			named := weburl.PrefixOf(x.URLPrefix)
			return x.Collection != "" || x.URLPrefix != "" && (x.Edition == "" || x.Edition == a.base) && slices.ContainsFunc(urls, named.Holds)
		}, hidden), 256, nil
	})
}

// touched reports whether records of the archive's segments are taken down by their URLs or hidden.
func (a Archive) touched(ctx context.Context) (bool, error) {
	for i := range a.segments {
		if out, err := a.host.leftOut(ctx, &a.segments[i]); err != nil || len(out) > 0 {
			return true, err
		}
	}
	return false, nil
}

// view returns the size and digest that the catalog has for the archive's file of a kind. known is
// false unless the archive is one whole segment.
func (a Archive) view(ctx context.Context, kind archive.ViewKind) (v catalog.View, known bool, err error) {
	if len(a.segments) != 1 || a.latest {
		return v, false, nil
	}
	seg := a.segments[0]
	switch v, known = seg.Views[string(kind)]; {
	case kind == archive.Members && seg.IndexLength > 0: // the segment itself
		v = catalog.View{Size: seg.Length, SHA256: seg.SHA256, ETag: archive.SegmentETag(kind, seg.SHA256)}
	case !known:
		return v, false, nil
	}
	touched, err := a.touched(ctx)
	return v, !touched && err == nil, err
}

// digest returns the SHA-256 of the archive's file in a form. A digest that the entry lacks is
// computed once for an edition of one segment, and is empty for all other archives.
func (a Archive) digest(ctx context.Context, e *Entry, f Form) (string, error) {
	if e.SHA256 != "" || len(a.segments) != 1 || !a.isEdition() {
		return e.SHA256, nil
	}
	return cache.GetOrCompute(ctx, a.host.from.Memo, a.key("digest", f.Suffix), func(ctx context.Context) (string, int64, error) {
		in, err := a.content(ctx, f)
		if err != nil {
			return "", 0, err
		}
		sum, err := sha256Of(ctx, in)
		if err != nil {
			return "", 0, fmt.Errorf("digest of %s: %w", e.Name, err)
		}
		return sum, 256, nil
	})
}

// sized are a file's bytes with their size and ETag.
type sized interface {
	Ranges
	Size() int64
	ETag() string
}

func sha256Of(ctx context.Context, in sized) (string, error) {
	r, err := in.OpenRange(ctx, 0, in.Size())
	if err != nil {
		return "", err
	}
	defer r.Close()
	sum, _, err := wire.DigestOf(r)
	return sum, err
}

// content returns the bytes of the archive's file in a form.
func (a Archive) content(ctx context.Context, f Form) (sized, error) {
	switch {
	case f.Suffix == formWACZ:
		return a.wacz(ctx)
	case f.Kind == viewOthers:
		return a.joinOthers(), nil
	}
	return a.assemble(ctx, f.Kind)
}

// assemble computes the archive's view of a kind.
func (a Archive) assemble(ctx context.Context, kind archive.ViewKind) (*archive.View, error) {
	return cache.GetOrCompute(ctx, a.host.from.Memo, a.key("view", string(kind)), func(ctx context.Context) (*archive.View, int64, error) {
		parts, _, err := a.parts(ctx)
		if err != nil {
			return nil, 0, err
		}
		view, err := archive.NewView(kind, parts)
		if err != nil {
			return nil, 0, fmt.Errorf("host %s: %w", a.host.Name, err)
		}
		return view, view.Held(), nil
	})
}

// key returns a cache key for what is computed of an archive. It depends on the archive's segments,
// and on what is taken down by URL or hidden.
func (a Archive) key(what ...string) string {
	d := sha256.New()
	fmt.Fprintf(d, "%q %q %v", what, a.host.Name, a.latest)
	for _, seg := range a.segments {
		fmt.Fprintf(d, " %d %s %s", seg.Seq, seg.Edition, seg.SHA256)
	}
	fmt.Fprint(d, a.host.Lacks())
	return hex.EncodeToString(d.Sum(nil))
}

// readParts reads the indexes of the archive's segments.
func (a Archive) readParts(ctx context.Context) ([]archive.Part, error) {
	parts := make([]archive.Part, len(a.segments))
	read, readCtx := errgroup.WithContext(ctx)
	read.SetLimit(8)
	for i, seg := range a.segments {
		read.Go(func() error {
			index, err := a.host.from.Segments.Index(readCtx, seg)
			if err != nil {
				return err
			}
			parts[i] = archive.Part{Source: a.host.from.Segments.Source(seg), Index: index, Digest: seg.SHA256, Cells: a.host.Left(seg, index)}
			return nil
		})
	}
	return parts, read.Wait()
}

// parts reads the indexes of the archive's segments and chooses its records. It leaves out segments
// without a chosen record.
func (a Archive) parts(ctx context.Context) (kept []archive.Part, segments []catalog.SegmentEntry, err error) {
	parts, err := a.readParts(ctx)
	if err != nil {
		return nil, nil, err
	}
	if a.latest {
		parts = latest(parts)
	}
	for i, p := range parts {
		if p.Cells == nil || len(p.Cells) > 0 {
			kept, segments = append(kept, p), append(segments, a.segments[i])
		}
	}
	return kept, segments, nil
}

// eachPart calls f with the parts of the archive, in their order. It holds one index at a time,
// unless the archive has only the latest versions.
func (a Archive) eachPart(ctx context.Context, f func(archive.Part, catalog.SegmentEntry) error) error {
	if a.latest {
		parts, segments, err := a.parts(ctx)
		for i := 0; err == nil && i < len(parts); i++ {
			err = f(parts[i], segments[i])
		}
		return err
	}
	for _, seg := range a.segments {
		one := a
		one.segments = []catalog.SegmentEntry{seg}
		parts, _, err := one.parts(ctx)
		if err == nil && len(parts) > 0 {
			err = f(parts[0], seg)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
