package ftp

import (
	"bufio"
	"context"
	"iter"
	"path"
	"strconv"
	"strings"
	"time"
)

const listBuffer = 32 << 10 // bytes of a listing that are held

// lineFormat appends the line of one entry.
type lineFormat func(b []byte, e Entry) []byte

// list answers LIST. It ignores flags of ls.
func (t *transfers) list(arg string) error {
	now := time.Now()
	return t.enumerate(withoutFlags(arg), func(b []byte, e Entry) []byte { return appendLong(b, e, now) })
}

// nlst answers NLST, with names alone.
func (t *transfers) nlst(arg string) error {
	arg = withoutFlags(arg)
	prefix := ""
	if dir, last := path.Split(arg); isPattern(last) {
		prefix = dir // names have the directory before them, as a shell expands a pattern
	}
	return t.enumerate(arg, func(b []byte, e Entry) []byte {
		b = append(append(b, prefix...), Printable(e.Name)...)
		return append(b, '\r', '\n')
	})
}

// mlsd answers MLSD, for directories alone.
func (t *transfers) mlsd(arg string) error {
	dir, e, err := t.stat(arg)
	switch {
	case err != nil:
		return err
	case !e.Dir:
		return refuse(501, "%s is not a directory", dir)
	}
	chosen := t.tree.facts
	return t.sendDir(dir, "", func(b []byte, e Entry) []byte {
		return append(append(chosen.append(b, e), Printable(e.Name)...), '\r', '\n')
	})
}

// withoutFlags removes flags of ls, which clients send as in "LIST -la dir".
func withoutFlags(arg string) string {
	for strings.HasPrefix(arg, "-") {
		var flag string
		flag, arg, _ = strings.Cut(arg, " ")
		arg = strings.TrimLeft(arg, " ")
		if flag == "--" {
			break
		}
	}
	return arg
}

func isPattern(name string) bool { return strings.ContainsAny(name, `*?[`) }

// enumerate lists a directory, a file, or, if the path's last element is a pattern, the entries
// that match it.
func (t *transfers) enumerate(arg string, line lineFormat) error {
	name, err := t.path(arg)
	if err != nil {
		return err
	}
	pattern := ""
	e, err := t.tree.session.Stat(t.d.ctx, name)
	if last := path.Base(name); err != nil && isPattern(last) {
		if _, bad := path.Match(last, ""); bad != nil {
			return refuse(501, "The pattern is malformed")
		}
		name, pattern = path.Dir(name), last
		e, err = t.tree.session.Stat(t.d.ctx, name)
	}
	switch {
	case err != nil:
		return err
	case e.Dir:
		return t.sendDir(name, pattern, line)
	case pattern != "":
		return refuse(550, "%s is not a directory", name)
	}
	e.Name = path.Base(name)
	return t.sendEntries(name, line, func(context.Context) iter.Seq2[Entry, error] {
		return func(yield func(Entry, error) bool) { yield(e, nil) }
	})
}

// matching returns the entries whose names match the pattern; "" matches all.
func matching(entries iter.Seq2[Entry, error], pattern string) iter.Seq2[Entry, error] {
	if pattern == "" {
		return entries
	}
	return func(yield func(Entry, error) bool) {
		for e, err := range entries {
			if ok, _ := path.Match(pattern, e.Name); (ok || err != nil) && !yield(e, err) {
				return
			}
		}
	}
}

// sendDir sends the entries of a directory that match the pattern.
func (t *transfers) sendDir(dir, pattern string, line lineFormat) error {
	return t.sendEntries(dir, line, func(ctx context.Context) iter.Seq2[Entry, error] {
		return matching(t.tree.session.List(ctx, dir), pattern)
	})
}

// sendEntries makes a listing and sends it piece by piece. It holds only listBuffer bytes in
// memory.
func (t *transfers) sendEntries(name string, line lineFormat, entries func(context.Context) iter.Seq2[Entry, error]) error {
	t.rest = 0
	transfer := t.begin("", "")
	defer transfer.end()
	err := transfer.run("Listing "+name, func(c *dataConn) error {
		w := bufio.NewWriterSize(c, listBuffer)
		for e, err := range entries(transfer.ctx) {
			if err != nil {
				return err
			}
			if _, err := w.Write(line(w.AvailableBuffer(), e)); err != nil {
				return err
			}
		}
		return w.Flush()
	})
	if err != nil {
		return err
	}
	return t.d.reply(226, "End of list")
}

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
