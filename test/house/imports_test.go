// Package house tests the rules of docs/architecture.md (Rooms): imports flow down, the four
// services know nothing of each other, packages are few, and functions are small.
package house

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// A room may import its own packages and those of rooms on lower floors.
var floors = []map[string]bool{
	{"internal": true, "deploy": true},
	{"archive/store": true, "archive/sortedrun": true},
	{"archive": true},
	{"archive/catalog": true},
	{"archive/urlindex": true},
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

func TestImportsFlowDown(t *testing.T) {
	cmd := exec.Command("go", "list", "-buildvcs=false", "-json=ImportPath,Imports", "sheaf/...")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	packages := 0
	for dec := json.NewDecoder(out); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages++
		from, floor := room(strings.TrimPrefix(p.ImportPath, "sheaf/"))
		if floor < 0 {
			t.Errorf("%s lies in no room: see docs/architecture.md and the floors in this test", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			path, ours := strings.CutPrefix(imp, "sheaf/")
			if !ours {
				continue
			}
			to, below := room(path)
			switch {
			case to == from || below < floor:
			case below == floor:
				t.Errorf("%s imports %s: %s and %s never import one another", p.ImportPath, imp, from, to)
			default:
				t.Errorf("%s imports %s: imports flow down, from %s to %s", p.ImportPath, imp, from, to)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("go list: %v", err)
	}
	if packages < 10 {
		t.Errorf("only %d packages were looked at", packages)
	}
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
