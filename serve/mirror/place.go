package mirror

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/internal/durable"
	"sheaf/internal/flock"
	"sheaf/serve/client"
	"sheaf/serve/feed"
)

// The names in the mirror's own directory.
const (
	ownDir     = ".sheaf-mirror"
	lockFile   = "lock"
	stateFile  = "state.json"
	partialDir = "partial"
)

// stateFormat is the format number that this version writes and reads.
const stateFormat = 1

// wants is what a mirror is of.
type wants struct {
	client.Selection
	Forms []string `json:"forms"`
}

func (w wants) equal(o wants) bool {
	a, _ := json.Marshal(w) // strings: cannot fail
	b, _ := json.Marshal(o)
	return bytes.Equal(a, b)
}

// state says how far a mirror is. All before Cursor is in hand, but for Pending.
type state struct {
	Format int         `json:"format"`
	Wants  wants       `json:"wants"`
	Cursor feed.Cursor `json:"cursor"`
	// Sweep says that the feed is gone through from its beginning, and that in the
	// end what it has not told of is deleted.
	Sweep   bool              `json:"sweep,omitempty"`
	Pending map[string]string `json:"pending,omitempty"` // directories of hosts that are to be looked at again, and why
}

// place is the directory of a mirror, which nobody else writes to. Different hosts'
// directories may be worked on at once.
type place struct {
	dir  string
	lock *os.File

	mu    sync.Mutex // guards bared
	bared []string   // hosts' directories that nothing is in hand of any more
}

// openPlace makes the directory where there is none, and locks it.
func openPlace(dir string) (*place, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	p := &place{dir: dir}
	if err := durable.MkdirAll(p.own(partialDir), 0o755); err != nil {
		return nil, err
	}
	if p.lock, err = os.OpenFile(p.own(lockFile), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	if err := flock.TryLock(p.lock); err != nil {
		holder, _ := os.ReadFile(p.own(lockFile))
		p.lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another sheaf mirror is at work in %s (process %s): one directory, one mirror", dir, bytes.TrimSpace(holder))
		}
		return nil, fmt.Errorf("lock %s: %w", p.own(lockFile), err)
	}
	err = p.lock.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintln(p.lock, os.Getpid())
	}
	if err != nil && !isFull(err) { // who holds it is for people; a full disk is told of elsewhere
		return nil, errors.Join(err, p.lock.Close())
	}
	return p, nil
}

func (p *place) own(name string) string { return filepath.Join(p.dir, ownDir, name) }

func (p *place) close() error { return p.lock.Close() }

// load reads the state; fresh says that nothing was ever mirrored here.
func (p *place) load() (s state, fresh bool, err error) {
	data, err := os.ReadFile(p.own(stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		entries, err := os.ReadDir(p.dir)
		// what another program has fetched is taken over where it fits
		return state{Format: stateFormat, Pending: map[string]string{}, Sweep: len(entries) > 1}, len(entries) <= 1, err
	}
	if err != nil {
		return s, false, err
	}
	if err := json.Unmarshal(data, &s); err != nil || s.Format != stateFormat {
		return s, false, fmt.Errorf("%s: format %d, this program reads %d (%w); delete it to begin anew: files in hand are kept", p.own(stateFile), s.Format, stateFormat, err)
	}
	if s.Pending == nil {
		s.Pending = map[string]string{}
	}
	return s, false, nil
}

func (p *place) save(s state) error {
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return durable.WriteFile(p.own(stateFile), append(data, '\n'))
}

// tidy deletes what no download goes on with.
func (p *place) tidy() error {
	entries, err := os.ReadDir(p.own(partialDir))
	for _, e := range entries {
		err = errors.Join(err, os.Remove(filepath.Join(p.own(partialDir), e.Name())))
	}
	return err
}

// abandon deletes what was fetched of a host's files that gone names, but for what is
// called keep: nothing goes on with it, and on a full disk it would be in the way.
func (p *place) abandon(dir string, gone func(name string) bool, keep string) error {
	entries, err := os.ReadDir(p.own(partialDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ours := strings.CutPrefix(e.Name(), partialPrefix(dir))
		if !ours || e.Name() == keep || !gone(strings.TrimSuffix(name, filepath.Ext(name))) {
			continue
		}
		if err := os.Remove(p.own(filepath.Join(partialDir, e.Name()))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// file is one file of a host, as a MANIFEST has it.
type file struct {
	Path     string    `json:"path"` // its name
	Host     string    `json:"host"`
	Edition  string    `json:"edition,omitempty"`
	Size     int64     `json:"size"`
	SHA256   string    `json:"sha256,omitempty"`
	ETag     string    `json:"etag"`
	Modified time.Time `json:"modified"`
}

// same reports whether a file has the content of another.
func (f file) same(o file) bool { return f.ETag == o.ETag && f.Size == o.Size }

const (
	manifestFile = "MANIFEST"
	sumsFile     = "SHA256SUMS"
)

// at is where a path of the service's tree lies here.
func (p *place) at(name string) string { return filepath.Join(p.dir, filepath.FromSlash(name)) }

// inHand gives what is in hand of a host, by name. What lies there and is not in the
// MANIFEST, or in one that cannot be read, has no ETag: a run was killed after it
// had fetched it. It is read again before it counts.
func (p *place) inHand(dir string) (map[string]file, error) {
	files := map[string]file{}
	entries, err := os.ReadDir(p.at(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if isArchive(e.Name()) {
			files[e.Name()] = file{Path: e.Name()}
		}
	}
	data, err := os.ReadFile(filepath.Join(p.at(dir), manifestFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	in := bufio.NewScanner(bytes.NewReader(data))
	for in.Buffer(nil, len(data)+1); in.Scan(); {
		var f file
		if json.Unmarshal(in.Bytes(), &f) == nil && isArchive(f.Path) {
			files[f.Path] = f
		}
	}
	return files, nil
}

// settle makes durable what was done in a host's directory, and then writes down what is in hand.
func (p *place) settle(dir string, files map[string]file) error {
	at := p.at(dir)
	known := slices.SortedFunc(maps.Values(files), func(a, b file) int { return strings.Compare(a.Path, b.Path) })
	known = slices.DeleteFunc(known, func(f file) bool { return f.ETag == "" })
	if len(known) == 0 {
		for _, name := range []string{manifestFile, sumsFile} {
			if err := os.Remove(filepath.Join(at, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		p.bare(dir)
		return durable.SyncDir(at)
	}
	var manifest, sums bytes.Buffer
	out := json.NewEncoder(&manifest)
	out.SetEscapeHTML(false)
	for _, f := range known {
		if err := out.Encode(f); err != nil {
			return err
		}
		if f.SHA256 != "" && !isChanging(f.Path) { // as the service: tomorrow it is another
			fmt.Fprintf(&sums, "%s  %s\n", f.SHA256, f.Path)
		}
	}
	if err := p.writeText(filepath.Join(at, sumsFile), sums.Bytes()); err != nil {
		return err
	}
	if err := durable.SyncDir(at); err != nil { // the files' names before what says that they are there
		return err
	}
	if err := p.writeText(filepath.Join(at, manifestFile), manifest.Bytes()); err != nil {
		return err
	}
	return durable.SyncDir(at)
}

// writeText replaces a file that everybody may read; its name is not durable yet.
func (p *place) writeText(name string, data []byte) error {
	sum := sha256.Sum256([]byte(name))
	temp := p.own(filepath.Join(partialDir, hex.EncodeToString(sum[:16])+durable.TempSuffix))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(temp) // it may be what has filled the disk
		return err
	}
	return os.Rename(temp, name)
}

// bare notes that nothing is in hand of a host.
func (p *place) bare(dir string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bared = append(p.bared, p.at(dir))
}

// prune deletes the directories that were bared, and those above, where they are
// empty. Nobody may be at work on a host meanwhile.
func (p *place) prune() error {
	for _, at := range p.bared {
		for ; at != p.dir; at = filepath.Dir(at) {
			if err := os.Remove(at); errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
				break
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := durable.SyncDir(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	p.bared = nil
	return nil
}

// hosts gives the directories of all hosts that something is in hand of. A file that is
// called all.tar.gz says nothing alone: it may be anybody's.
func (p *place) hosts() (dirs []string, err error) {
	err = filepath.WalkDir(p.dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ownDir:
			return fs.SkipDir
		case d.Type().IsRegular() && (d.Name() == manifestFile || isEditionFile(d.Name())):
			rel, err := filepath.Rel(p.dir, filepath.Dir(name))
			if err != nil {
				return err
			}
			dirs = append(dirs, "/"+filepath.ToSlash(rel)+"/")
		}
		return nil
	})
	slices.Sort(dirs)
	return slices.Compact(dirs), err
}

// isFull reports whether there is no room, or no more for this user.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// explain says what a full disk means.
func (m *mirror) explain(err error) error {
	if err == nil || !isFull(err) {
		return err
	}
	free := "an unknown number of"
	var s unix.Statfs_t
	if unix.Statfs(m.place.dir, &s) == nil {
		free = fmt.Sprint(int64(s.Bavail) * int64(s.Bsize))
	}
	return fmt.Errorf("the disk of %s is full (%s bytes free): make room and run again; what is in hand stays, and downloads go on where they were: %w", m.place.dir, free, err)
}
