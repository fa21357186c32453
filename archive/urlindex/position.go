package urlindex

import (
	"bytes"
	"cmp"
	"strings"
	"time"
)

// Position is a row's place in the order of the index: by URL key, time, line and place in the
// segment. It depends on nothing but the record itself.
type Position struct {
	Key    string // URL key
	Time   time.Time
	Seq    int64 // of the line
	Offset int64 // of the cell in its segment
}

// Compare orders positions.
func (p Position) Compare(q Position) int {
	return cmp.Or(strings.Compare(p.Key, q.Key), p.Time.Compare(q.Time), cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Offset, q.Offset))
}

// head is that of the position's line.
func (p Position) head() []byte {
	return p.Time.UTC().AppendFormat(append([]byte(p.Key), ' '), timeForm)
}

// Range is a stretch of the index. The bounds are compared as bytes with lines, which begin
// with a URL key and a space; Exact and Prefix give the usual ones.
type Range struct {
	From    string    // lines that sort before it are left out
	To      string    // and those at it and behind; empty: none
	After   *Position // only what comes behind it, in the direction of the walk; nil: all
	Reverse bool      // from the last row to the first
}

// Exact is the range of one URL key.
func Exact(key string) Range { return Range{From: key + " ", To: key + "!"} }

// Prefix is the range of all URL keys that begin so. They are of ASCII without space.
func Prefix(prefix string) Range { return Range{From: prefix, To: prefix + "\x7f"} }

// compareLines orders well-formed lines as their positions. Two lines with the same head
// are of the same URL key and second, which is rare enough to read them.
func compareLines(a, b []byte) int {
	if c := bytes.Compare(head(a), head(b)); c != 0 {
		return c
	}
	p, perr := parseRow(a)
	q, qerr := parseRow(b)
	if perr != nil || qerr != nil {
		return bytes.Compare(a, b) // whoever decodes them will tell
	}
	return p.Position().Compare(q.Position())
}
