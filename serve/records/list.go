package records

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sort"
	"strings"

	"sheaf/archive/catalog"
	"sheaf/serve/library"
)

// MaxTargets is the limit for the URLs and hosts in one query.
const MaxTargets = 100_000

// MaxTargetBytes is the limit for a request's body with URLs and hosts, in bytes.
const MaxTargetBytes = 64 << 20

// ReadTargets parses URLs and hosts, one in each line. A line with an asterisk is a domain or a
// prefix, another line without a slash is a whole host, and any other is a URL. Empty lines and
// lines that begin with # are skipped. The targets are in the order of search. No record belongs to
// two of them, unless one is a domain whose name begins with www.
func ReadTargets(r io.Reader) ([]library.Target, error) {
	var targets []library.Target
	hosts := make(map[string]string) // each host's name is kept once
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 16<<10), 16<<10)
	n := 0
	for lines.Scan() {
		n++
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if len(targets) == MaxTargets {
			return nil, &ParamError{"list", text, fmt.Sprintf("line %d: more than %d entries", n, MaxTargets)}
		}
		match := library.Match(0)
		if !strings.Contains(text, "/") && !strings.Contains(text, "*") {
			match = library.MatchHost
		}
		t, err := parseTarget(text, match)
		if err != nil {
			return nil, &ParamError{"list", text, fmt.Sprintf("line %d: %v", n, err)}
		}
		if host, ok := hosts[t.Host]; ok {
			t.Host = host
		} else {
			hosts[t.Host] = t.Host
		}
		targets = append(targets, t)
	}
	if err := lines.Err(); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
		return nil, &ParamError{"list", "", fmt.Sprintf("line %d: %v", n+1, err)}
	}
	if len(targets) == 0 {
		return nil, &ParamError{"list", "", "names no URL or host"}
	}
	return disjoint(targets), nil
}

// disjoint sorts targets in the order of search and removes those that another target contains.
func disjoint(targets []library.Target) []library.Target {
	keys := make(map[string]string) // catalog.Key of hosts: it costs more than a comparison
	for _, t := range targets {
		if _, ok := keys[t.Host]; !ok {
			keys[t.Host] = catalog.Key(t.Host)
		}
	}
	slices.SortFunc(targets, func(a, b library.Target) int {
		if a.Host != b.Host {
			if c := strings.Compare(keys[a.Host], keys[b.Host]); c != 0 {
				return c
			}
		}
		return cmp.Or(
			strings.Compare(a.Key, b.Key), // those of whole hosts are empty, and come first
			-cmp.Compare(a.Match, b.Match),
		)
	})
	targets = slices.Compact(targets)
	domains := make(map[string]bool)
	hosts := make(map[string]bool)
	prefixes := make(map[string][]string) // sorted, by site
	for _, t := range targets {
		switch t.Match {
		case library.MatchDomain:
			domains[t.Host] = true
		case library.MatchHost:
			hosts[t.Host] = true
		}
	}
	var kept []library.Target
	for _, t := range targets {
		if inDomain(domains, t) || t.Match != library.MatchHost && t.Match != library.MatchDomain && hosts[t.Host] {
			continue
		}
		if t.Match == library.MatchPrefix || t.Match == library.MatchExact {
			// No kept prefix begins with another, so only one can contain t.
			known := prefixes[t.Host]
			i := sort.Search(len(known), func(i int) bool { return known[i] > t.Key })
			if i > 0 && strings.HasPrefix(t.Key, known[i-1]) {
				continue
			}
		}
		if t.Match == library.MatchPrefix {
			prefixes[t.Host] = append(prefixes[t.Host], t.Key)
		}
		kept = append(kept, t)
	}
	return kept
}

// inDomain reports whether one of the domains contains the target.
func inDomain(domains map[string]bool, t library.Target) bool {
	name, _, _ := strings.Cut(t.Host, ":")
	for first := true; name != ""; first = false {
		if domains[name] && !(first && t.Match == library.MatchDomain) {
			return true
		}
		_, name, _ = strings.Cut(name, ".")
	}
	return false
}
