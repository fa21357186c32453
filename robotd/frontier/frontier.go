package frontier

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"sheaf/internal/files"
)

// Frontier is a folder with the queues of many hosts. It may be used concurrently.
type Frontier struct {
	dir   string
	seen  *Seen                         // of all hosts; each host salts its hashes
	ahead *lru.Cache[*Host, *lookAhead] // of the hosts visited last

	opens singleflight.Group // opens in progress, by host

	mu    sync.Mutex // guards cycle and hosts
	cycle int64
	hosts map[string]*Host
}

// temp returns the folder for the files of the seen set and for sorting.
func (f *Frontier) temp() string { return filepath.Join(f.dir, "temp") }

// Open opens or creates the folder and enters the given cycle. Files of earlier cycles are merged
// into a host's state when the host is opened (see settleBefore).
func Open(dir string, cycle int64) (*Frontier, error) {
	f := &Frontier{dir: dir, cycle: cycle, hosts: make(map[string]*Host)}
	// A killed process may have left files there.
	if err := errors.Join(os.RemoveAll(f.temp()), os.MkdirAll(f.temp(), 0o755)); err != nil {
		return nil, fmt.Errorf("frontier: %w", err)
	}
	f.seen = NewSeen(f.temp())
	var err error
	f.ahead, err = lru.NewWithEvict(aheadHosts, func(h *Host, _ *lookAhead) { h.ahead.Store(nil) })
	return f, err
}

// Close closes the open files. The frontier must not be used afterwards.
func (f *Frontier) Close() error { return f.seen.Clear() }

// Host opens the host's part of the frontier in the current cycle. It reads the host's log; several
// hosts can be opened concurrently. Host must not run during Forget of the same host, nor during
// Advance.
func (f *Frontier) Host(name string) (*Host, error) {
	h, err, _ := f.opens.Do(name, func() (any, error) {
		f.mu.Lock()
		h, cycle := f.hosts[name], f.cycle
		f.mu.Unlock()
		if h != nil {
			return h, nil
		}
		h, err := f.open(name, cycle)
		if err != nil {
			return nil, fmt.Errorf("frontier of %s: %w", name, err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hosts[name] = h
		return h, nil
	})
	if err != nil {
		return nil, err
	}
	return h.(*Host), nil
}

// Names returns the hosts in the folder, open or not.
func (f *Frontier) Names() ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(f.dir, "??", "*"))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(dirs))
	for _, dir := range dirs {
		name, err := url.QueryUnescape(filepath.Base(dir))
		if err != nil {
			return nil, fmt.Errorf("frontier: folder %s is not named after a host; move it away: %w", dir, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// Forget drops everything known about a host: another robot has it now, or the service refused what
// was collected from it, so that its pages must be archived in full again.
func (f *Frontier) Forget(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hosts, name)
	return os.RemoveAll(f.path(name))
}

// ForgetVisits drops what is known about the host's pages, so that the next visits archive full
// copies. It keeps the queue of the current cycle.
func (f *Frontier) ForgetVisits(name string) error {
	h, err := f.Host(name)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return dropVisits(h, h.last)
}

// Advance merges every host's cycle into its state and enters the next cycle. It may be repeated
// after a crash: a host that has been merged is left as it is.
func (f *Frontier) Advance(cycle int64) error {
	names, err := f.Names()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.hosts {
		if err := h.links.flush(h.path(linksKind), 0); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := settleBefore(f.temp(), f.path(name), name, cycle); err != nil {
			return fmt.Errorf("frontier of %s: %w", name, err)
		}
	}
	f.cycle = cycle
	clear(f.hosts)
	f.ahead.Purge()
	return f.seen.Clear()
}

// path returns the host's folder. Hosts are spread over 256 folders by the first byte of their
// hash, so that no folder becomes too long to list.
func (f *Frontier) path(name string) string {
	h := hash(name)
	return filepath.Join(f.dir, fmt.Sprintf("%02x", byte(h>>56)), url.QueryEscape(name))
}

// A host's files are opened for each use, so that a hundred thousand hosts need no file
// descriptors.

// filePath returns the path of one of a host's files of a cycle.
func filePath(dir string, cycle int64, kind string) string {
	return filepath.Join(dir, fmt.Sprintf("%d.%s", cycle, kind))
}

// appendAt writes p behind the first size bytes of a file, as files.AppendAt does, and returns the
// new size.
func appendAt(path string, size int64, p []byte) (int64, error) {
	if len(p) == 0 {
		return size, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return size, err
	}
	defer f.Close()
	if err := files.AppendAt(f, size, p); err != nil {
		return size, err
	}
	return size + int64(len(p)), nil
}

// readAt reads into p from offset off, up to the end of the file.
func readAt(path string, off int64, p []byte) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := f.ReadAt(p, off)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// cutTo truncates a file that is longer than size. The file may be missing.
func cutTo(path string, size int64) error {
	old, err := fileSize(path)
	if err != nil || old <= size {
		return err
	}
	return os.Truncate(path, size)
}

// fileSize returns the size of a file, or 0 if the file is missing.
func fileSize(path string) (int64, error) {
	st, err := os.Stat(path)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
