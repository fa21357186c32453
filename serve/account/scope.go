package account

import (
	"slices"
	"strings"

	"sheaf/archive/naming"
)

// Scope is an account's domains as places in the tree, such as "jp/ac/waseda". It is sorted, and no
// place lies under another. The empty place is the root: every host.
type Scope []string

// Scope works out the account's scope from its Domains.
func (a *Account) Scope() Scope {
	var s Scope
	for _, d := range a.Domains {
		if d == "*" {
			return Scope{""}
		}
		s = append(s, naming.HostPath(d))
	}
	slices.Sort(s)
	s = slices.Compact(s)
	return slices.DeleteFunc(slices.Clone(s), func(p string) bool {
		return slices.ContainsFunc(s, func(q string) bool { return q != p && Within(p, q) })
	})
}

// Covers reports whether a host is within the account's scope.
func (a *Account) Covers(host string) bool { return a.Scope().Holds(naming.HostPath(host)) }

// Holds reports whether everything at and under a place belongs to the scope.
func (s Scope) Holds(place string) bool {
	return slices.ContainsFunc(s, func(p string) bool { return Within(place, p) })
}

// Everything reports whether the scope is the whole tree.
func (s Scope) Everything() bool { return len(s) == 1 && s[0] == "" }

// Under returns the places below which a place's part of the scope lies, in the order of
// catalog.Key: the place itself if the scope holds all of it.
func (s Scope) Under(place string) []string {
	var roots []string
	for _, p := range s {
		switch {
		case Within(place, p):
			return []string{place}
		case Within(p, place):
			roots = append(roots, p)
		}
	}
	slices.SortFunc(roots, func(a, b string) int { return strings.Compare(KeyPrefix(a), KeyPrefix(b)) })
	return roots
}

// KeyPrefix returns the common prefix of the catalog's keys of all hosts at and under a place. Keys
// of other hosts may have it too: "jp,ac" is also a prefix of "jp,acme".
func KeyPrefix(place string) string { return strings.ReplaceAll(place, "/", ",") }

// Within reports whether a place is root or lies under it, by whole elements. The same host on
// another port, "www_8080" beside "www", counts as under it.
func Within(place, root string) bool {
	rest, ok := strings.CutPrefix(place, root)
	return ok && (root == "" || rest == "" || rest[0] == '/' || IsPort(rest))
}

// IsPort reports whether s is the suffix that naming.HostPath gives a host with a port.
func IsPort(s string) bool {
	digits, ok := strings.CutPrefix(s, "_")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}
