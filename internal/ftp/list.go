package ftp

import (
	"bufio"
	"context"
	"iter"
	"path"
	"strings"
	"time"
)

const listBuffer = 32 << 10 // bytes of a listing that are held

// lineFormat appends the line of one entry.
type lineFormat func(b []byte, e Entry) []byte

// list answers LIST. It ignores flags of ls.
func (t *transfers) list(arg string) {
	now := time.Now()
	t.enumerate(withoutFlags(arg), func(b []byte, e Entry) []byte { return appendLong(b, e, now) })
}

// nlst answers NLST, with names alone.
func (t *transfers) nlst(arg string) {
	arg = withoutFlags(arg)
	prefix := ""
	if dir, last := path.Split(arg); isPattern(last) {
		prefix = dir // names have the directory before them, as a shell expands a pattern
	}
	t.enumerate(arg, func(b []byte, e Entry) []byte {
		b = append(append(b, prefix...), Printable(e.Name)...)
		return append(b, '\r', '\n')
	})
}

// mlsd answers MLSD, for directories alone.
func (t *transfers) mlsd(arg string) {
	switch dir, e, ok := t.stat(arg); {
	case !ok:
	case !e.Dir:
		t.d.reply(501, "%s is not a directory", dir)
	default:
		chosen := t.tree.facts
		t.sendDir(dir, "", func(b []byte, e Entry) []byte {
			return append(append(chosen.append(b, e), Printable(e.Name)...), '\r', '\n')
		})
	}
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
func (t *transfers) enumerate(arg string, line lineFormat) {
	name, ok := t.path(arg)
	if !ok {
		return
	}
	pattern := ""
	e, err := t.tree.session.Stat(t.d.ctx, name)
	if last := path.Base(name); err != nil && isPattern(last) {
		if _, bad := path.Match(last, ""); bad != nil {
			t.d.reply(501, "The pattern is malformed")
			return
		}
		name, pattern = path.Dir(name), last
		e, err = t.tree.session.Stat(t.d.ctx, name)
	}
	switch {
	case err != nil:
		t.d.fail(err)
	case e.Dir:
		t.sendDir(name, pattern, line)
	case pattern != "":
		t.d.reply(550, "%s is not a directory", name)
	default:
		e.Name = path.Base(name)
		t.sendEntries(name, line, func(context.Context) iter.Seq2[Entry, error] {
			return func(yield func(Entry, error) bool) { yield(e, nil) }
		})
	}
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
func (t *transfers) sendDir(dir, pattern string, line lineFormat) {
	t.sendEntries(dir, line, func(ctx context.Context) iter.Seq2[Entry, error] {
		return matching(t.tree.session.List(ctx, dir), pattern)
	})
}

// sendEntries makes a listing and sends it piece by piece. It holds only listBuffer bytes in
// memory.
func (t *transfers) sendEntries(name string, line lineFormat, entries func(context.Context) iter.Seq2[Entry, error]) {
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
	t.reply(err, "End of list")
}
