// Package urlindex finds records by their URL in all segments of all hosts. A look-up reads one
// block of each live run; without this index it would read the index of each of the host's
// segments.
//
// The structure is like the catalog's. Rows, one for each record, are in immutable sorted runs.
// Each state in a numbered log, appended by put-if-absent, names the live runs and a sequence
// number, Through: the runs hold every segment entry of the catalog up to that number. A Builder
// follows the catalog, stores new rows as a run, and merges runs in levels. A Reader holds little
// more than a list of the runs in memory.
//
// The index is derived data. It can be built again from the segments at any time. No answer depends
// on it and no publication waits for it: readers use the segments' own indexes for entries that it
// does not cover yet. It does not decide what may be seen: it keeps rows of entries that are taken
// down, because a take-down may be lifted. So readers must join its rows, by Row.Seq, with the
// entries that the catalog shows. Rows of erased and expired records are removed.
//
// A run is a ZipNum cluster of CDXJ, which pywb and others can read. URLINDEX.md describes the
// bytes.
package urlindex

import "errors"

// Errors that callers tell apart.
var (
	// ErrCorrupt says that stored bytes are not as a Builder wrote them.
	ErrCorrupt = errors.New("URL index is corrupt")
	// ErrOther says that the index was built from another catalog than the one in the store.
	ErrOther = errors.New("URL index is of another catalog")
)
