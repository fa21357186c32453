// Package house tests the rules of docs/architecture.md (Rooms): imports flow down, the four
// services know nothing of each other, packages are few, and functions are small.
package house

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// A room may import its own packages and those of rooms on lower floors.
var floors = []map[string]bool{
	{"internal": true, "deploy": true},
	{"archive/store": true, "archive/sortedrun": true},
	{"archive": true},
	{"archive/catalog": true},
	{"archive/urlindex": true},
	{"archive/upkeep": true},
	{"ingest": true, "manager": true, "robotd": true, "serve": true},
	{"ui": true},
	{"cmd": true},
	{"test": true},
}

// room returns the room of a package within the module, and its floor.
func room(path string) (name string, floor int) {
	floor = -1
	for f, rooms := range floors {
		for r := range rooms {
			if (path == r || strings.HasPrefix(path, r+"/")) && len(r) > len(name) {
				name, floor = r, f
			}
		}
	}
	return name, floor
}

// Each direct dependency has its reason in CONTRIBUTING.md, and they are few.
func TestDependenciesHaveReasons(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	testkit.Must(t, err)
	reasons, err := os.ReadFile("../../CONTRIBUTING.md")
	testkit.Must(t, err)
	names := func(text []byte, line string) (all []string) {
		for _, m := range regexp.MustCompile(line).FindAllSubmatch(text, -1) {
			all = append(all, string(m[1]))
		}
		return all
	}
	direct, told := names(mod, `(?m)^\t(\S+) v\S+$`), names(reasons, `(?m)^\| (\S+\.\S+/\S+) \| .+ \|$`)
	if !slices.Equal(direct, told) || len(direct) > 36 {
		t.Errorf("go.mod has %d direct dependencies\n%q,\nCONTRIBUTING.md has reasons for\n%q", len(direct), direct, told)
	}
}

func TestImportsFlowDown(t *testing.T) {
	for p, imports := range packages(t) {
		from, floor := room(p)
		if floor < 0 {
			t.Errorf("%s lies in no room: see docs/architecture.md and the floors in this test", p)
			continue
		}
		for _, i := range imports {
			to, below := room(i)
			switch {
			case to == from || below < floor:
			case below == floor:
				t.Errorf("%s imports %s: %s and %s never import one another", p, i, from, to)
			default:
				t.Errorf("%s imports %s: imports flow down, from %s to %s", p, i, from, to)
			}
		}
	}
}

// packages returns, for each package of the module, those of the module that it imports. Packages
// that have nothing but tests are among them.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-buildvcs=false", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "sheaf/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		var ours []string
		for _, i := range paths[1:] {
			if path, ok := strings.CutPrefix(i, "sheaf/"); ok {
				ours = append(ours, path)
			}
		}
		all[strings.TrimPrefix(paths[0], "sheaf/")] = ours
	}
	if len(all) < 10 {
		t.Fatalf("only %d packages were found", len(all))
	}
	return all
}

func TestRobotKnowsNothingOfTheService(t *testing.T) {
	out, err := exec.Command("go", "list", "-buildvcs=false", "-deps", "sheaf/cmd/robotd").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		for _, room := range []string{"ingest", "manager", "serve", "archive/catalog", "archive/store"} {
			if path == "sheaf/"+room || strings.HasPrefix(path, "sheaf/"+room+"/") {
				t.Errorf("cmd/robotd is built with %s", path)
			}
		}
	}
}
