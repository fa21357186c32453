package api

import (
	"fmt"
	"regexp"
	"strconv"
)

// The name of the feed's directory, and of the file there that holds Latest.
const (
	Dir    = "feed"
	Newest = "LATEST"
)

const (
	largest  = 10_000    // numbers in the largest tile
	perShelf = 1_000_000 // numbers in one directory
)

// Tile is the range of sequence numbers that one file covers. The range has 1, 10, 100, 1,000 or
// 10,000 numbers, and To is a multiple of that count.
type Tile struct{ From, To int64 }

// Valid reports whether the range is as Tile says, and From is positive.
func (t Tile) Valid() bool {
	n := t.To - t.From + 1
	if t.From < 1 || n < 1 || n > largest || t.To%n != 0 {
		return false
	}
	for n%10 == 0 {
		n /= 10
	}
	return n == 1
}

// Shelf returns the name of the tile's directory below /feed.
func (t Tile) Shelf() string { return fmt.Sprintf("%06d", (t.To-1)/perShelf) }

// Name returns the tile's file name in its shelf.
func (t Tile) Name() string { return fmt.Sprintf("%012d-%012d.ndjson.gz", t.From, t.To) }

// Path returns the tile's path in the tree.
func (t Tile) Path() string { return "/" + Dir + "/" + t.Shelf() + "/" + t.Name() }

var (
	tileName  = regexp.MustCompile(`^([0-9]{12})-([0-9]{12})\.ndjson\.gz$`)
	shelfName = regexp.MustCompile(`^[0-9]{6}$`)
)

// ParseTile parses a file name. It reports false if the name or the tile is not valid, or the tile
// belongs to another shelf.
func ParseTile(shelf, name string) (Tile, bool) {
	m := tileName.FindStringSubmatch(name)
	if m == nil {
		return Tile{}, false
	}
	from, _ := strconv.ParseInt(m[1], 10, 64)
	to, _ := strconv.ParseInt(m[2], 10, 64)
	t := Tile{from, to}
	return t, t.Valid() && t.Shelf() == shelf
}

// ParseShelf parses the name of a directory below /feed and returns its range of numbers.
func ParseShelf(name string) (from, to int64, ok bool) {
	if !shelfName.MatchString(name) {
		return 0, 0, false
	}
	n, _ := strconv.ParseInt(name, 10, 64)
	return n*perShelf + 1, (n + 1) * perShelf, true
}

// Shelves returns the number of directories for the numbers up to last.
func Shelves(last int64) int64 { return (last + perShelf - 1) / perShelf }

// Tiles returns, in order, the fewest tiles that cover the numbers from since+1 to last, and no
// number after last. The first tile may begin earlier.
func Tiles(since, last int64) []Tile {
	var tiles []Tile
	for next := since + 1; next <= last; {
		for n := int64(largest); ; n /= 10 {
			from := (next-1)/n*n + 1
			if from+n-1 <= last {
				tiles = append(tiles, Tile{from, from + n - 1})
				next = from + n
				break
			}
		}
	}
	return tiles
}

// Header is the first line of a tile's file. The events follow, one in each line.
type Header struct {
	Tile Tile   `json:"tile"`
	Mark string `json:"mark"` // Mark of the cursor after the tile
}
