package catalog

import (
	"errors"
	"iter"
	"time"
)

// Errors that callers decide by.
var (
	// ErrNotExist says that the edition or version asked for is not published.
	ErrNotExist = errors.New("not in the catalog")
	// ErrBatchConflict says that a batch of this ID but of another digest is published.
	ErrBatchConflict = errors.New("batch ID was published with another digest")
	// ErrFenced says that a publisher with a higher token has published: this
	// one's lease is over, and it must not go on.
	ErrFenced = errors.New("fenced by a publisher with a higher token")
	// ErrExpired says that a snapshot was held for longer than Options.PinLife:
	// what it reads may be collected. Pin again.
	ErrExpired = errors.New("snapshot was held for too long; pin again")
	// ErrCorrupt says that stored bytes are not what the catalog wrote.
	ErrCorrupt = errors.New("catalog is corrupt")
)

// SegmentEntry says where one segment is: one host's cells out of one batch.
type SegmentEntry struct {
	Host    string `json:"host"`           // authority without default port, lower case
	SURT    string `json:"surt,omitempty"` // the host's sort key (see Key); set when published
	Edition string `json:"edition"`        // what made it public; set when published

	Object      string `json:"object"`       // key in the store
	Offset      int64  `json:"offset"`       // bytes into the object
	Length      int64  `json:"length"`       // bytes of the sealed segment, end member included
	IndexOffset int64  `json:"index_offset"` // bytes from the segment's start
	IndexLength int64  `json:"index_length"`

	First    time.Time `json:"first"` // crawl span
	Last     time.Time `json:"last"`
	Records  int64     `json:"records"`
	Revisits int64     `json:"revisits"`
	Files    int64     `json:"files"`

	SHA256 string          `json:"sha256"` // of the Length bytes at Offset
	Views  map[string]View `json:"views,omitempty"`

	Batch       string    `json:"batch"`
	BatchSHA256 string    `json:"batch_sha256"`
	Robot       string    `json:"robot"`
	Seq         int64     `json:"seq,omitempty"` // place in the order of publication, unique; set when published
	Published   time.Time `json:"published"`     // set when published
}

// View describes one form in which a segment is offered.
type View struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	ETag   string `json:"etag"`
	Offset int64  `json:"offset,omitempty"` // where it begins in an object of its own kind; 0 for those of the segment
}

// Batch names what a robot sent: its ID, and the digest of its bytes.
type Batch struct {
	ID     string `json:"id"`
	SHA256 string `json:"sha256"`
	// Manifest is the SHA-256 of the signed manifest, the object wire.ManifestKey; empty in what was
	// published before it was kept, and of batches without one.
	Manifest string `json:"manifest,omitempty"`
}

// Publication is what one publish makes public.
type Publication struct {
	// Day names the edition, as yyyymmdd; empty means today in the catalog's zone,
	// or the latest edition's day where that is later.
	Day string
	// Batches are what the lines come from. Publishing a batch again does nothing.
	Batches []Batch
	// Entries are the segments of the batches, in any order. They are read once.
	Entries iter.Seq2[SegmentEntry, error]
	// Token is the publisher's fencing token; zero asks for no fencing.
	Token int64
}

// Entries gives a Publication's entries from a slice.
func Entries(lines ...SegmentEntry) iter.Seq2[SegmentEntry, error] {
	return func(yield func(SegmentEntry, error) bool) {
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// Version is one entry of the catalog's log.
type Version struct {
	N         int64     `json:"version"`
	Edition   string    `json:"edition,omitempty"` // empty where the version published nothing
	Published time.Time `json:"published"`
}

// Edition describes what one publish made public.
type Edition struct {
	Name      string    `json:"edition"`
	Version   int64     `json:"version"`
	Published time.Time `json:"published"`
	Hosts     int64     `json:"hosts"`
	Segments  int64     `json:"segments"`
	Records   int64     `json:"records"`
	Bytes     int64     `json:"bytes"` // of segments
}

// HostInfo sums up what is published of one host.
type HostInfo struct {
	Host      string
	SURT      string
	Editions  int
	Segments  int
	Records   int64
	Bytes     int64
	First     time.Time // of the crawl spans
	Last      time.Time
	Latest    string    // edition
	Published time.Time // of the latest edition
}

// Child is one entry of a directory in the tree of reversed host names.
type Child struct {
	Name     string
	Leaf     bool      // the path that ends in Name is a host's
	Inner    bool      // there are hosts below it
	Modified time.Time // a host's latest publication; of an inner entry alone, the snapshot's
}
