package api

import "time"

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
