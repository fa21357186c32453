package ftp

import (
	"strconv"
	"strings"
	"time"
)

// facts is a set of the facts of MLST and MLSD (RFC 3659).
type facts uint8

const (
	factType facts = 1 << iota
	factSize
	factModify
	factPerm
	factUnique

	allFacts = 1<<iota - 1
)

// factNames are the names of the facts, in the order of their bits.
var factNames = [...]string{"type", "size", "modify", "perm", "unique"}

func (s facts) has(f facts) bool { return s&f != 0 }

// String returns the set as OPTS MLST writes it: "type;size;".
func (s facts) String() (text string) {
	for i, name := range factNames {
		if s.has(1 << i) {
			text += name + ";"
		}
	}
	return text
}

// feature returns the line of FEAT: all facts, with a star after each fact of the set.
func (s facts) feature() (text string) {
	for i, name := range factNames {
		if s.has(1 << i) {
			name += "*"
		}
		text += name + ";"
	}
	return text
}

// parseFacts reads the list of OPTS MLST. It ignores unknown facts.
func parseFacts(list string) (s facts) {
	for given := range strings.SplitSeq(list, ";") {
		for i, name := range factNames {
			if strings.EqualFold(strings.TrimSpace(given), name) {
				s |= 1 << i
			}
		}
	}
	return s
}

// timeval is the form of times in MDTM and MLST.
const timeval = "20060102150405"

// append appends the facts of e that are in the set, and one space.
func (s facts) append(b []byte, e Entry) []byte {
	if s.has(factType) {
		if e.Dir {
			b = append(b, "type=dir;"...)
		} else {
			b = append(b, "type=file;"...)
		}
	}
	if s.has(factSize) && !e.Dir {
		b = strconv.AppendInt(append(b, "size="...), e.Size, 10)
		b = append(b, ';')
	}
	if s.has(factModify) && !e.Modified.IsZero() {
		b = e.Modified.UTC().AppendFormat(append(b, "modify="...), timeval)
		b = append(b, ';')
	}
	if s.has(factPerm) {
		b = append(append(b, "perm="...), e.perm()...)
		b = append(b, ';')
	}
	if s.has(factUnique) && e.Unique != "" && !strings.ContainsAny(e.Unique, "; ") {
		b = append(append(b, "unique="...), Printable(e.Unique)...)
		b = append(b, ';')
	}
	return append(b, ' ')
}

// perm returns the client's permissions for the entry, in the letters of RFC 3659.
func (e Entry) perm() string {
	switch {
	case e.Dir && e.Writable:
		return "cel"
	case e.Dir:
		return "el"
	case e.Writable:
		return "arw"
	default:
		return "r"
	}
}

// appendLong appends a line of LIST, in the form of ls -l, which clients parse. A time outside the
// last half year is written with its year instead of its hour.
func appendLong(b []byte, e Entry, now time.Time) []byte {
	mode := "-r--r--r--"
	switch {
	case e.Dir && e.Writable:
		mode = "drwxr-xr-x"
	case e.Dir:
		mode = "dr-xr-xr-x"
	case e.Writable:
		mode = "-rw-r--r--"
	}
	b = append(append(b, mode...), "   1 ftp      ftp      "...)
	size := strconv.AppendInt(nil, e.Size, 10)
	for range 12 - len(size) {
		b = append(b, ' ')
	}
	b = append(b, size...)
	at := e.Modified.UTC()
	if e.Modified.IsZero() {
		at = time.Unix(0, 0).UTC()
	}
	if at.After(now.Add(time.Hour)) || at.Before(now.AddDate(0, -6, 0)) {
		b = at.AppendFormat(b, " Jan _2  2006 ")
	} else {
		b = at.AppendFormat(b, " Jan _2 15:04 ")
	}
	return append(append(b, Printable(e.Name)...), '\r', '\n')
}
