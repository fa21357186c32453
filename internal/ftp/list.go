package ftp

import (
	"bufio"
	"context"
	"encoding/hex"
	"iter"
	"path"
	"strings"
	"time"
)

const listBuffer = 32 << 10

// format appends one entry's line.
type format func(b []byte, e Entry) []byte

func (c *conn) list(arg string) {
	now := time.Now()
	c.enumerate(withoutFlags(arg), func(b []byte, e Entry) []byte { return appendLong(b, e, now) })
}

func (c *conn) nlst(arg string) {
	arg = withoutFlags(arg)
	prefix := ""
	if dir, last := path.Split(arg); hasMeta(last) {
		prefix = dir // as a shell would expand it
	}
	c.enumerate(arg, func(b []byte, e Entry) []byte {
		b = append(append(b, prefix...), printable(e.Name)...)
		return append(b, '\r', '\n')
	})
}

// mlsd lists a directory, and nothing but a directory.
func (c *conn) mlsd(arg string) {
	dir, ok := c.path(arg)
	if !ok || !c.ready() {
		return
	}
	e, err := c.session.Stat(c.ctx, dir)
	switch {
	case err != nil:
		c.fail(err)
		return
	case !e.Dir:
		c.reply(501, "%s is not a directory", dir)
		return
	}
	chosen := c.facts
	c.sendList(dir, "", func(b []byte, e Entry) []byte {
		return append(append(chosen.append(b, e), printable(e.Name)...), '\r', '\n')
	})
}

// withoutFlags takes away what clients write for ls, as in "LIST -la dir".
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

func hasMeta(name string) bool { return strings.ContainsAny(name, `*?[`) }

// enumerate lists a directory, a file, or the entries that a pattern in the
// path's last element matches.
func (c *conn) enumerate(arg string, line format) {
	name, ok := c.path(arg)
	if !ok || !c.ready() {
		return
	}
	pattern := ""
	e, err := c.session.Stat(c.ctx, name)
	if last := path.Base(name); err != nil && hasMeta(last) {
		if _, bad := path.Match(last, ""); bad != nil {
			c.reply(501, "The pattern is malformed")
			return
		}
		name, pattern = path.Dir(name), last
		e, err = c.session.Stat(c.ctx, name)
	}
	switch {
	case err != nil:
		c.fail(err)
	case e.Dir:
		c.sendList(name, pattern, line)
	case pattern != "":
		c.reply(550, "%s is not a directory", name)
	default:
		e.Name = path.Base(name)
		c.sendEntries(name, line, func(context.Context) iter.Seq2[Entry, error] {
			return func(yield func(Entry, error) bool) { yield(e, nil) }
		})
	}
}

// matching keeps the entries whose names match; "" matches all.
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

// sendList lists the entries of a directory that match the pattern.
func (c *conn) sendList(dir, pattern string, line format) {
	c.sendEntries(dir, line, func(ctx context.Context) iter.Seq2[Entry, error] {
		return matching(c.session.List(ctx, dir), pattern)
	})
}

// sendEntries streams a listing. Only a buffer of it is held.
func (c *conn) sendEntries(name string, line format, entries func(context.Context) iter.Seq2[Entry, error]) {
	c.rest = 0
	t := c.begin("", "")
	defer t.end()
	err := t.over("Listing "+name, func(d *data) error {
		w := bufio.NewWriterSize(d, listBuffer)
		for e, err := range entries(t.ctx) {
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
		c.fail(err)
		return
	}
	c.reply(226, "End of list")
}

// about finds what a command that describes one file or directory is about.
func (c *conn) about(arg string) (string, Entry, bool) {
	name, ok := c.path(arg)
	if !ok {
		return "", Entry{}, false
	}
	e, err := c.session.Stat(c.ctx, name)
	if err != nil {
		c.fail(err)
		return "", Entry{}, false
	}
	return name, e, true
}

// aboutFile is about for commands that only files answer.
func (c *conn) aboutFile(arg string) (string, Entry, bool) {
	name, e, ok := c.about(arg)
	if ok && e.Dir {
		c.reply(550, "%s is a directory", name)
		return "", Entry{}, false
	}
	return name, e, ok
}

func (c *conn) mlst(arg string) {
	if name, e, ok := c.about(arg); ok {
		c.reply(250, "Facts:\n%s%s\nEnd", c.facts.append(nil, e), name)
	}
}

func (c *conn) size(arg string) {
	if _, e, ok := c.aboutFile(arg); ok {
		c.reply(213, "%d", e.Size)
	}
}

func (c *conn) mdtm(arg string) {
	switch name, e, ok := c.about(arg); {
	case !ok:
	case e.Modified.IsZero():
		c.reply(550, "The time of %s is not known", name)
	default:
		c.reply(213, "%s", e.Modified.UTC().Format(timeval))
	}
}

// hash answers HASH, of the draft that clients know (draft-bryan-ftp-hash).
func (c *conn) hash(arg string) {
	if name, e, ok := c.aboutDigest(arg); ok {
		c.reply(213, "SHA-256 0-%d %s %s", e.Size, e.SHA256, name)
	}
}

func (c *conn) xsha256(arg string) {
	if n := len(arg); n > 1 && arg[0] == '"' && arg[n-1] == '"' {
		arg = arg[1 : n-1]
	}
	if _, e, ok := c.aboutDigest(arg); ok {
		c.reply(250, "%s", e.SHA256)
	}
}

// aboutDigest is about for files whose digest is stored: none is computed here.
func (c *conn) aboutDigest(arg string) (string, Entry, bool) {
	name, e, ok := c.aboutFile(arg)
	if !ok {
		return "", Entry{}, false
	}
	if b, err := hex.DecodeString(e.SHA256); err != nil || len(b) != 32 {
		c.reply(550, "No SHA-256 is stored for %s", name)
		return "", Entry{}, false
	}
	return name, e, true
}
