package urlindex

import (
	"bytes"
	"cmp"
	"strings"
	"time"
)

// Position is a row's place in the order of the index: by URL key, time, sequence number and place
// in the segment. It depends on the record alone.
type Position struct {
	Key    string    `json:"k,omitempty"` // URL key
	Time   time.Time `json:"w,omitzero"`
	Seq    int64     `json:"s,omitempty"` // sequence number of the catalog's entry
	Offset int64     `json:"o,omitempty"` // of the record's cell in its segment
}

// Compare returns a negative number if p is before q, 0 if they are equal, and otherwise a positive
// number.
func (p Position) Compare(q Position) int {
	return cmp.Or(strings.Compare(p.Key, q.Key), p.Time.Compare(q.Time), cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Offset, q.Offset))
}

// head returns the URL key and time with which the position's line begins.
func (p Position) head() []byte {
	return p.Time.UTC().AppendFormat(append([]byte(p.Key), ' '), timeForm)
}

// Range is a section of the index. Its bounds are compared as bytes with lines, which begin with a
// URL key and a space. Exact and Prefix return the usual ranges.
type Range struct {
	From    string    // lines that sort before it are excluded
	To      string    // lines that sort at or behind it are excluded; empty: no bound
	After   *Position // only rows after it, in the direction of the walk; nil: all
	Reverse bool      // from the last row to the first
}

// Exact returns the range of one URL key.
func Exact(key string) Range { return Range{From: key + " ", To: key + "!"} }

// Prefix returns the range of all URL keys with a prefix. URL keys are ASCII without spaces.
func Prefix(prefix string) Range { return Range{From: prefix, To: prefix + "\x7f"} }

// compareLines compares well-formed lines by their positions. Lines with the same head have the
// same URL key and second. That is rare, so compareLines then parses both lines.
func compareLines(a, b []byte) int {
	if c := bytes.Compare(head(a), head(b)); c != 0 {
		return c
	}
	p, perr := parseRow(a)
	q, qerr := parseRow(b)
	if perr != nil || qerr != nil {
		return bytes.Compare(a, b) // decoding them will report the error
	}
	return p.Position().Compare(q.Position())
}
