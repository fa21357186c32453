package ftp

import (
	"encoding/hex"
	"path"
	"strconv"
	"strings"
)

// tree holds the client's session and working directory. It has the commands that describe single
// files and directories or change the working directory.
type tree struct {
	d       *dialogue
	session Session // nil before the login
	user    string  // logged in as
	dir     string  // the working directory
	facts   facts   // chosen by OPTS MLST
}

// path returns the absolute path that an argument names. If it returns false, it has told the
// client why.
func (t *tree) path(arg string) (string, bool) {
	if !t.d.printable(arg) {
		return "", false
	}
	if !path.IsAbs(arg) {
		arg = path.Join(t.dir, arg)
	}
	return path.Clean(arg), true
}

// stat finds the file or directory that an argument names. If it returns false, it has told the
// client why.
func (t *tree) stat(arg string) (name string, e Entry, ok bool) {
	if name, ok = t.path(arg); ok {
		e, ok = t.statPath(name)
	}
	return name, e, ok
}

// statPath is stat for an absolute path.
func (t *tree) statPath(name string) (Entry, bool) {
	e, err := t.session.Stat(t.d.ctx, name)
	if err != nil {
		t.d.fail(err)
	}
	return e, err == nil
}

// statFile is stat for commands that need a file.
func (t *tree) statFile(arg string) (name string, e Entry, ok bool) {
	if name, e, ok = t.stat(arg); ok && e.Dir {
		t.d.reply(550, "%s is a directory", name)
		ok = false
	}
	return name, e, ok
}

// statDigest is stat for commands that need a file's stored digest. No digest is computed for a
// client.
func (t *tree) statDigest(arg string) (name string, e Entry, ok bool) {
	if name, e, ok = t.statFile(arg); !ok {
		return name, e, false
	}
	if b, err := hex.DecodeString(e.SHA256); err != nil || len(b) != 32 {
		t.d.reply(550, "No SHA-256 is stored for %s", name)
		return name, e, false
	}
	return name, e, true
}

// cwd answers CWD. The directory must exist.
func (t *tree) cwd(arg string) {
	switch name, e, ok := t.stat(arg); {
	case !ok:
	case !e.Dir:
		t.d.reply(550, "%s is not a directory", name)
	default:
		t.dir = name
		t.d.reply(250, "Directory changed to %s", name)
	}
}

func (t *tree) cdup(string) { t.cwd("..") }

func (t *tree) pwd(string) {
	t.d.reply(257, `"%s" is the working directory`, strings.ReplaceAll(t.dir, `"`, `""`))
}

// allo answers ALLO: a size, and perhaps "R" and the size of a record.
func (t *tree) allo(arg string) {
	session, ok := t.session.(Allocator)
	if !ok {
		t.d.reply(202, "No need to reserve room")
		return
	}
	size, _, _ := strings.Cut(strings.TrimSpace(arg), " ")
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 0 {
		t.d.reply(501, "ALLO takes a number of bytes")
		return
	}
	if err := session.Allocate(t.d.ctx, n); err != nil {
		t.d.fail(err)
		return
	}
	t.d.reply(200, "The next upload is taken to have %d bytes", n)
}

func (t *tree) mlst(arg string) {
	if name, e, ok := t.stat(arg); ok {
		t.d.reply(250, "Facts:\n%s%s\nEnd", t.facts.append(nil, e), name)
	}
}

func (t *tree) size(arg string) {
	if _, e, ok := t.statFile(arg); ok {
		t.d.reply(213, "%d", e.Size)
	}
}

func (t *tree) mdtm(arg string) {
	switch name, e, ok := t.stat(arg); {
	case !ok:
	case e.Modified.IsZero():
		t.d.reply(550, "The time of %s is not known", name)
	default:
		t.d.reply(213, "%s", e.Modified.UTC().Format(timeval))
	}
}

// hash answers HASH as clients know it (draft-bryan-ftp-hash).
func (t *tree) hash(arg string) {
	if name, e, ok := t.statDigest(arg); ok {
		t.d.reply(213, "SHA-256 0-%d %s %s", e.Size, e.SHA256, name)
	}
}

func (t *tree) xsha256(arg string) {
	if n := len(arg); n > 1 && arg[0] == '"' && arg[n-1] == '"' {
		arg = arg[1 : n-1]
	}
	if _, e, ok := t.statDigest(arg); ok {
		t.d.reply(250, "%s", e.SHA256)
	}
}
