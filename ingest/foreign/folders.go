package foreign

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"sheaf/archive/naming"
	"sheaf/internal/wire"
)

// folders maps each directory of a tree to its host.
type folders struct {
	hosts   []HostMap       // the operator's, then those in the tree; the first that has a directory decides
	maps    map[string]bool // paths of files that are host maps and no pages
	leading string          // the directory in which all files lie; empty: there is none
}

// Limits of the host maps in one tree: bytes of all maps, and number of maps in one place, because
// each map is searched for each file.
const (
	maxTreeMaps = 16 << 20
	maxMaps     = 16
)

// survey reads a tree and finds the directory of each host. All these directories may lie in one
// leading directory of any name. A file beside the leading directory, or beside the hosts'
// directories, must be a host map.
func survey(ctx context.Context, file *os.File, opt Options) (*folders, error) {
	in, err := begin(ctx, file, opt.Limits)
	if err != nil {
		return nil, err
	}
	defer in.close()
	v := surveyor{folders: folders{hosts: []HostMap{opt.Hosts}, maps: map[string]bool{}}, left: maxTreeMaps}
	if err := in.eachEntry(ctx, v.entry); err != nil {
		return nil, in.whole(err)
	}
	f := &v.folders
	for _, m := range v.beside {
		f.add(m)
	}
	if v.several {
		f.leading = ""
	} else if _, _, host := f.find(f.leading + "/file"); !host {
		for _, m := range v.inside {
			f.add(m)
		}
		v.noMap = cmp.Or(v.noMap, v.noMapInside)
	} else { // the first directory is a host's, and the files in it are pages
		f.leading = ""
	}
	if v.noMap != nil {
		return nil, v.noMap
	}
	return f, nil
}

// surveyor makes folders from the entries of a tree.
type surveyor struct {
	folders               // leading is the first directory of the last file
	several     bool      // there is more than one directory at the top
	beside      []treeMap // host maps at the top
	inside      []treeMap // host maps in the first directory, which may be a host's
	noMap       *Error    // about the first file at the top that is no host map
	noMapInside *Error    // noMap for the first directory
	left        int64     // bytes that further host maps may have
}

// treeMap is a host map in a tree.
type treeMap struct {
	path  string
	hosts HostMap
}

func (f *folders) add(m treeMap) { f.hosts, f.maps[m.path] = append(f.hosts, m.hosts), true }

func (v *surveyor) entry(in *input, e *tarEntry) error {
	if !e.isFile() {
		return nil
	}
	dir, rest, nested := strings.Cut(e.path(), "/")
	if nested {
		v.several = v.several || v.leading != "" && v.leading != dir
		v.leading = dir
	}
	if strings.Contains(rest, "/") {
		return nil
	}
	maps, noMap := &v.beside, &v.noMap
	if nested {
		maps, noMap = &v.inside, &v.noMapInside
	}
	m, err := v.hostMap(e, len(*maps))
	switch {
	case err == nil:
		*maps = append(*maps, treeMap{e.path(), m})
	case errors.Is(err, io.ErrUnexpectedEOF):
		return in.reading(err, e.Name)
	case *noMap == nil:
		*noMap = wrong(e.at, e.Name, wire.ReasonForeign, "no directory of it is called like a host or is in a host map, and it is no host map itself (%v); give a host map with a line for the directory", err)
	}
	return nil
}

// hostMap reads a host map. before is the number of earlier host maps in the same place.
func (v *surveyor) hostMap(e *tarEntry, before int) (HostMap, error) {
	switch {
	case before == maxMaps:
		return nil, fmt.Errorf("it comes after the limit of %d host maps", maxMaps)
	case e.Size > v.left:
		return nil, fmt.Errorf("host maps may have %d bytes together", maxTreeMaps)
	}
	m, err := ParseHostMap(e.body)
	switch {
	case err != nil:
		return nil, err
	case len(m) == 0:
		return nil, errors.New("it names no directory")
	}
	v.left -= e.Size
	return m, nil
}

// find splits a file's path into its host and the path within the host's directory. It searches the
// host maps first; then it tries the directory's own name.
func (f *folders) find(path string) (host, rest string, ok bool) {
	paths := []string{path}
	if inner, ok := strings.CutPrefix(path, f.leading+"/"); ok && f.leading != "" {
		paths = append(paths, inner)
	}
	for _, m := range f.hosts {
		for _, p := range paths {
			if host, rest, ok := m.find(p); ok {
				return host, rest, true
			}
		}
	}
	for _, p := range paths {
		if host, rest, ok := named(p); ok {
			return host, rest, true
		}
	}
	return "", "", false
}

// HostMap maps directories of a tree to their hosts. It is needed if the directories are not named
// after the hosts: old robots hashed the names. A directory is a path in the tree without slashes
// at its ends. If one leading directory has the whole tree, the path need not include it.
type HostMap map[string]string

// ReadHostMap reads a host map from a file; see ParseHostMap.
func ReadHostMap(name string) (HostMap, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := ParseHostMap(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// ParseHostMap reads lines of the form: directory, white space, host. A # begins a comment.
func ParseHostMap(r io.Reader) (HostMap, error) {
	m := make(HostMap)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		if len(f) != 2 {
			return nil, fmt.Errorf("host map, line %d: %d words, want a directory and its host", n, len(f))
		}
		dir, host := strings.Trim(strings.TrimPrefix(f[0], "./"), "/"), strings.ToLower(f[1])
		if got, err := naming.HostOf("http://" + host + "/"); err != nil || got != host || dir == "" {
			return nil, fmt.Errorf("host map, line %d: %q is not a directory, or %q not a host", n, f[0], f[1])
		}
		if old, ok := m[dir]; ok && old != host {
			return nil, fmt.Errorf("host map, line %d: %s is %s and was %s", n, dir, host, old)
		}
		m[dir] = host
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("host map: %w", err)
	}
	return m, nil
}

// maxDepth limits the directories above a host's directory.
const maxDepth = 4

// find splits a file's path into its host and the rest of the path. Of the map's directories it
// takes the longest that contains the file.
func (m HostMap) find(path string) (host, rest string, ok bool) {
	parts := strings.SplitN(path, "/", maxDepth+2)
	for n := len(parts) - 1; n > 0; n-- {
		dir := strings.Join(parts[:n], "/")
		if host, ok := m[dir]; ok {
			return host, path[len(dir)+1:], true
		}
	}
	return "", "", false
}

// named splits a file's path into its host and the rest of the path. The host is the first
// directory with a name like a host's; all directories before it must be hash digits.
func named(path string) (host, rest string, ok bool) {
	parts := strings.SplitN(path, "/", maxDepth+2)
	for n := range len(parts) - 1 {
		if host, ok := hostLike(parts[n]); ok {
			return host, strings.Join(parts[n+1:], "/"), true
		}
		if !hashDigits(parts[n]) {
			break
		}
	}
	return "", "", false
}

// hostLike returns the host after which a directory is named, or false. The name must have a dot. A
// port may follow after a colon or an underscore.
func hostLike(dir string) (string, bool) {
	name := strings.ToLower(dir)
	if i := strings.LastIndexAny(name, "_:"); i > 0 && strings.Trim(name[i+1:], "0123456789") == "" && name[i+1:] != "" {
		name = name[:i] + ":" + name[i+1:]
	}
	bare, _, _ := strings.Cut(name, ":")
	if !strings.Contains(bare, ".") {
		return "", false
	}
	host, err := naming.HostOf("http://" + name + "/")
	return host, err == nil && host == strings.TrimSuffix(name, ":80")
}

func hashDigits(dir string) bool {
	return dir != "" && len(dir) <= 4 && strings.Trim(strings.ToLower(dir), "0123456789abcdef") == ""
}
