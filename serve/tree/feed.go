package tree

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/serve/library"
)

// The files below /feed may always be read, as directories may. So a reader that follows them knows
// what to fetch when the account's window opens.

// findFeed finds a path below /feed.
func (f *finder) findFeed(ctx context.Context, name string) (*library.Entry, error) {
	last := f.view.Snap.Last()
	if last == 0 {
		return nil, library.ErrNotFound
	}
	shelf, tile, deep := strings.Cut(name, "/")
	switch {
	case name == "":
		return f.directory(api.Dir, func(ctx context.Context, emit func(library.Node) error) error {
			var names []string
			for n := range api.Shelves(last) {
				names = append(names, fmt.Sprintf("%06d", n))
			}
			return listNames(ctx, append(names, api.Newest), emit, f.findFeed)
		}), nil
	case name == api.Newest:
		return f.feedLatest(ctx)
	case deep:
		if t, ok := api.ParseTile(shelf, tile); ok && t.To <= last {
			return f.tile(ctx, t)
		}
		return nil, library.ErrNotFound
	}
	from, to, ok := api.ParseShelf(shelf)
	if !ok || from > last {
		return nil, library.ErrNotFound
	}
	m, err := f.checkpoint(ctx, min(to, last))
	return library.Directory(shelf, m.At, func(ctx context.Context, emit func(library.Node) error) error {
		var names []string
		for _, t := range api.Tiles(from-1, min(to, last)) {
			names = append(names, shelf+"/"+t.Name())
		}
		return listNames(ctx, names, emit, f.findFeed)
	}), err
}

// checkpoint returns the catalog's checkpoint of a number. It reads the log, and caches the
// checkpoint, which never changes.
func (f *finder) checkpoint(ctx context.Context, seq int64) (catalog.Checkpoint, error) {
	key := fmt.Sprintf("checkpoint %d", seq)
	return library.Shared(ctx, f.view, key, func(ctx context.Context, v *library.AccountView) (catalog.Checkpoint, int64, error) {
		m, err := v.Snap.Checkpoint(ctx, seq)
		return m, 256, err
	})
}

func (f *finder) feedLatest(ctx context.Context) (*library.Entry, error) {
	at, err := library.Cursor(ctx, f.view, f.view.Snap.Last())
	if err != nil {
		return nil, err
	}
	latest := api.Latest{Cursor: at, Version: f.view.Snap.Version(), At: f.view.Snap.Published().UTC()}
	text, err := json.Marshal(latest)
	return always(library.Text(api.Newest, "application/json", latest.At, append(text, '\n')), err)
}

// tile returns one file of events. It leaves out what was taken down or has expired since, so it is
// measured again if more was withdrawn.
func (f *finder) tile(ctx context.Context, t api.Tile) (*library.Entry, error) {
	m, err := f.checkpoint(ctx, t.To)
	if err != nil {
		return nil, err
	}
	d := library.Document{
		Name: t.Name(), Type: "application/gzip", Modified: f.view.Modified(m.At, "", library.Any),
		Key: fmt.Sprintf("tile %d %s %s", f.view.Snap.Withdrawals(), m.Digest, f.view.Seen()),
	}
	return always(f.longText(ctx, d, func(f *finder, ctx context.Context, w io.Writer) error {
		return zipped(w, func(w io.Writer) error { return f.writeEvents(ctx, w, t) })
	}))
}

// eventsAtOnce is how many events are held at once.
const eventsAtOnce = 1000

func (f *finder) writeEvents(ctx context.Context, w io.Writer, t api.Tile) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	at, err := library.Cursor(ctx, f.view, t.To)
	if err != nil {
		return err
	}
	if err := out.Encode(api.Header{Tile: t, Mark: at.Mark}); err != nil {
		return err
	}
	r := library.NewReader(f.view, api.Selection{})
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
