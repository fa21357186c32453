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

	"sheaf/internal/api"
	"sheaf/internal/files"
)

// Names in the mirror's own directory.
const (
	ownDir     = ".sheaf-mirror"
	lockFile   = "lock"
	stateFile  = "state.json"
	partialDir = "partial"
)

// stateFormat is the format number of the state file that this version reads and writes.
const stateFormat = 1

// wants is what a mirror keeps.
type wants struct {
	api.Selection
	Forms  []string `json:"forms"`
	Honour []string `json:"honour,omitempty"`
	Tables []string `json:"tables,omitempty"`
}

func (w wants) equal(o wants) bool {
	a, _ := json.Marshal(w) // strings: cannot fail
	b, _ := json.Marshal(o)
	return bytes.Equal(a, b)
}

// state is the progress of a mirror. Everything before Cursor is on disk, except the hosts in
// Pending.
type state struct {
	Format int        `json:"format"`
	Wants  wants      `json:"wants"`
	Cursor api.Cursor `json:"cursor"`
	// Sweep says that the mirror reads the feed from its beginning. At its end, files of which it
	// said nothing are deleted.
	Sweep   bool              `json:"sweep,omitempty"`
	Refused map[string]string `json:"refused,omitempty"` // hosts left out because of their robots.txt: their directories, and what it asks
	Pending map[string]string `json:"pending,omitempty"` // hosts to be compared with the service's MANIFEST: their directories, and why
	Tables  tablesOf          `json:"tables,omitzero"`
}

// place is the directory of a mirror. Nobody else may write to it. Methods may be called
// concurrently for different hosts.
type place struct {
	dir  string
	lock *os.File

	mu    sync.Mutex // guards bared
	bared []string   // directories of hosts that have no files here any more
}

// openPlace opens and locks a directory, and makes it if there is none.
func openPlace(dir string) (*place, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	p := &place{dir: dir}
	if err := files.MkdirAll(p.own(partialDir), 0o755); err != nil {
		return nil, err
	}
	if p.lock, err = os.OpenFile(p.own(lockFile), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	if err := files.TryLock(p.lock); err != nil {
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
	if err != nil && !files.IsFull(err) { // the number tells people who has the lock; a full disk is reported elsewhere
		return nil, errors.Join(err, p.lock.Close())
	}
	return p, nil
}

func (p *place) own(name string) string { return filepath.Join(p.dir, ownDir, name) }

func (p *place) close() error { return files.Held{File: p.lock}.Close() }

// load loads the state. fresh says that the directory has neither a state nor files.
func (p *place) load() (s state, fresh bool, err error) {
	data, err := os.ReadFile(p.own(stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		entries, err := os.ReadDir(p.dir)
		// files that another program has fetched are kept if they match
		return state{Format: stateFormat, Pending: map[string]string{}, Refused: map[string]string{}, Sweep: len(entries) > 1}, len(entries) <= 1, err
	}
	if err != nil {
		return s, false, err
	}
	s.Pending, s.Refused = map[string]string{}, map[string]string{}
	if err := json.Unmarshal(data, &s); err != nil || s.Format != stateFormat {
		return s, false, fmt.Errorf("%s: format %d, this program reads %d (%w); delete it to begin anew: files in hand are kept", p.own(stateFile), s.Format, stateFormat, err)
	}
	return s, false, nil
}

func (p *place) save(s state) error {
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return files.WriteFile(p.own(stateFile), append(data, '\n'))
}

// tidy deletes all partial files. At the end of the feed no download continues them.
func (p *place) tidy() error {
	entries, err := os.ReadDir(p.own(partialDir))
	for _, e := range entries {
		err = errors.Join(err, os.Remove(filepath.Join(p.own(partialDir), e.Name())))
	}
	return err
}

// abandon deletes the partial files of a host's files that gone names, except the one called keep.
// No download continues them, and on a full disk they would need room.
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

// file is one file of a host, as in a MANIFEST.
type file struct {
	Path     string    `json:"path"` // its name
	Host     string    `json:"host"`
	Edition  string    `json:"edition,omitempty"`
	Size     int64     `json:"size"`
	SHA256   string    `json:"sha256,omitempty"`
	ETag     string    `json:"etag"`
	Modified time.Time `json:"modified"`
}

// same reports whether two files have the same content.
func (f file) same(o file) bool { return f.ETag == o.ETag && f.Size == o.Size }

const (
	manifestFile = "MANIFEST"
	sumsFile     = "SHA256SUMS"
)

// at returns the local name for a path of the service's tree.
func (p *place) at(name string) string { return filepath.Join(p.dir, filepath.FromSlash(name)) }

// inHand returns the files of a host that are here, by name. A file that is not in the MANIFEST has
// no ETag: an earlier run was killed after it had fetched it. Such a file is verified before it is
// used.
func (p *place) inHand(dir string) (map[string]file, error) {
	all := map[string]file{}
	entries, err := os.ReadDir(p.at(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if isArchive(e.Name()) {
			all[e.Name()] = file{Path: e.Name()}
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
			all[f.Path] = f
		}
	}
	return all, nil
}

// settle makes the changes in a host's directory durable, and then writes its MANIFEST. If no file
// is left, it removes the MANIFEST.
func (p *place) settle(dir string, all map[string]file) error {
	at := p.at(dir)
	known := slices.SortedFunc(maps.Values(all), func(a, b file) int { return strings.Compare(a.Path, b.Path) })
	known = slices.DeleteFunc(known, func(f file) bool { return f.ETag == "" })
	if len(known) == 0 {
		for _, name := range []string{manifestFile, sumsFile} {
			if err := os.Remove(filepath.Join(at, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		p.bare(dir)
		return files.SyncDir(at)
	}
	var manifest, sums bytes.Buffer
	out := json.NewEncoder(&manifest)
	out.SetEscapeHTML(false)
	for _, f := range known {
		if err := out.Encode(f); err != nil {
			return err
		}
		if f.SHA256 != "" && !isChanging(f.Path) { // the service's SHA256SUMS leaves out changing files too
			fmt.Fprintf(&sums, "%s  %s\n", f.SHA256, f.Path)
		}
	}
	if err := p.writeText(filepath.Join(at, sumsFile), sums.Bytes()); err != nil {
		return err
	}
	if err := files.SyncDir(at); err != nil { // the names must be durable before the MANIFEST that lists them
		return err
	}
	if err := p.writeText(filepath.Join(at, manifestFile), manifest.Bytes()); err != nil {
		return err
	}
	return files.SyncDir(at)
}

// writeText replaces a file that everybody may read. Its name is not durable yet.
func (p *place) writeText(name string, data []byte) error {
	sum := sha256.Sum256([]byte(name))
	temp := p.own(filepath.Join(partialDir, hex.EncodeToString(sum[:16])+files.TempSuffix))
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

// bare records that a host has no files here any more.
func (p *place) bare(dir string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bared = append(p.bared, p.at(dir))
}

// prune deletes the recorded directories, and those above them, if they are empty. It must not run
// while hosts are worked on.
func (p *place) prune() error {
	for _, at := range p.bared {
		for ; at != p.dir; at = filepath.Dir(at) {
			if err := os.Remove(at); errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
				break
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := files.SyncDir(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	p.bared = nil
	return nil
}

// hosts returns the directories of all hosts that have files here, and the folders of tables. A
// single file all.tar.gz is not counted: it may be somebody else's.
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

// explain adds advice to the error of a full disk.
func (m *mirror) explain(err error) error {
	if err == nil || !files.IsFull(err) {
		return err
	}
	free := "an unknown number of"
	if room, err := files.RoomOn(m.place.dir); err == nil {
		free = fmt.Sprint(room.Free)
	}
	return fmt.Errorf("the disk of %s is full (%s bytes free): make room and run again; what is in hand stays, and downloads go on where they were: %w", m.place.dir, free, err)
}
