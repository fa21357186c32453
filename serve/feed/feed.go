// Package feed holds what the change feed consists of, for the service and for
// its clients: events with sequence numbers, the answer of /v1/changes, and the
// names of the files below /feed.
//
// A number is given once, to one event, in the order of publication; an account
// sees those of its scope, so numbers have gaps. What was published and is taken
// down or has expired since is not told any more: that it went is an event itself.
// So who begins at 0 hears of what is there and of nothing else, and who goes on
// from a number hears of all that has changed since.
//
// Below /feed the same events lie as files, each of which covers the numbers that
// its name says: 1, 10, 100, 1,000 or 10,000 of them, aligned. A file is there once
// all its numbers are given and then changes only where its hosts are taken down or
// expire: such events are left out. Larger files are listed in place of the smaller
// ones that they cover; these are still found by name. Tiles gives the fewest.
package feed

import "time"

// Op is what an event did to a host's files.
type Op string

const (
	Put    Op = "put"    // an edition brought something of the host: files are new
	Delete Op = "delete" // the files are gone: of the edition, or of the host where none is named
	Reseal Op = "reseal" // the files are others than before: of the edition, or of the host where none is named
)

// Event is one change. After each of them the host's MANIFEST tells what is there.
type Event struct {
	Seq     int64     `json:"seq"`
	Op      Op        `json:"op"`
	At      time.Time `json:"at"`
	Version int64     `json:"version"` // of the catalog
	Host    string    `json:"host"`
	SURT    string    `json:"surt"`
	Path    string    `json:"path"`              // the host's directory in the tree, with slashes around it
	Edition string    `json:"edition,omitempty"` // empty: all of them
	// Why says what is behind a deletion or a reseal: "takedown", "lifted" or "expired".
	Why string `json:"why,omitempty"`
	// URLPrefix is what a reseal took down, or gave back, of the host: the records whose URL begins so.
	URLPrefix string `json:"url_prefix,omitempty"`

	// Of Put only. Files are absent where the catalog does not know their digests:
	// where several batches brought something of the host, or single URLs are taken down.
	Files   []File    `json:"files,omitempty"`
	Batch   string    `json:"batch,omitempty"`
	Robot   string    `json:"robot,omitempty"`
	Records int64     `json:"records,omitempty"`
	First   time.Time `json:"first,omitzero"` // crawl span
	Last    time.Time `json:"last,omitzero"`
}

// File is one file of an event, in the directory Path.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // lower-case hexadecimal
	ETag   string `json:"etag"`
}

// Cursor is a place in the feed: behind number Since. Mark tells feeds apart: it
// follows from all that is before, and from the account's scope. It is empty at 0.
type Cursor struct {
	Since int64  `json:"since"`
	Mark  string `json:"mark,omitempty"`
}

// Page is the answer of GET /v1/changes: the events behind the cursor that was given.
type Page struct {
	Events []Event `json:"events"`
	Next   Cursor  `json:"next"` // for what follows
	More   bool    `json:"more"` // there is more already
	Last   int64   `json:"last"` // the highest number that there is
}

// Latest is what /feed/LATEST holds: the end of the feed.
type Latest struct {
	Cursor
	Version int64     `json:"version"` // of the catalog
	At      time.Time `json:"at"`
}
