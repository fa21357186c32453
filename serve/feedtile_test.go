package serve_test

import (
	"slices"
	"testing"

	"sheaf/internal/api"
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
