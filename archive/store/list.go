package store

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
)

// List implements Store. In memory it holds the names of the current directory and of its parents.
func (s *FS) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		w := walk{store: s, ctx: ctx, prefix: prefix, after: after, yield: yield}
		if err := w.dir("."); err != nil && !errors.Is(err, errStopped) {
			s.failed("list", prefix, &err)
			yield(Info{}, err)
		}
	}
}

// errStopped ends a walk whose caller wants no more objects.
var errStopped = errors.New("stopped")

// walk visits files in byte order of their keys.
type walk struct {
	store         *FS
	ctx           context.Context
	prefix, after string
	yield         func(Info, error) bool
}

func (w *walk) dir(dir string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	keys, err := w.keys(dir)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if sub, isDir := strings.CutSuffix(key, "/"); isDir {
			err = w.dir(sub)
		} else {
			err = w.file(key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keys returns the entries of a directory that are worth visiting, sorted. A subdirectory's entry
// ends with a slash, so it sorts like the keys below it.
func (w *walk) keys(dir string) ([]string, error) {
	d, err := w.store.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, e := range entries {
		key := path.Join(dir, e.Name())
		switch {
		case e.Name()[0] == '.':
		case e.IsDir() && w.mayHold(key+"/"):
			keys = append(keys, key+"/")
		case e.Type().IsRegular() && strings.HasPrefix(key, w.prefix) && key > w.after:
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// mayHold reports whether a key that begins with dir can be part of the listing.
func (w *walk) mayHold(dir string) bool {
	wanted := strings.HasPrefix(dir, w.prefix) || strings.HasPrefix(w.prefix, dir)
	return wanted && (dir > w.after || strings.HasPrefix(w.after, dir))
}

func (w *walk) file(key string) error {
	info, err := w.store.root.Lstat(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	if !w.yield(Info{Key: key, Size: info.Size(), Modified: info.ModTime()}, nil) {
		return errStopped
	}
	return nil
}
