package serve_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

func TestTiles(t *testing.T) {
	for _, c := range []struct {
		since, last int64
		want        []api.Tile
	}{
		{0, 0, nil},
		{5, 5, nil},
		{0, 3, []api.Tile{{From: 1, To: 1}, {From: 2, To: 2}, {From: 3, To: 3}}},
		{7, 12, []api.Tile{{From: 1, To: 10}, {From: 11, To: 11}, {From: 12, To: 12}}},
		{0, 10_000, []api.Tile{{From: 1, To: 10_000}}},
		{10_350, 21_210, []api.Tile{{From: 10_001, To: 20_000}, {From: 20_001, To: 21_000}, {From: 21_001, To: 21_100}, {From: 21_101, To: 21_200}, {From: 21_201, To: 21_210}}},
	} {
		if got := api.Tiles(c.since, c.last); !slices.Equal(got, c.want) {
			t.Errorf("from %d to %d: %v, want %v", c.since, c.last, got, c.want)
		}
	}
	for since := int64(999_900); since < 1_000_100; since += 7 {
		for last := since; last < 1_012_345; last += 311 {
			at := since
			for _, tile := range api.Tiles(since, last) {
				if back, ok := api.ParseTile(tile.Shelf(), tile.Name()); !ok || back != tile {
					t.Fatalf("%v is named %s/%s, which is %v, %v", tile, tile.Shelf(), tile.Name(), back, ok)
				}
				if tile.From > at+1 || tile.To <= at || tile.To > last {
					t.Fatalf("from %d to %d: %v after %d", since, last, tile, at)
				}
				at = tile.To
			}
			if at != last {
				t.Fatalf("from %d to %d: ends at %d", since, last, at)
			}
		}
	}
}

func TestNoTiles(t *testing.T) {
	for _, name := range []string{
		"000000000000-000000000009.ndjson.gz", "000000000001-000000000009.ndjson.gz", "000000000002-000000000011.ndjson.gz",
		"000000000001-000000100000.ndjson.gz", "000000000009-000000000001.ndjson.gz", "1-10.ndjson.gz", "LATEST",
	} {
		if tile, ok := api.ParseTile("000000", name); ok {
			t.Errorf("%s is %v", name, tile)
		}
	}
	if _, ok := api.ParseTile("000001", api.Tile{From: 1, To: 10}.Name()); ok {
		t.Error("a tile in another's shelf")
	}
}

// The long texts of the tree lie in the temporary files that their readers share: one reader that
// goes while such a text is written takes nothing from the others, and where there is no room for
// the files, nobody has them written.
func TestLongTextsAreShared(t *testing.T) {
	testkit.Slow(t)
	s := servetest.New(t, nil)
	crowd(t, s, 10_000)
	open := func(spool int64) *reading.Library {
		lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, SpoolBytes: spool})
		testkit.Must(t, err)
		return lib
	}
	lib, full := open(0), open(1)
	for _, path := range []string{
		"/editions/20261121/MANIFEST", (api.Tile{From: 1, To: 10_000}).Path(),
	} {
		read := func(ctx context.Context, lib *reading.Library) (string, error) {
			f, err := lib.Tree.Open(ctx, everyone, path)
			if err != nil {
				return "", err
			}
			defer f.Close()
			if f.Size < 1<<20 {
				t.Errorf("%s has %d bytes, which is not long", path, f.Size)
			}
			r, err := f.OpenRange(ctx, f.Size-100, 100)
			if err != nil {
				return "", err
			}
			defer r.Close()
			end, err := io.ReadAll(r)
			return string(end), err
		}
		ends := make([]string, 4)
		var readers errgroup.Group
		for n := range ends {
			ctx, leave := context.WithCancel(t.Context())
			if n%2 == 0 {
				leave()
			}
			readers.Go(func() (err error) {
				defer leave()
				if ends[n], err = read(ctx, lib); n%2 == 0 {
					return nil
				}
				return err
			})
		}
		testkit.Must(t, readers.Wait())
		if ends[1] == "" || ends[3] != ends[1] {
			t.Errorf("%s ends with %q", path, ends)
		}
		if _, err := read(t.Context(), full); !errors.Is(err, library.ErrNoSpace) {
			t.Errorf("%s, without room: %v", path, err)
		}
	}
}

// FuzzParseTile: a name that is accepted is the tile's name on that shelf, and Tiles may return the
// tile.
func FuzzParseTile(f *testing.F) {
	f.Add("000000", "000000000001-000000000010.ndjson.gz")
	f.Add("000001", "000000010001-000000020000.ndjson.gz")
	f.Add("000000", "000000000002-000000000011.ndjson.gz")
	f.Add("..", "999999999999-000000000000.ndjson.gz")
	f.Fuzz(func(t *testing.T, shelf, name string) {
		tile, ok := api.ParseTile(shelf, name)
		if ok && (tile.Shelf() != shelf || tile.Name() != name || !tile.Valid()) {
			t.Errorf("%q %q is taken for %+v", shelf, name, tile)
		}
		if ok { // a larger tile may end with the same numbers
			if c := api.Tiles(tile.From-1, tile.To); len(c) != 1 || c[0].From > tile.From || c[0].To != tile.To {
				t.Errorf("%+v is covered by %+v", tile, c)
			}
		}
		if from, to, ok := api.ParseShelf(shelf); ok && (from < 1 || to < from || api.Shelves(to)-api.Shelves(from-1) != 1) {
			t.Errorf("shelf %q holds %d to %d", shelf, from, to)
		}
	})
}
