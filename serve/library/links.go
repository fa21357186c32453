package library

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// The links of an archive are those on its pages, as the robots wrote them down. A line is source
// TAB target TAB kind; see archive/FORMAT.md. An edition has the links of the pages that it
// brought; current has the links of every page that is in current's other files.

// hasLinks reports whether a robot wrote down the links of a segment.
func hasLinks(seg catalog.SegmentEntry) bool {
	_, ok := seg.Views[string(archive.Links)]
	return ok
}

func (a Archive) anyLinks() bool { return slices.ContainsFunc(a.segments, hasLinks) }

// links returns the archive's file of links.
func (a Archive) links(ctx context.Context, f Form) (*Entry, error) {
	if !a.anyLinks() {
		return nil, ErrNotFound
	}
	touched, err := a.touched(ctx)
	if err != nil {
		return nil, err
	}
	if !a.latest && !touched { // all links of the segments: their stored bytes
		return a.computed(ctx, f)
	}
	return a.document(ctx, f, a.key(), a.writeLinks)
}

// writeLinks writes the links of the chosen records.
func (a Archive) writeLinks(ctx context.Context, w io.Writer) error {
	out := gzip.NewWriter(w)
	err := a.eachPart(ctx, func(p archive.Part, seg catalog.SegmentEntry) error {
		if !hasLinks(seg) {
			return nil
		}
		sources := make(map[string]bool)
		for c := range chosen(p) {
			sources[p.Index.Cells[c].URL] = true
		}
		if err := linksOf(ctx, p, out, sources); err != nil {
			return fmt.Errorf("links of %s in edition %s: %w", a.host.Name, seg.Edition, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return out.Close()
}

// linksOf writes those of a segment's links that have one of the sources.
func linksOf(ctx context.Context, p archive.Part, w io.Writer, sources map[string]bool) error {
	return eachLink(ctx, p, func(line string) error {
		if source, _, _ := strings.Cut(line, "\t"); !sources[source] {
			return nil
		}
		_, err := io.WriteString(w, line)
		return err
	})
}

// EachLink calls fn with every link of a segment, in the order of the pages: source, target and
// kind. It calls it with none if the robot wrote down no links.
func EachLink(ctx context.Context, from *Segments, seg catalog.SegmentEntry, fn func(source, target, kind string) error) error {
	if !hasLinks(seg) {
		return nil
	}
	index, err := from.Index(ctx, seg)
	if err == nil {
		err = eachLink(ctx, archive.Part{Source: from.Source(seg), Index: index, Digest: seg.SHA256}, func(line string) error {
			source, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			target, kind, _ := strings.Cut(rest, "\t")
			return fn(source, target, kind)
		})
	}
	if err != nil {
		return fmt.Errorf("links of %s in edition %s: %w", seg.Host, seg.Edition, err)
	}
	return nil
}

// eachLink calls fn with the lines of a segment's links.
func eachLink(ctx context.Context, p archive.Part, fn func(line string) error) error {
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
		if err := fn(line); err != nil {
			return err
		}
	}
}
