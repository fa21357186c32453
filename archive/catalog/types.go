package catalog

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"sheaf/internal/wire"
)

// Errors that callers tell apart.
var (
	// ErrNotExist says that the catalog does not have what was asked for, such as an edition, a
	// version or a take-down to lift.
	ErrNotExist = errors.New("not in the catalog")
	// ErrBatchConflict says that a batch with the same ID but another digest was published.
	ErrBatchConflict = errors.New("batch ID was published with another digest")
	// ErrFenced says that a publisher with a higher token has published. The caller's lease is
	// over, and it must stop publishing.
	ErrFenced = errors.New("fenced by a publisher with a higher token")
	// ErrExpired says that a snapshot was held for longer than Options.PinLife. Its objects may be
	// deleted by now. Pin again.
	ErrExpired = errors.New("snapshot was held for too long; pin again")
	// ErrCorrupt says that stored bytes are not as the catalog wrote them.
	ErrCorrupt = errors.New("catalog is corrupt")
)

// wrap puts the text before an error, unless the error is nil.
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// SegmentEntry describes one segment, the records of one host from one batch. It says where the
// segment is.
type SegmentEntry struct {
	Host    string `json:"host"`           // in lower case, without a default port
	SURT    string `json:"surt,omitempty"` // the host's sort key (see Key); set when published
	Edition string `json:"edition"`        // the edition that published it; set when published

	Object      string `json:"object"`       // key in the store
	Offset      int64  `json:"offset"`       // bytes into the object
	Length      int64  `json:"length"`       // bytes of the sealed segment, end member included
	IndexOffset int64  `json:"index_offset"` // bytes from the segment's start
	IndexLength int64  `json:"index_length"`

	First    time.Time `json:"first"` // times of the first and last record
	Last     time.Time `json:"last"`
	Records  int64     `json:"records"`
	Revisits int64     `json:"revisits"`
	Files    int64     `json:"files"`

	// Preferences is archive.Summary.Asked of the segment; empty: not known.
	Preferences string `json:"preferences,omitempty"`

	SHA256 string          `json:"sha256"` // of the segment
	Views  map[string]View `json:"views,omitempty"`

	Origin
	Seq       int64     `json:"seq,omitempty"` // unique, ascending in the order of publication; set when published
	Published time.Time `json:"published"`     // set when published
}

// Origin names the batch that brought a segment.
type Origin struct {
	Batch       string `json:"batch"`
	BatchSHA256 string `json:"batch_sha256"`
	Robot       string `json:"robot"`
	Collection  string `json:"collection,omitempty"` // to which the batch belongs; empty: none
}

// View describes one of the files that readers get of a segment.
type View struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	ETag   string `json:"etag"`
	Offset int64  `json:"offset,omitempty"` // in wire.OthersKey's object, for wire.ViewOthers
}

// Batch names a batch: its ID and the digest of its bytes.
type Batch struct {
	ID     string `json:"id"`
	SHA256 string `json:"sha256"`
	// Manifest is the SHA-256 of the signed manifest under wire.ManifestKey; empty: the batch has
	// no manifest.
	Manifest string `json:"manifest,omitempty"`

	Collection wire.Collection `json:"collection,omitzero"` // to which it belongs; zero: none
}

// Publication has the batches and entries that are published together, as one edition.
type Publication struct {
	// Day names the edition, as yyyymmdd. If empty, it is today in the catalog's zone, or the
	// latest edition's day if that is later.
	Day string
	// Batches are the batches that the entries are from. Publishing a batch again does nothing.
	Batches []Batch
	// Entries are the segments of the batches, in any order. They are read once.
	Entries iter.Seq2[SegmentEntry, error]
	// Token is the publisher's fencing token; 0 means no fencing.
	Token int64
}

// Entries returns entries in the form of Publication.Entries.
func Entries(entries ...SegmentEntry) iter.Seq2[SegmentEntry, error] {
	return func(yield func(SegmentEntry, error) bool) {
		for _, l := range entries {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// Version names a version of the catalog's log, and the edition that it published.
type Version struct {
	N         int64     `json:"version"`
	Edition   string    `json:"edition,omitempty"` // empty if the version published nothing
	Published time.Time `json:"published"`
}

// Edition describes one publication, and sums up its entries.
type Edition struct {
	Name      string    `json:"edition"`
	Version   int64     `json:"version"`
	Published time.Time `json:"published"`
	Hosts     int64     `json:"hosts"`
	Segments  int64     `json:"segments"`
	Records   int64     `json:"records"`
	Bytes     int64     `json:"bytes"` // of segments
}

// HostInfo sums up the published entries of one host.
type HostInfo struct {
	Host      string
	SURT      string
	Editions  int
	Segments  int
	Records   int64
	Bytes     int64
	First     time.Time // of the records
	Last      time.Time
	Latest    string    // edition
	Published time.Time // of the latest edition
}

// Child is one entry of a directory in the tree of reversed host names.
type Child struct {
	Name     string
	Leaf     bool      // the path to Name is a host
	Inner    bool      // hosts are below the path
	Modified time.Time // of a host, its latest publication or alteration; otherwise the snapshot's publication
}
