package catalog

import (
	"strings"

	"sheaf/archive/naming"
)

// Key returns a host's sort key: its path in the tree of reversed names, with commas instead of
// slashes, such as "jp,ac,waseda,www". A comma sorts before every other byte of a key. So the hosts
// below a name follow directly after the name, and reading a directory of the tree takes few seeks.
func Key(host string) string {
	return strings.ReplaceAll(naming.HostPath(host), "/", ",")
}

// keyOfPath returns the prefix that the keys of all hosts below a path have.
func keyOfPath(path string) string {
	path = strings.Trim(path, "/")
	if path == "" {
		return ""
	}
	return strings.ReplaceAll(path, "/", ",") + ","
}

// afterSubtree returns the least text that sorts behind all texts that begin with the key and ",".
func afterSubtree(key string) string { return key + "-" }
