package tree

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/serve/library"
)

// cutTexts divides the name of a file with a host's texts into the form and, before it, the name of
// the archive that has the pages.
func cutTexts(file string) (archived, form string, ok bool) {
	for _, form := range VolumeTexts {
		if archived, ok := strings.CutSuffix(file, "."+form); ok && archived != "" {
			return archived, form, true
		}
	}
	return "", "", false
}

// hostTexts returns the texts of one of a host's archives: an edition's, or all. They are taken out
// of the pages when somebody asks for the file, and kept as other long texts are.
func (f *finder) hostTexts(ctx context.Context, place, archived, form string) (*library.Entry, error) {
	h, err := f.view.Host(ctx, place)
	if err != nil {
		return nil, err
	}
	if h == nil || f.tree.opt.Texts == nil {
		return nil, library.ErrNotFound
	}
	of := *h
	h = &of
	h.Segments = slices.DeleteFunc(slices.Clone(of.Segments), func(seg catalog.SegmentEntry) bool { return archived != "all" && seg.Edition != archived })
	if len(h.Segments) == 0 {
		return nil, library.ErrNotFound
	}
	last := h.Segments[len(h.Segments)-1]
	d := library.Document{
		Name: archived + "." + form, Type: mediaOf(form), Modified: h.Modified(last.Published, library.Any, true),
		Key: fmt.Sprintf("texts %d %q %s", f.tree.opt.Version, h.Name, h.Withheld()), Spools: f.view.Archive.Spools,
	}
	for _, seg := range h.Segments {
		d.Key += fmt.Sprintf(" %d", seg.Seq)
	}
	reader := f.view.Account
	d.Write = func(ctx context.Context, w io.Writer) error { return f.tree.opt.Texts(ctx, reader, h, form, w) }
	return d.Entry(ctx, f.view.Archive.Memo)
}

func mediaOf(table string) string {
	if table == api.TextsAsWET {
		return "application/gzip"
	}
	return api.Parquet
}
