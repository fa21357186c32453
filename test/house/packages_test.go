package house

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// ceiling is how large a figure may be. It may not be more than slack above the figure either, so
// that what was won is kept. Raising one needs a reason in the commit.
type ceiling int

const slack = 2

func (c ceiling) check(t *testing.T, what string, figure int) {
	t.Helper()
	switch {
	case figure > int(c):
		t.Errorf("%s: %d, and the ceiling is %d", what, figure, c)
	case figure < int(c)-slack:
		t.Errorf("%s: %d, so lower the ceiling of %d", what, figure, c)
	}
}

// TestFewPackages holds how many packages there are, and how many a reader crosses on the three
// ways: of an upload, of bytes to a consumer, and of a robot's visit.
func TestFewPackages(t *testing.T) {
	imports := packages(t)
	for _, r := range []struct {
		room             string
		packages, floors ceiling // floors: its longest chain of imports among its own packages
	}{
		{"archive", 10, 4},
		{"cmd", 7, 4},
		{"ingest", 7, 4},
		{"internal", 36, 6}, // with page, which robots and importers use
		{"manager", 6, 3},
		{"robotd", 11, 6},
		{"serve", 17, 7}, // with texts
		{"ui", 4, 2},
	} {
		own := slices.DeleteFunc(slices.Collect(maps.Keys(imports)), func(p string) bool { return p != r.room && !strings.HasPrefix(p, r.room+"/") })
		r.packages.check(t, "packages of "+r.room, len(own))
		floors := 0
		for _, p := range own {
			floors = max(floors, depth(imports, p, own))
		}
		r.floors.check(t, "floors of "+r.room, floors)
	}
	all := slices.Collect(maps.Keys(imports))
	for _, w := range []struct {
		from            string
		own, ours, deep ceiling // ours: without those of internal; deep: the longest chain of imports
	}{
		{"ingest/receive", 28, 10, 7}, // with page, for the links of imports
		{"serve/ftpd", 26, 10, 7},
		{"robotd/crawl", 24, 12, 6},
		{"cmd/robotd", 32, 17, 9},
		{"cmd/sheaf", 94, 61, 14},
	} {
		below := reach(imports, w.from)
		w.own.check(t, "own packages of "+w.from, len(below))
		w.ours.check(t, "own packages of "+w.from+" without internal", len(slices.DeleteFunc(below, func(p string) bool { return strings.HasPrefix(p, "internal/") })))
		w.deep.check(t, "depth of "+w.from, depth(imports, w.from, all))
	}
	for _, p := range all {
		most := 20
		switch p {
		case "cmd/sheaf/service":
			most = 34
		case "cmd/sheaf":
			most = 23
		case "cmd/sheaf/admin":
			most = 28
		case "ui/board":
			most = 29
		}
		if n := len(imports[p]); n > most && !strings.HasPrefix(p, "test/") {
			t.Errorf("%s imports %d packages of its own module, more than %d", p, n, most)
		}
	}
}

// TestPackagesAreShort: a package without tests has at most 4,000 lines. Those that have more may
// only shrink.
func TestPackagesAreShort(t *testing.T) {
	for p := range packages(t) {
		most := 4000
		switch p {
		case "archive":
			most = 5640 // a view of pages' files alone
		case "archive/catalog":
			most = 5671 // days: their editions, their end, and what hosts had at it; the time by which editions expire; entries read fast
		case "serve/library":
			most = 4405 // the states of hosts at the ends of days, and what robots may not have of them
		case "ingest/foreign":
			most = 4300
		}
		files, err := filepath.Glob(filepath.Join(testkit.Root(t), p, "*.go"))
		testkit.Must(t, err)
		lines := 0
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				text, err := os.ReadFile(f)
				testkit.Must(t, err)
				lines += strings.Count(string(text), "\n")
			}
		}
		if lines > most {
			t.Errorf("%s has %d lines, more than %d", p, lines, most)
		}
	}
}

// reach returns a package and all that it imports, directly or not.
func reach(imports map[string][]string, from string) []string {
	met := map[string]bool{from: true}
	for next := []string{from}; len(next) > 0; next = next[1:] {
		for _, p := range imports[next[0]] {
			if !met[p] {
				met[p] = true
				next = append(next, p)
			}
		}
	}
	return slices.Collect(maps.Keys(met))
}

// depth returns the length of the longest chain of imports from a package on within a set.
func depth(imports map[string][]string, from string, within []string) int {
	known := make(map[string]int)
	var of func(p string) int
	of = func(p string) int {
		if n, ok := known[p]; ok {
			return n
		}
		longest := 0
		for _, i := range imports[p] {
			if slices.Contains(within, i) {
				longest = max(longest, of(i))
			}
		}
		known[p] = longest + 1
		return longest + 1
	}
	return of(from)
}
