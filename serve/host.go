package serve

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// The names of a host's archives that are no edition's.
const (
	baseCurrent = "current"
	baseAll     = "all"
)

// host is one host as one visit sees it: its segments in order of publication.
type host struct {
	*visit
	name  string
	place string // in the tree
	lines []catalog.SegmentEntry
	taken []catalog.Tombstone // those that cover single URLs

	last struct { // see resolved
		sync.Mutex // guards what follows
		key        string
		pages      *originals
	}
}

func (v *visit) hostOf(name, place string, lines []catalog.SegmentEntry) *host {
	h := &host{visit: v, name: name, place: place, lines: lines}
	for _, t := range v.snap.Tombstones(name) {
		if t.URLPrefix != "" {
			h.taken = append(h.taken, t)
		}
	}
	return h
}

func (h *host) modified() time.Time { return h.lines[len(h.lines)-1].Published }

// archives yields the host's archives: editions, oldest first, current, all. It looks at
// each line once, however many editions there are.
func (h *host) archives() iter.Seq[selection] {
	return func(yield func(selection) bool) {
		for a := range h.brought() {
			if !yield(a) {
				return
			}
		}
		if yield(h.archive(baseCurrent)) {
			yield(h.archive(baseAll))
		}
	}
}

// brought yields what each edition brought of the host, oldest first.
func (h *host) brought() iter.Seq[selection] {
	return func(yield func(selection) bool) {
		for from := 0; from < len(h.lines); {
			edition, to := h.lines[from].Edition, from+1
			for to < len(h.lines) && h.lines[to].Edition == edition {
				to++
			}
			if !yield(selection{host: h, base: edition, lines: h.lines[from:to]}) {
				return
			}
			from = to
		}
	}
}

// isEdition reports whether the archive is what one edition brought.
func (s selection) isEdition() bool { return s.base != baseCurrent && s.base != baseAll }

func (v *visit) hostFiles(ctx context.Context, place string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		h, err := v.host(ctx, place)
		if err != nil {
			yield(Node{}, err)
			return
		}
		if h != nil {
			h.files(ctx)(yield)
		}
	}
}

// files yields the host's files, of which there may be tens of thousands: nothing of
// what it yields is held.
func (h *host) files(ctx context.Context) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for a := range h.archives() {
			for _, f := range forms {
				if !a.offers(f) {
					continue
				}
				e, err := a.listedFile(ctx, f)
				if err != nil {
					yield(Node{}, fmt.Errorf("%s: %w", a.base+f.suffix, err))
					return
				}
				e.Fixed = a.isEdition()
				if !yield(e.Node, nil) {
					return
				}
			}
		}
		for _, name := range []string{fileManifest, fileSums} {
			e, err := h.file(ctx, name)
			if err != nil {
				yield(Node{}, fmt.Errorf("%s: %w", name, err))
				return
			}
			if !yield(e.Node, nil) {
				return
			}
		}
	}
}

func (v *visit) hostFile(ctx context.Context, place, name string) (*entry, error) {
	h, err := v.host(ctx, place)
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nil, ErrNotFound
	}
	return h.file(ctx, name)
}

// file finds one file of the host.
func (h *host) file(ctx context.Context, name string) (*entry, error) {
	e, err := h.anyFile(ctx, name)
	if base, _, ok := cutForm(name); ok && err == nil {
		e.Fixed = slices.ContainsFunc(h.lines, func(l catalog.SegmentEntry) bool { return l.Edition == base })
	}
	return e, err
}

func (h *host) anyFile(ctx context.Context, name string) (*entry, error) {
	everything := h.archive(baseAll)
	switch name {
	case fileManifest:
		return h.document(ctx, everything.key(), name, "application/x-ndjson", h.modified(), h.writeManifest)
	case fileSums:
		return h.document(ctx, everything.key(), name, "text/plain; charset=utf-8", h.modified(), h.writeSums)
	}
	base, f, ok := cutForm(name)
	if !ok {
		return nil, ErrNotFound
	}
	a := h.archive(base)
	if len(a.lines) == 0 {
		return nil, ErrNotFound
	}
	if f.suffix == formCDXJ {
		return h.document(ctx, a.key(), name, f.media, a.modified(), a.writeCDXJ)
	}
	return a.listedFile(ctx, f)
}

// left returns the cells of a segment that are not taken down; nil is all of them.
func (h *host) left(l catalog.SegmentEntry, index *archive.Index) []int {
	cells := make([]int, 0, len(index.Cells))
	for i := range index.Cells {
		if !h.gone(l, index.Cells[i].URL) {
			cells = append(cells, i)
		}
	}
	if len(cells) == len(index.Cells) {
		return nil
	}
	return cells
}

// gone reports whether a URL of a segment is taken down.
func (h *host) gone(l catalog.SegmentEntry, url string) bool {
	return slices.ContainsFunc(h.taken, func(t catalog.Tombstone) bool {
		return (t.Edition == "" || t.Edition == l.Edition) && strings.HasPrefix(url, t.URLPrefix)
	})
}

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }
