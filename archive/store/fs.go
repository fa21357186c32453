package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/internal/files"
	"sheaf/internal/stream"
)

// tempDir is a directory below the root. It has one subdirectory for each process that has the
// store open. No key can reach it, since no part of a key begins with a dot.
const tempDir = ".tmp"

// durableDirs is the number of directories that FS remembers as synced.
const durableDirs = 4096

// FS is a Store in a directory: the key is the path of the object's file.
//
// Put writes a temporary file, syncs it, links it to its name and syncs the directory. The link
// fails if the name is taken, which makes Put put-if-absent. So a visible object is complete, and
// survives a crash once Put has returned nil. FS removes no directory while it may be in use, so it
// can remember which directories are synced. A key cannot be the directory of another key.
type FS struct {
	root *os.Root                     // for reading
	disk files.System                 // the same directory, for writing
	dir  string                       // path of the root, for messages
	temp *tempSpace                   // temporary files of this process
	next atomic.Int64                 // number of the next temporary file
	dirs *lru.Cache[string, struct{}] // directories whose entries in their parents are synced
}

// OpenFS opens the store in dir and creates dir if it is missing. It removes the temporary files of
// processes that have ended.
func OpenFS(dir string) (*FS, error) {
	return openFS(dir, func(disk files.System) files.System { return disk })
}

// openFS is OpenFS on the disk as wrapped by within.
func openFS(dir string, within func(files.System) files.System) (*FS, error) {
	if err := files.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &FS{root: root, disk: within(files.Root{Root: root}), dir: dir}
	if s.temp, err = openTemp(root, s.disk); err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, errors.Join(err, root.Close()))
	}
	if s.dirs, err = lru.New[string, struct{}](durableDirs); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes the store. Open readers remain usable.
func (s *FS) Close() error {
	return errors.Join(s.temp.close(s.disk), s.root.Close())
}

// Put implements Store.
func (s *FS) Put(ctx context.Context, key string, r io.Reader, size int64) (err error) {
	defer s.failed("put", key, &err)
	if err := s.check(ctx, key); err != nil {
		return err
	}
	if size < 0 {
		return fmt.Errorf("size %d: %w", size, ErrSize)
	}
	// Report a taken key before any byte is written.
	if _, err := s.root.Lstat(key); err == nil {
		return s.taken(key)
	}
	temp := path.Join(s.temp.name, strconv.FormatInt(s.next.Add(1), 10))
	if err := s.write(ctx, temp, r, size); err != nil {
		return errors.Join(err, ignoreAbsent(s.disk.Remove(temp)))
	}
	err = s.link(temp, key)
	_ = s.disk.Remove(temp) // if this fails, openTemp removes the file later
	return err
}

// write creates a temporary file of exactly size bytes and syncs it.
func (s *FS) write(ctx context.Context, name string, r io.Reader, size int64) (err error) {
	f, err := s.disk.Create(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := io.Copy(f, io.LimitReader(stream.UntilDone(ctx, r), size+1))
	if err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("declared %d bytes, got %s: %w", size, atLeast(n, size), ErrSize)
	}
	return f.Sync()
}

func atLeast(n, size int64) string {
	if n > size {
		return "more"
	}
	return strconv.FormatInt(n, 10)
}

// link gives the temporary file its final name and syncs the directory.
func (s *FS) link(temp, key string) error {
	if err := s.makeDir(path.Dir(key)); err != nil {
		return err
	}
	switch err := s.disk.Link(temp, key); {
	case errors.Is(err, fs.ErrExist):
		return s.taken(key)
	case err != nil:
		return err
	}
	return s.disk.SyncDir(path.Dir(key))
}

// taken returns the error for a key that has an object. ErrExists promises that the object is
// durable, but its writer may not have synced the directory yet. So taken syncs the directory.
func (s *FS) taken(key string) error {
	info, err := s.root.Lstat(key)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%w: it is the directory of other keys", ErrKey)
	}
	if err := s.makeDir(path.Dir(key)); err != nil {
		return err
	}
	if err := s.disk.SyncDir(path.Dir(key)); err != nil {
		return err
	}
	return ErrExists
}

// makeDir creates the directory and its parents. It syncs the entry of each, unless that is known
// to be synced.
func (s *FS) makeDir(dir string) error {
	if dir == "." || s.dirs.Contains(dir) {
		return nil
	}
	parent := path.Dir(dir)
	if err := s.makeDir(parent); err != nil {
		return err
	}
	if err := s.disk.Mkdir(dir, 0o755); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if info, err := s.root.Lstat(dir); err != nil {
			return err
		} else if !info.IsDir() {
			return fmt.Errorf("%w: %s is an object, not a directory", ErrKey, dir)
		}
	}
	if err := s.disk.SyncDir(parent); err != nil {
		return err
	}
	s.dirs.Add(dir, struct{}{})
	return nil
}

// Open implements Store.
func (s *FS) Open(ctx context.Context, key string, off, n int64) (_ io.ReadCloser, err error) {
	defer s.failed("open", key, &err)
	if err := s.check(ctx, key); err != nil {
		return nil, err
	}
	f, size, err := s.file(key)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		n = size - off
	}
	if off < 0 || off > size || n > size-off {
		err := fmt.Errorf("%d bytes from %d, object has %d: %w", n, off, size, ErrRange)
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &fileRange{rangeReader{ctx, f, key, n}}, nil
}

// OpenFile implements Local.
func (s *FS) OpenFile(key string) (f *os.File, err error) {
	defer s.failed("open", key, &err)
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	f, _, err = s.file(key)
	return f, err
}

func (s *FS) file(key string) (*os.File, int64, error) {
	f, err := s.root.Open(key)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotExist
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Stat implements Store.
func (s *FS) Stat(ctx context.Context, key string) (_ Info, err error) {
	defer s.failed("stat", key, &err)
	if err := s.check(ctx, key); err != nil {
		return Info{}, err
	}
	info, err := s.root.Lstat(key)
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotExist
	}
	if err != nil {
		return Info{}, err
	}
	return Info{Key: key, Size: info.Size(), Modified: info.ModTime()}, nil
}

// Delete implements Store.
func (s *FS) Delete(ctx context.Context, key string) (err error) {
	if _, err := s.Stat(ctx, key); errors.Is(err, ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer s.failed("delete", key, &err)
	if err := ignoreAbsent(s.disk.Remove(key)); err != nil {
		return err
	}
	return s.disk.SyncDir(path.Dir(key))
}

func (s *FS) check(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return CheckKey(key)
}

// failed adds the operation, the store and the key to an error, and turns the system's errors into
// this package's. It leaves a nil error.
func (s *FS) failed(op, key string, err *error) {
	if *err == nil {
		return
	}
	// ENOTDIR: a part of the path is a file, so there is no object of that name. A put needs only
	// the store's own directories; if they are gone, the store has failed.
	if errors.Is(*err, fs.ErrNotExist) && op != "put" || errors.Is(*err, syscall.ENOTDIR) {
		*err = ErrNotExist
	}
	*err = fmt.Errorf("%s %s in store %s: %w", op, key, s.dir, *err)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

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
