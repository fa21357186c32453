// Package urlindex finds records by their URL over all segments of all hosts: a look-up
// reads one block of each live run where it would otherwise read the index of every segment
// of the host.
//
// The idea is that of the catalog, one level down. Rows, one a record, lie in immutable
// sorted runs; a state, appended by put-if-absent to a numbered log of its own, says which runs
// are live and how far they reach: every line of the catalog up to sequence number
// Through is in them. A Builder follows the catalog, makes a run of what is new, and
// merges runs in tiers; a Reader holds little more than a list of the runs in memory.
//
// All of it is derived. It can be made anew from the segments at any time, is not needed for
// any answer to be right, and delays no publication: what the index does not cover yet
// is read out of the segments' own indexes. Nor does it decide what may be seen. It knows the
// lines that are taken down, as a take-down may be lifted; who reads joins its rows, by
// Row.Seq, with the lines that the catalog shows. Rows of what is erased or expired leave.
//
// A run is a ZipNum cluster of CDXJ, as pywb and others read it. URLINDEX.md tells the bytes.
package urlindex

import "errors"

// Errors that callers decide by.
var (
	// ErrCorrupt says that stored bytes are not what a Builder wrote.
	ErrCorrupt = errors.New("URL index is corrupt")
	// ErrOther says that the index was made of another catalog than the one beside it.
	ErrOther = errors.New("URL index is of another catalog")
)
