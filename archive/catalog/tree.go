package catalog

import (
	"strings"

	"sheaf/archive"
)

// Key gives the key that a host is sorted by: its path in the tree of reversed
// names with commas for slashes, such as "jp,ac,waseda,www". A comma sorts below
// every other byte of a key, so the hosts below a name lie together, right behind
// the name itself, and a directory of the tree is a few seeks.
func Key(host string) string {
	return strings.ReplaceAll(archive.HostPath(host), "/", ",")
}

// keyOfPath gives what the keys of all hosts below a path of the tree begin with.
func keyOfPath(path string) string {
	path = strings.Trim(path, "/")
	if path == "" {
		return ""
	}
	return strings.ReplaceAll(path, "/", ",") + ","
}

// afterSubtree is the least text that sorts behind all that begins with a key and a comma.
func afterSubtree(key string) string { return key + "-" }
