package library

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// The links of an archive are those on its pages, as the robots wrote them down. A line is source
// TAB target TAB kind TAB rel TAB anchor; see archive/FORMAT.md. An edition has the links of the
// pages that it brought; current has the links of every page that is in current's other files.

// hasLinks reports whether a robot wrote down the links of a segment.
func hasLinks(seg catalog.SegmentEntry) bool {
	_, ok := seg.Views[string(archive.Links)]
	return ok
}

func (a Archive) anyLinks() bool { return slices.ContainsFunc(a.segments, hasLinks) }

// links returns the archive's file of links. It fails with ErrNotFound if the archive has none.
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
	err := a.eachLink(ctx, func(_ catalog.SegmentEntry, of *archive.Cell, l archive.Link) error {
		_, err := fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", of.URL, l.URL, l.Kind, l.Rel, l.Anchor)
		return err
	})
	return errors.Join(err, out.Close())
}

// eachLink calls fn with every link of the chosen records, with the record and its segment.
func (a Archive) eachLink(ctx context.Context, fn func(catalog.SegmentEntry, *archive.Cell, archive.Link) error) error {
	return a.eachPart(ctx, func(p archive.Part, seg catalog.SegmentEntry) error {
		sources := make(map[string]*archive.Cell)
		for c := range chosen(p) {
			sources[p.Index.Cells[c].URL] = &p.Index.Cells[c]
		}
		return EachLink(ctx, a.host.from.Segments, seg, func(source string, l archive.Link) error {
			if of := sources[source]; of != nil {
				return fn(seg, of, l)
			}
			return nil
		})
	})
}

// EachLink calls fn with every link of a segment and the URL of its page, in the order of the
// pages. It does not call fn if the segment has no list of links.
func EachLink(ctx context.Context, from *Segments, seg catalog.SegmentEntry, fn func(source string, l archive.Link) error) error {
	if !hasLinks(seg) {
		return nil
	}
	index, err := from.Index(ctx, seg)
	if err == nil {
		err = linksIn(ctx, archive.Part{Source: from.Source(seg), Index: index, Digest: seg.SHA256}, fn)
	}
	if err != nil {
		return fmt.Errorf("links of %s in edition %s: %w", seg.Host, seg.Edition, err)
	}
	return nil
}

func linksIn(ctx context.Context, p archive.Part, fn func(source string, l archive.Link) error) error {
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
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 5 {
			return fmt.Errorf("a line of %d fields, not 5", len(f))
		}
		if err := fn(f[0], archive.Link{URL: f[1], Kind: f[2], Rel: f[3], Anchor: f[4]}); err != nil {
			return err
		}
	}
}
