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

// path returns the absolute path that an argument names.
func (t *tree) path(arg string) (string, error) {
	if err := printable(arg); err != nil {
		return "", err
	}
	if !path.IsAbs(arg) {
		arg = path.Join(t.dir, arg)
	}
	return path.Clean(arg), nil
}

// stat finds the file or directory that an argument names.
func (t *tree) stat(arg string) (name string, e Entry, err error) {
	if name, err = t.path(arg); err == nil {
		e, err = t.session.Stat(t.d.ctx, name)
	}
	return name, e, err
}

// statFile is stat for commands that need a file.
func (t *tree) statFile(arg string) (name string, e Entry, err error) {
	if name, e, err = t.stat(arg); err == nil && e.Dir {
		err = refuse(550, "%s is a directory", name)
	}
	return name, e, err
}

// statDigest is stat for commands that need a file's stored digest. No digest is computed for a
// client.
func (t *tree) statDigest(arg string) (name string, e Entry, err error) {
	if name, e, err = t.statFile(arg); err != nil {
		return name, e, err
	}
	if b, err := hex.DecodeString(e.SHA256); err != nil || len(b) != 32 {
		return name, e, refuse(550, "No SHA-256 is stored for %s", name)
	}
	return name, e, nil
}

// cwd answers CWD. The directory must exist.
func (t *tree) cwd(arg string) error {
	name, e, err := t.stat(arg)
	switch {
	case err != nil:
		return err
	case !e.Dir:
		return refuse(550, "%s is not a directory", name)
	}
	t.dir = name
	return t.d.reply(250, "Directory changed to %s", name)
}

func (t *tree) cdup(string) error { return t.cwd("..") }

func (t *tree) pwd(string) error {
	return t.d.reply(257, `"%s" is the working directory`, strings.ReplaceAll(t.dir, `"`, `""`))
}

// allo answers ALLO: a size, and perhaps "R" and the size of a record.
func (t *tree) allo(arg string) error {
	session, ok := t.session.(Allocator)
	if !ok {
		return t.d.reply(202, "No need to reserve room")
	}
	size, _, _ := strings.Cut(strings.TrimSpace(arg), " ")
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 0 {
		return refuse(501, "ALLO takes a number of bytes")
	}
	if err := session.Allocate(t.d.ctx, n); err != nil {
		return err
	}
	return t.d.reply(200, "The next upload is taken to have %d bytes", n)
}

func (t *tree) mlst(arg string) error {
	name, e, err := t.stat(arg)
	if err != nil {
		return err
	}
	return t.d.reply(250, "Facts:\n%s%s\nEnd", t.facts.append(nil, e), name)
}

func (t *tree) size(arg string) error {
	_, e, err := t.statFile(arg)
	if err != nil {
		return err
	}
	return t.d.reply(213, "%d", e.Size)
}

func (t *tree) mdtm(arg string) error {
	name, e, err := t.stat(arg)
	switch {
	case err != nil:
		return err
	case e.Modified.IsZero():
		return refuse(550, "The time of %s is not known", name)
	}
	return t.d.reply(213, "%s", e.Modified.UTC().Format(timeval))
}

// hash answers HASH as clients know it (draft-bryan-ftp-hash).
func (t *tree) hash(arg string) error {
	name, e, err := t.statDigest(arg)
	if err != nil {
		return err
	}
	return t.d.reply(213, "SHA-256 0-%d %s %s", e.Size, e.SHA256, name)
}

func (t *tree) xsha256(arg string) error {
	if n := len(arg); n > 1 && arg[0] == '"' && arg[n-1] == '"' {
		arg = arg[1 : n-1]
	}
	_, e, err := t.statDigest(arg)
	if err != nil {
		return err
	}
	return t.d.reply(250, "%s", e.SHA256)
}
