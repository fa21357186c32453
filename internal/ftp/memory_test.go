package ftp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"maps"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"sheaf/internal/stream"
)

// memory is a Handler over a tree held in memory, shared by all logins.
// Uploads that are not committed stay aside, as partial files, for a resume.
type memory struct {
	refuse error // what Stat, Open and Create answer, if anything

	mu        sync.Mutex // guards what follows
	files     map[string][]byte
	local     map[string]*os.File // files that leave by sendfile
	partial   map[string][]byte
	commits   int
	aborts    []error
	transfers []transferred
	notes     []Transfer // the same, as they were told
	closed    int
	gate      chan struct{} // if set, reading files waits until it is closed
}

type transferred struct {
	direction Direction
	path      string
	bytes     int64
	err       error
}

var modified = time.Date(2024, 3, 5, 7, 8, 9, 0, time.FixedZone("JST", 9*3600))

func newMemory(files map[string]string) *memory {
	m := &memory{files: map[string][]byte{}, partial: map[string][]byte{}, local: map[string]*os.File{}}
	for name, text := range files {
		m.files[name] = []byte(text)
	}
	return m
}

func (m *memory) Login(_ context.Context, user, password string, _ net.Addr) (Session, error) {
	switch {
	case password == "closed":
		return nil, &Error{421, "The window opens at 02:00"}
	case password == "broken":
		return nil, errors.New("/secret/db: no such file")
	case password != "secret":
		return nil, &Error{530, "Wrong name or password"}
	}
	return &memorySession{m}, nil
}

func (m *memory) file(name string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.files[name]
	return string(b), ok
}

func (m *memory) counts() (commits, aborts int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.commits, len(m.aborts)
}

type memorySession struct{ *memory }

func (m *memorySession) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed++
	return nil
}

func (m *memorySession) Transferred(t Transfer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = append(m.notes, t)
	m.transfers = append(m.transfers, transferred{t.Direction, t.Path, t.Bytes, t.Err})
}

func (m *memorySession) Stat(_ context.Context, name string) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		return Entry{}, m.refuse
	}
	if name == "/panic" {
		panic("as asked")
	}
	return m.stat(name)
}

func (m *memory) stat(name string) (Entry, error) {
	e := Entry{Name: path.Base(name), Modified: modified, Writable: true}
	b, ok := m.files[name]
	if !ok {
		b, ok = m.partial[name]
	}
	if ok {
		sum := sha256.Sum256(b)
		e.Size, e.SHA256 = int64(len(b)), hex.EncodeToString(sum[:])
		e.Unique = e.SHA256[:16]
		return e, nil
	}
	if f, ok := m.local[name]; ok {
		info, err := f.Stat()
		e.Size = info.Size()
		return e, err
	}
	prefix := strings.TrimSuffix(name, "/") + "/"
	for n := range m.all() {
		if strings.HasPrefix(n, prefix) {
			e.Dir = true
			return e, nil
		}
	}
	if name == "/" {
		e.Dir = true
		return e, nil
	}
	return Entry{}, &Error{550, "No such file or directory"}
}

func (m *memory) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for n := range m.files {
			if !yield(n) {
				return
			}
		}
		for n := range m.local {
			if !yield(n) {
				return
			}
		}
	}
}

func (m *memorySession) List(_ context.Context, dir string) iter.Seq2[Entry, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	prefix := strings.TrimSuffix(dir, "/") + "/"
	found := map[string]Entry{}
	for n := range m.all() {
		if rest, ok := strings.CutPrefix(n, prefix); ok {
			first, _, _ := strings.Cut(rest, "/")
			e, err := m.stat(prefix + first)
			if err != nil {
				panic(err)
			}
			found[first] = e
		}
	}
	entries := slices.SortedFunc(maps.Values(found), func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return func(yield func(Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m *memorySession) Open(ctx context.Context, name string, offset int64) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.local[name]; ok {
		own, err := os.Open(f.Name())
		if err != nil {
			return nil, err
		}
		info, err := own.Stat()
		return localFile{own, offset, info.Size() - offset}, err
	}
	return &memoryFile{bytes.NewReader(m.files[name][offset:]), ctx, m.gate}, nil
}

type localFile struct {
	*os.File
	off, n int64
}

func (f localFile) Extents() (stream.Reader, error) { return &wholeFile{f}, nil }

// wholeFile gives a file's section as one extent.
type wholeFile struct{ localFile }

func (w *wholeFile) Next(context.Context) (stream.Extent, error) {
	if w.n == 0 {
		return stream.Extent{}, io.EOF
	}
	e := stream.Extent{File: w.File, Off: w.off, Len: w.n}
	w.n = 0
	return e, nil
}

func (w *wholeFile) Close() error { return nil }

type memoryFile struct {
	*bytes.Reader
	ctx  context.Context
	gate chan struct{}
}

func (f *memoryFile) Close() error     { return nil }
func (f *memoryFile) Remaining() int64 { return int64(f.Len()) }
func (f *memoryFile) Read(p []byte) (int, error) {
	if f.gate != nil {
		select {
		case <-f.gate:
		case <-f.ctx.Done():
			return 0, f.ctx.Err()
		}
	}
	return f.Reader.Read(p)
}

func (m *memorySession) Create(_ context.Context, name string, offset int64) (Upload, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if strings.HasPrefix(name, "/read-only") {
		return nil, &Error{550, "Nothing is taken here"}
	}
	old := m.partial[name]
	if old == nil {
		old = m.files[name]
	}
	if offset == Append {
		offset = int64(len(old))
	}
	if offset > int64(len(old)) {
		return nil, &Error{554, "There is less than that"}
	}
	return &memoryUpload{m: m.memory, name: name, data: bytes.Clone(old[:offset])}, nil
}

type memoryUpload struct {
	m    *memory
	name string
	data []byte
	over bool
}

func (u *memoryUpload) Write(p []byte) (int, error) {
	if strings.HasSuffix(u.name, "full") {
		return 0, &Error{452, "No space"}
	}
	if strings.HasSuffix(u.name, "crash") {
		panic("as asked")
	}
	u.data = append(u.data, p...)
	return len(p), nil
}

func (u *memoryUpload) end() {
	if u.over {
		panic("upload ended twice")
	}
	u.over = true
}

func (u *memoryUpload) Commit() error {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	u.end()
	u.m.commits++
	if strings.HasSuffix(u.name, "leak") {
		return errors.New("fsync /var/spool/secret: input/output error")
	}
	u.m.files[u.name] = u.data
	delete(u.m.partial, u.name)
	return nil
}

func (u *memoryUpload) Abort(cause error) {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	u.end()
	u.m.aborts = append(u.m.aborts, cause)
	u.m.partial[u.name] = u.data
}
