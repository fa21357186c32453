package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// The links of an archive: of each page that its robot took, where it leads. A line is
// source TAB target TAB kind; see archive/FORMAT.md. An edition holds the links of the pages
// that it brought, current those of every page that stands now, as current's archives do.

// hasLinks reports whether a robot wrote down the links of a segment.
func hasLinks(l catalog.SegmentEntry) bool { _, ok := l.Views[string(archive.Links)]; return ok }

// offers reports whether the archive is listed in a form. The links of current are not: they are chosen
// from all that is stored, and their size is known only when they are written.
func (s selection) offers(f form) bool {
	switch f.kind {
	case archive.Links:
		return s.anyLinks() && !s.latest
	case viewOthers:
		return s.anyOthers()
	}
	return f.listed
}

// listedFile finds the archive's file in a form that it offers.
func (s selection) listedFile(ctx context.Context, f form) (*entry, error) {
	name := s.base + f.suffix
	switch f.kind {
	case archive.Links:
		return s.links(ctx, name, f)
	case viewOthers:
		return s.others(ctx, name, f)
	}
	return s.file(ctx, name, f)
}

func (s selection) anyLinks() bool {
	for _, l := range s.lines {
		if hasLinks(l) {
			return true
		}
	}
	return false
}

// links finds the archive's links.
func (s selection) links(ctx context.Context, name string, f form) (*entry, error) {
	if !s.anyLinks() {
		return nil, ErrNotFound
	}
	touched, err := s.touched(ctx)
	if err != nil {
		return nil, err
	}
	if !s.latest && !touched { // all those of the segments, whose stored bytes they are then
		return s.file(ctx, name, f)
	}
	return s.document(ctx, s.key(), name, f.media, s.modified(), s.writeLinks)
}

// writeLinks writes the links of the chosen records.
func (s selection) writeLinks(ctx context.Context, w io.Writer) error {
	parts, lines, err := s.parts(ctx)
	if err != nil {
		return err
	}
	out := gzip.NewWriter(w)
	for i, p := range parts {
		if !hasLinks(lines[i]) {
			continue
		}
		sources := make(map[string]bool)
		for c := range chosen(p) {
			sources[p.Index.Cells[c].URL] = true
		}
		if err := linksOf(ctx, p, out, func(source string) bool { return sources[source] }); err != nil {
			return fmt.Errorf("links of %s in edition %s: %w", s.name, lines[i].Edition, err)
		}
	}
	return out.Close()
}

// linksOf writes those of a segment's links whose source is wanted.
func linksOf(ctx context.Context, p archive.Part, w io.Writer, wanted func(source string) bool) error {
	p.Cells = nil
	view, err := archive.NewView(archive.Links, []archive.Part{p})
	if err != nil {
		return err
	}
	stored, err := view.OpenRange(ctx, 0, view.Size())
	if err != nil {
		return err
	}
	defer stored.Close()
	text, err := gzip.NewReader(stored)
	if err != nil {
		return err
	}
	for in := bufio.NewReaderSize(text, 64<<10); ; {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if source, _, _ := strings.Cut(line, "\t"); !wanted(source) {
			continue
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
}
