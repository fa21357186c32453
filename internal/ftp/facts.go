package ftp

import (
	"strconv"
	"strings"
	"time"
)

// fact is one of the facts of MLST and MLSD (RFC 3659); facts a set of them.
type fact uint8

const (
	factType fact = iota
	factSize
	factModify
	factPerm
	factUnique
	factCount

	allFacts facts = 1<<factCount - 1
)

func (f fact) String() string {
	return [factCount]string{"type", "size", "modify", "perm", "unique"}[f]
}

type facts uint8

func (s facts) has(f fact) bool { return s&(1<<f) != 0 }

// String is the set as OPTS MLST writes it: "type;size;".
func (s facts) String() string {
	var b strings.Builder
	for f := range factCount {
		if s.has(f) {
			b.WriteString(f.String() + ";")
		}
	}
	return b.String()
}

// feature is the set as FEAT writes it: all facts, the chosen ones with a star.
func (s facts) feature() string {
	var b strings.Builder
	for f := range factCount {
		b.WriteString(f.String())
		if s.has(f) {
			b.WriteByte('*')
		}
		b.WriteByte(';')
	}
	return b.String()
}

// parseFacts reads the list of OPTS MLST; unknown facts are passed over.
func parseFacts(list string) facts {
	var s facts
	for name := range strings.SplitSeq(list, ";") {
		for f := range factCount {
			if strings.EqualFold(strings.TrimSpace(name), f.String()) {
				s |= 1 << f
			}
		}
	}
	return s
}

// timeval is a time as MDTM and MLST write it.
const timeval = "20060102150405"

// appendFacts appends the chosen facts of e and one space.
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
		b = append(append(b, "unique="...), printable(e.Unique)...)
		b = append(b, ';')
	}
	return append(b, ' ')
}

// perm is what may be done with the entry, in RFC 3659's letters.
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

// appendLong appends e as a line of LIST, in the form of ls -l that clients
// parse; the year stands for the hour where the time is not of the last half year.
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
	return append(append(b, printable(e.Name)...), '\r', '\n')
}
