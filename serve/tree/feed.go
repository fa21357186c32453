package tree

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sheaf/archive/catalog"
	"sheaf/serve/changes"
	"sheaf/serve/content"
	"sheaf/serve/feed"
	"sheaf/serve/visible"
)

// The files below /feed may always be read, as directories may: who follows them learns what to
// fetch when the account's window opens.

// findFeed finds a path below /feed.
func (f *finder) findFeed(ctx context.Context, name string) (*content.Entry, error) {
	last := f.view.Snap.Last()
	if last == 0 {
		return nil, content.ErrNotFound
	}
	shelf, tile, deep := strings.Cut(name, "/")
	switch {
	case name == "":
		return f.directory(feed.Dir, func(ctx context.Context, emit func(content.Node) error) error {
			var names []string
			for n := range feed.Shelves(last) {
				names = append(names, fmt.Sprintf("%06d", n))
			}
			return listNames(ctx, append(names, feed.Newest), emit, f.findFeed)
		}), nil
	case name == feed.Newest:
		return f.feedLatest(ctx)
	case deep:
		if t, ok := feed.ParseTile(shelf, tile); ok && t.To <= last {
			return f.tile(ctx, t)
		}
		return nil, content.ErrNotFound
	}
	from, to, ok := feed.ParseShelf(shelf)
	if !ok || from > last {
		return nil, content.ErrNotFound
	}
	m, err := f.checkpoint(ctx, min(to, last))
	return content.Directory(shelf, m.At, func(ctx context.Context, emit func(content.Node) error) error {
		var names []string
		for _, t := range feed.Tiles(from-1, min(to, last)) {
			names = append(names, shelf+"/"+t.Name())
		}
		return listNames(ctx, names, emit, f.findFeed)
	}), err
}

// checkpoint returns the catalog's checkpoint of a number, which never changes. To find it the log
// is read.
func (f *finder) checkpoint(ctx context.Context, seq int64) (catalog.Checkpoint, error) {
	key := fmt.Sprintf("checkpoint %d", seq)
	return visible.Shared(ctx, f.view, f.view.Archive.Memo, key, func(ctx context.Context, v *visible.AccountView) (catalog.Checkpoint, int64, error) {
		m, err := v.Snap.Checkpoint(ctx, seq)
		return m, 256, err
	})
}

func (f *finder) feedLatest(ctx context.Context) (*content.Entry, error) {
	at, err := changes.Cursor(ctx, f.view, f.view.Snap.Last())
	if err != nil {
		return nil, err
	}
	latest := feed.Latest{Cursor: at, Version: f.view.Snap.Version(), At: f.view.Snap.Published().UTC()}
	d := content.Document{
		Name: feed.Newest, Type: "application/json", Modified: latest.At,
		Key:   fmt.Sprintf("feed %d %s", f.view.Snap.Version(), f.view.Seen()),
		Write: func(_ context.Context, w io.Writer) error { return json.NewEncoder(w).Encode(latest) },
	}
	return always(d.Entry(ctx, f.view.Archive.Memo))
}

// tile returns one file of events. It leaves out what was taken down or has expired since, so it is
// measured again if more was withdrawn.
func (f *finder) tile(ctx context.Context, t feed.Tile) (*content.Entry, error) {
	m, err := f.checkpoint(ctx, t.To)
	if err != nil {
		return nil, err
	}
	d := content.Document{
		Name: t.Name(), Type: "application/gzip", Modified: f.view.Modified(m.At, "", visible.Any),
		Key: fmt.Sprintf("tile %d %s %s", f.view.Snap.Withdrawals(), m.Digest, f.view.Seen()),
		Write: func(ctx context.Context, w io.Writer) error {
			return zipped(w, func(w io.Writer) error { return f.writeEvents(ctx, w, t) })
		},
	}
	return always(d.Entry(ctx, f.view.Archive.Memo))
}

// eventsAtOnce is how many events are held at once.
const eventsAtOnce = 1000

func (f *finder) writeEvents(ctx context.Context, w io.Writer, t feed.Tile) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	at, err := changes.Cursor(ctx, f.view, t.To)
	if err != nil {
		return err
	}
	if err := out.Encode(feed.Header{Tile: t, Mark: at.Mark}); err != nil {
		return err
	}
	r := changes.NewReader(f.view, changes.Selection{})
	for since := t.From - 1; since < t.To; {
		events, last, err := r.Events(ctx, since, eventsAtOnce)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Seq > t.To {
				return nil
			}
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		since = last
	}
	return nil
}
