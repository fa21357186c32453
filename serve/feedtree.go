package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"

	"sheaf/archive/catalog"
	"sheaf/serve/feed"
)

// The files below /feed may be read while the account's window is closed, as
// directories may: who follows them learns what to fetch when it opens.

// feedEntry finds what lies at a place below the root that begins with feed.Dir.
func (v *visit) feedEntry(ctx context.Context, place string) (*entry, error) {
	last := v.snap.Last()
	if last == 0 {
		return nil, ErrNotFound
	}
	switch parts := strings.Split(place, "/"); {
	case len(parts) == 1:
		return v.directory(feed.Dir, v.snap.Published()), nil
	case len(parts) == 2 && parts[1] == feed.Newest:
		return v.feedLatest(ctx)
	case len(parts) == 2:
		from, to, ok := feed.ParseShelf(parts[1])
		if !ok || from > last {
			return nil, ErrNotFound
		}
		m, err := v.mark(ctx, min(to, last))
		return v.directory(parts[1], m.At), err
	case len(parts) == 3:
		if t, ok := feed.ParseTile(parts[1], parts[2]); ok && t.To <= last {
			return v.tile(ctx, t)
		}
	}
	return nil, ErrNotFound
}

// feedEntries yields what a directory at or below /feed holds.
func (v *visit) feedEntries(ctx context.Context, place string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		last := v.snap.Last()
		give := func(name string) bool {
			e, err := v.feedEntry(ctx, place+"/"+name)
			if err != nil {
				yield(Node{}, fmt.Errorf("%s: %w", name, err))
				return false
			}
			return yield(e.Node, nil)
		}
		if place == feed.Dir {
			for n := range feed.Shelves(last) {
				if !give(fmt.Sprintf("%06d", n)) {
					return
				}
			}
			give(feed.Newest)
			return
		}
		from, to, _ := feed.ParseShelf(strings.TrimPrefix(place, feed.Dir+"/"))
		for _, t := range feed.Tiles(from-1, min(to, last)) {
			if !give(t.Name()) {
				return
			}
		}
	}
}

// mark is the catalog's, which for a number is always the same and takes reading in the log.
func (v *visit) mark(ctx context.Context, seq int64) (catalog.Checkpoint, error) {
	return recall(ctx, v.cache, fmt.Sprintf("mark %d", seq), func(ctx context.Context) (catalog.Checkpoint, int64, error) {
		m, err := v.snap.Checkpoint(ctx, seq)
		return m, 256, err
	})
}

func (v *visit) feedLatest(ctx context.Context) (*entry, error) {
	at, err := v.cursor(ctx, v.snap.Last())
	if err != nil {
		return nil, err
	}
	latest := feed.Latest{Cursor: at, Version: v.snap.Version(), At: v.snap.Published().UTC()}
	key := fmt.Sprintf("feed %d %q", v.snap.Version(), v.scope)
	e, err := v.document(ctx, key, feed.Newest, "application/json", latest.At, func(_ context.Context, w io.Writer) error {
		return json.NewEncoder(w).Encode(latest)
	})
	if err == nil {
		e.always = true
	}
	return e, err
}

// tile finds one file of events. What is taken down since, or has expired, is left
// out of it, so it is measured anew where there is more of these.
func (v *visit) tile(ctx context.Context, t feed.Tile) (*entry, error) {
	m, err := v.mark(ctx, t.To)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("tile %d %s %q", v.snap.Withdrawals(), m.Digest, v.scope)
	e, err := v.document(ctx, key, t.Name(), "application/gzip", m.At, func(ctx context.Context, w io.Writer) error {
		return v.writeTile(ctx, w, t)
	})
	if err == nil {
		e.always = true
	}
	return e, err
}

// tileBlock is how much text is compressed at once, in bytes. The file's bytes depend on it.
const tileBlock = 1 << 20

// tileRead is how many events are held at once.
const tileRead = 1000

func (v *visit) writeTile(ctx context.Context, w io.Writer, t feed.Tile) error {
	return zipped(w, func(w io.Writer) error { return v.writeEvents(ctx, w, t) })
}

func (v *visit) writeEvents(ctx context.Context, w io.Writer, t feed.Tile) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	at, err := v.cursor(ctx, t.To)
	if err != nil {
		return err
	}
	if err := out.Encode(feed.Header{Tile: t, Mark: at.Mark}); err != nil {
		return err
	}
	r := v.feed(Selection{})
	for since := t.From - 1; since < t.To; {
		events, last, err := r.events(ctx, since, tileRead)
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
