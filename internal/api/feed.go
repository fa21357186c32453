package api

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Op is how an event has changed a host's files.
type Op string

const (
	Put    Op = "put"    // an edition has new files of the host
	Delete Op = "delete" // files are gone: those of the edition, or of the host if there is no edition
	Reseal Op = "reseal" // files have changed: those of the edition, or of the host if there is no edition
)

// Event is one change. After it, the host's MANIFEST lists the files that exist.
type Event struct {
	Seq     int64     `json:"seq"`
	Op      Op        `json:"op"`
	At      time.Time `json:"at"`
	Version int64     `json:"version"` // of the catalog
	Host    string    `json:"host"`
	SURT    string    `json:"surt"`
	Path    string    `json:"path"`              // directory of the host in the tree, with slashes at both ends
	Edition string    `json:"edition,omitempty"` // empty: all editions
	// Why is the reason of a Delete or Reseal: "takedown", "lifted" or "expired".
	Why string `json:"why,omitempty"`
	// URLPrefix limits a Reseal to records of URLs that begin with it, by http or https and in any
	// spelling.
	URLPrefix string `json:"url_prefix,omitempty"`

	// The following fields are only set for Put. Files is empty if the catalog does not know the
	// files' digests: if several batches brought files of the host, or single URLs are taken down.
	Files   []File    `json:"files,omitempty"`
	Batch   string    `json:"batch,omitempty"`
	Robot   string    `json:"robot,omitempty"`
	Records int64     `json:"records,omitempty"`
	First   time.Time `json:"first,omitzero"` // start of the crawl
	Last    time.Time `json:"last,omitzero"`

	// Preferences are the conditions on use in the host's robots.txt, as package preference writes
	// them, or "-" for none. It is empty if the files have no robots.txt: then the preferences of
	// earlier events still hold.
	Preferences string `json:"preferences,omitempty"`
}

// File is one of an event's files, in the event's directory Path.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // lower-case hexadecimal
	ETag   string `json:"etag"`
}

// Cursor is the position in the feed after event number Since. Mark identifies the feed up to
// there: it depends on all events so far and on the account's scope. Mark is empty if Since is 0.
type Cursor struct {
	Since int64  `json:"since"`
	Mark  string `json:"mark,omitempty"`
}

// MaxSelected limits the prefixes, domains and hosts of a Selection together. A client that wants
// more asks for all changes, and chooses among the events.
const MaxSelected = 100

// Selection selects the changes of every host that one of the fields names. An empty selection
// selects all hosts.
type Selection struct {
	SURT    []string `query:"surt" json:"surt,omitempty" doc:"only hosts whose key begins so, such as jp,ac,"`
	Domains []string `query:"domain" json:"domains,omitempty" doc:"only this host and all below it"`
	Hosts   []string `query:"host" json:"hosts,omitempty" doc:"only this host"`
}

// Len returns how many prefixes, domains and hosts the selection has.
func (s Selection) Len() int { return len(s.SURT) + len(s.Domains) + len(s.Hosts) }

// ChangesQuery is the query of GET /v1/changes.
type ChangesQuery struct {
	Since int64  `query:"since" min:"0" default:"0" doc:"number behind which to begin"`
	Mark  string `query:"mark" doc:"of the cursor that the number is from; without it the number is believed"`
	Selection
	Limit int `query:"limit" min:"1" max:"10000" default:"1000" doc:"events at most"`
	Wait  int `query:"wait" min:"0" max:"300" default:"0" doc:"seconds to wait where there are none yet"`
}

// Page is the answer of GET /v1/changes: the events after the given cursor.
type Page struct {
	Events []Event `json:"events"`
	Next   Cursor  `json:"next"` // cursor for the next request
	More   bool    `json:"more"` // there are more events already
	Last   int64   `json:"last"` // highest number assigned
}

// Latest is the content of /feed/LATEST: the end of the feed.
type Latest struct {
	Cursor
	Version int64     `json:"version"` // of the catalog
	At      time.Time `json:"at"`
}

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
