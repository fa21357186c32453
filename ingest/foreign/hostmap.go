package foreign

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"sheaf/archive/naming"
)

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
