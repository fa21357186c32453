package serve

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/internal/peer"
	"sheaf/internal/window"
	"sheaf/serve/bandwidth"
)

// Account says what one consumer may fetch, and when.
type Account struct {
	Name    string           `json:"name"`
	Domains []string         `json:"domains"`          // "jp" is every host under .jp, "*" every host
	Window  *window.Schedule `json:"window"`           // when files may be fetched; nil: always
	Rate    *bandwidth.Rates `json:"rate,omitempty"`   // bytes a second; nil: no limit
	Quota   int64            `json:"quota,omitempty"`  // bytes a day; 0: no limit
	Created time.Time        `json:"created,omitzero"` // set by Accounts

	// Each is what each address gets of Anonymous' rate at the most; nil: no limit.
	Each *bandwidth.Rates `json:"-"`
	from netip.Prefix     // see From
}

func (a *Account) limits() bandwidth.Limits {
	return bandwidth.Limits{Rate: a.Rate, Each: a.Each, Quota: a.Quota}
}

// From is the account as somebody at an address ("192.0.2.1:7") has it. Those who are
// Anonymous share what that gets by their addresses: an IPv4 address is one, and so is
// an IPv6 /64 network, which one customer has whole. Loopback, where a proxy may stand,
// is none: what comes from there is shared by transfers, as every other account's is.
func (a *Account) From(remote string) *Account {
	addr := peer.Addr(remote)
	if a.Name != Anonymous || !addr.IsValid() || addr.IsLoopback() {
		return a
	}
	there := *a
	there.from = peer.Network(addr)
	return &there
}

var (
	accountName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)
	domainName  = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?(:[0-9]{1,5})?$`)
)

// Anonymous is the account for those who give no name: it is for the operator
// to configure, and there is none by default.
const Anonymous = "anonymous"

// check reports what is wrong with the account's fields.
func (a *Account) check() error {
	if !accountName.MatchString(a.Name) {
		return fmt.Errorf("%w: name %q: want 1 to 63 lower-case letters, digits, dots, hyphens or underscores", ErrAccount, a.Name)
	}
	if len(a.Domains) == 0 {
		return fmt.Errorf("%w: %s has no domains; give some such as jp or waseda.ac.jp, or * for every host", ErrAccount, a.Name)
	}
	if a.Quota < 0 {
		return fmt.Errorf("%w: %s: quota of %d bytes; want 0, for none, or more", ErrAccount, a.Name, a.Quota)
	}
	for _, d := range a.Domains {
		if d != "*" && (len(d) > 253 || !domainName.MatchString(d)) {
			return fmt.Errorf("%w: %s: domain %q: want a lower-case name such as jp or waseda.ac.jp, or * for every host", ErrAccount, a.Name, d)
		}
	}
	return nil
}

// scope is an account's domains as places in the one tree, "jp/ac/waseda",
// sorted and without those that lie under another. The empty place is the root.
type scope []string

func (a *Account) scope() scope {
	var s scope
	for _, d := range a.Domains {
		if d == "*" {
			return scope{""}
		}
		s = append(s, archive.HostPath(d))
	}
	slices.Sort(s)
	s = slices.Compact(s)
	return slices.DeleteFunc(slices.Clone(s), func(p string) bool {
		return slices.ContainsFunc(s, func(q string) bool { return q != p && within(p, q) })
	})
}

// holds reports whether everything at and under path belongs to the scope.
func (s scope) holds(path string) bool {
	return slices.ContainsFunc(s, func(p string) bool { return within(path, p) })
}

// all reports whether the scope is the whole tree.
func (s scope) all() bool { return len(s) == 1 && s[0] == "" }

// within reports whether path is root or lies under it, by whole elements. The
// same host on another port, "www_8080" beside "www", counts as under it.
func within(path, root string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (root == "" || rest == "" || rest[0] == '/' || isPort(rest))
}

// isPort reports whether s is what archive.HostPath puts behind the name of a host with a port.
func isPort(s string) bool {
	digits, ok := strings.CutPrefix(s, "_")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// under gives what of the scope lies at or under a place, as places, in the order
// of catalog.Key. One that is the same host on another port lies under it too.
func (s scope) under(place string) []string {
	var roots []string
	for _, p := range s {
		switch {
		case within(place, p):
			return []string{place}
		case within(p, place):
			roots = append(roots, p)
		}
	}
	slices.SortFunc(roots, func(a, b string) int {
		return strings.Compare(strings.ReplaceAll(a, "/", ","), strings.ReplaceAll(b, "/", ","))
	})
	return roots
}
