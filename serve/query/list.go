package query

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
	"sheaf/serve"
)

// MaxList is how many URLs and hosts one query may name.
const MaxList = 100_000

// MaxListBytes bounds the body that names them.
const MaxListBytes = 64 << 20

// ReadList reads URLs and hosts, one a line. A line without a slash is a host, all
// of it; what has an asterisk is a domain or a prefix; all else is one URL. Blank lines and
// lines that begin with # are passed over. The result is in the order of search. No
// record belongs to two of its targets, unless one is a domain whose name begins with www.
func ReadList(r io.Reader) ([]serve.Target, error) {
	var targets []serve.Target
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
		if len(targets) == MaxList {
			return nil, &ParamError{"list", text, fmt.Sprintf("line %d: more than %d entries", n, MaxList)}
		}
		match := serve.Match(0)
		if !strings.Contains(text, "/") && !strings.Contains(text, "*") {
			match = serve.MatchHost
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
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
		return nil, &ParamError{"list", "", fmt.Sprintf("line %d: %v", n+1, err)}
	}
	if len(targets) == 0 {
		return nil, &ParamError{"list", "", "names no URL or host"}
	}
	return disjoint(targets), nil
}

// disjoint puts targets in the order of search and drops those that others hold.
func disjoint(targets []serve.Target) []serve.Target {
	keys := make(map[string]string) // catalog.Key of hosts: it costs more than a comparison
	for _, t := range targets {
		if _, ok := keys[t.Host]; !ok {
			keys[t.Host] = catalog.Key(t.Host)
		}
	}
	slices.SortFunc(targets, func(a, b serve.Target) int {
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
	prefixes := make(map[string][]string) // of a site, sorted
	for _, t := range targets {
		switch t.Match {
		case serve.MatchDomain:
			domains[t.Host] = true
		case serve.MatchHost:
			hosts[t.Host] = true
		}
	}
	var kept []serve.Target
	for _, t := range targets {
		if inDomain(domains, t) || t.Match != serve.MatchHost && t.Match != serve.MatchDomain && hosts[t.Host] {
			continue
		}
		if t.Match == serve.MatchPrefix || t.Match == serve.MatchExact {
			// None of those kept begins with another, so one alone can be t's.
			known := prefixes[t.Host]
			i := sort.Search(len(known), func(i int) bool { return known[i] > t.Key })
			if i > 0 && strings.HasPrefix(t.Key, known[i-1]) {
				continue
			}
		}
		if t.Match == serve.MatchPrefix {
			prefixes[t.Host] = append(prefixes[t.Host], t.Key)
		}
		kept = append(kept, t)
	}
	return kept
}

// inDomain reports whether another target, a domain, holds one.
func inDomain(domains map[string]bool, t serve.Target) bool {
	name, _, _ := strings.Cut(t.Host, ":")
	for first := true; name != ""; first = false {
		if domains[name] && !(first && t.Match == serve.MatchDomain) {
			return true
		}
		_, name, _ = strings.Cut(name, ".")
	}
	return false
}
