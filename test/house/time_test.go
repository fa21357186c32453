package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// byTheClock are the functions of tests that sleep, measure time or start a program by themselves
// outside a synctest bubble, by the reason why they may. The list may only shrink: a test waits for
// an event by testkit, and asserts nothing that depends on a machine's speed.
var byTheClock = map[string][]string{
	"one place of testkit for all": {
		"corpus.go CorpusFiles", "process.go Launch", "random.go Moment", "network.go ReadSlowly", "network.go Trickle",
		"wait.go Eventually", "wait.go For", "wait.go Throughout",
	},
	"a command that measures, or plays robots for a time": {
		"consumers.go consume", "consumers.go download", "consumers.go logIn", "deliver.go Send",
		"deliver.go during", "deliver.go measure", "deliver.go tryBring", "deliver.go watch", "leases.go entering",
		"leases.go leaseLoad", "leases.go load", "main.go run", "play.go timed", "service.go collect",
	},
	"measures for a benchmark": {
		"atsize_linux_test.go measure", "atsize_linux_test.go measureReader", "bench_requests_test.go heartbeats",
		"bench_requests_test.go lists", "bench_requests_test.go lookUps", "bench_test.go peakMemory",
		"bench_test.go runStep", "bench_test.go seconds", "bench_test.go steadyRate", "bench_test.go took",
		"process.go CPU", "process_test.go fetch", "process_test.go fetchAll",
	},
	"only called in bubbles, by a name that others have": {
		"lease_test.go run", "time_test.go until", "watchedpages_test.go ServeHTTP",
	},
	"excuses a machine that is slow, or waits as long as the same took before": {
		"attack_test.go TestFramedAttacks", "transfer_test.go TestKilledUploads",
	},
	"reads what the program prints as it runs": {
		"mail_test.go newPostOffice", "sendfile_test.go serveInProcess",
		"process.go Moved", "vsftpd_test.go serveInProcess",
	},
	"logs how long something took, or expects that it took so long at least": {
		"account_test.go TestOwnTokens", "archives_test.go TestVeryManyEditionsOfAHost",
		"attack_test.go TestParallelGuesses", "away_test.go TestDatabaseAway",
		"disturb_test.go disturb", "fan_test.go TestWideLevelsFanOut",
		"handover_test.go night", "hands_test.go TestLostHand", "lease_test.go happen", "lists_test.go TestChangesAreWaitedFor",
		"lslr_test.go TestLongListOfManyHosts", "measure_test.go TestDownloadTakesUntilItIsAcknowledged",
		"message_test.go TestWrongMessages", "nights_test.go recordNights", "process_test.go TestProcesses",
		"site_test.go enter", "stopwatch_test.go note", "trouble_test.go TestComesBackLater",
		"two_test.go testTwoServices", "watch_test.go claimsEnd",
		"watchprocesses_test.go TestThreeChangesInACycle", "web_test.go enter",
	},
}

// clock are the calls that need a reason.
var clock = map[string]bool{"time.Sleep": true, "time.Since": true, "time.Until": true, "chromedp.Sleep": true}

// TestTestsWaitForEvents: a test that sleeps, or that compares times with a bound, fails on a slow
// machine, and wastes time on a quick one. A program that a test starts ends with the test,
// whatever becomes of it.
func TestTestsWaitForEvents(t *testing.T) {
	t.Parallel()
	root, files := testkit.Root(t), map[string][]string{} // by folder
	testkit.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch dir := filepath.Dir(rel); {
		case err != nil:
			return err
		case d.IsDir() && (path != root && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"), strings.HasSuffix(path, ".go") &&
			(strings.HasPrefix(rel, "test/") || dir == "internal/testkit" || strings.HasSuffix(dir, "test")):
			files[dir] = append(files[dir], path)
		}
		return nil
	}))
	found := map[string]token.Position{}
	for _, of := range files {
		k := &clockCheck{t: t, set: token.NewFileSet(), bubbles: map[string]bool{"synctest.Test": true}, uses: map[string][]use{}}
		k.folder(of)
		maps.Copy(found, k.found)
	}
	listed := slices.Concat(slices.Collect(maps.Values(byTheClock))...)
	for _, of := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(listed, of) {
			t.Errorf("%s: %q goes by the clock or starts a program: wait for an event by testkit, or use synctest", found[of], of)
		}
	}
	for _, of := range listed {
		if _, ok := found[of]; !ok {
			t.Errorf("%q no longer goes by the clock: take it from the list", of)
		}
	}
	if len(files) < 80 {
		t.Errorf("only %d folders were looked at", len(files))
	}
}

// use is a place that names a function or type of a folder's tests.
type use struct {
	in     string // function
	bubble bool   // it is within the arguments of a function that makes a bubble
}

// clockCheck looks for what goes by the clock in the tests of a folder.
type clockCheck struct {
	t       *testing.T
	set     *token.FileSet
	bubbles map[string]bool // functions that run one of their arguments in a bubble
	uses    map[string][]use
	found   map[string]token.Position
}

// function is a declared function, with the type of its receiver.
type function struct {
	*ast.FuncDecl
	of    string
	calls []token.Pos // that need a reason
}

func (k *clockCheck) folder(paths []string) {
	var functions []*function
	for _, path := range paths {
		f, err := parser.ParseFile(k.set, path, nil, parser.SkipObjectResolution)
		testkit.Must(k.t, err)
		for _, d := range f.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok || d.Body == nil {
				continue
			}
			one := &function{FuncDecl: d}
			if d.Recv != nil {
				one.of = receiver(d.Recv.List[0].Type)
			}
			functions = append(functions, one)
		}
	}
	for range 3 { // a function that makes bubbles may call another one
		for _, f := range functions {
			if k.makesBubbles(f) {
				k.bubbles[f.Name.Name] = true
			}
		}
	}
	for _, f := range functions {
		k.walk(f, f.Body, false)
	}
	k.found = map[string]token.Position{}
	for _, f := range functions {
		if len(f.calls) > 0 && !measures(f) && !k.inBubble(f.Name.Name, nil) && (f.of == "" || !k.inBubble(f.of, nil)) {
			at := k.set.Position(f.calls[0])
			k.found[filepath.Base(at.Filename)+" "+f.Name.Name] = at
		}
	}
}

// makesBubbles reports whether a function gives one of its own arguments to a function that makes
// a bubble.
func (k *clockCheck) makesBubbles(f *function) (makes bool) {
	given := map[string]bool{}
	for _, p := range f.Type.Params.List {
		if _, ok := p.Type.(*ast.FuncType); ok {
			for _, name := range p.Names {
				given[name.Name] = true
			}
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok || !k.bubbles[named(c.Fun)] {
			return true
		}
		for _, arg := range c.Args {
			ast.Inspect(arg, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && given[id.Name] {
					makes = true
				}
				return true
			})
		}
		return true
	})
	return makes
}

// walk notes a function's calls, and what it names.
func (k *clockCheck) walk(f *function, in ast.Node, bubble bool) {
	programs := map[string]bool{} // variables
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if c, ok := n.Rhs[0].(*ast.CallExpr); ok && strings.HasPrefix(named(c.Fun), "exec.Command") {
				programs[named(n.Lhs[0])] = true
			}
		case *ast.Ident:
			k.uses[n.Name] = append(k.uses[n.Name], use{f.Name.Name, bubble})
		case *ast.CallExpr:
			name := named(n.Fun)
			variable, starts := strings.CutSuffix(name, ".Start")
			if !bubble && (clock[name] || comparesNow(n) || starts && (programs[variable] || variable == "cmd")) {
				f.calls = append(f.calls, n.Pos())
			}
			if k.bubbles[name] {
				k.uses["in "+f.Name.Name] = []use{{f.Name.Name, true}}
				for _, arg := range n.Args {
					k.walk(f, arg, true)
				}
				return false
			}
		}
		return true
	})
}

// inBubble reports whether all that names a function or a type is in a bubble. A test that makes
// bubbles is taken to be in one.
func (k *clockCheck) inBubble(name string, above []string) bool {
	if k.uses["in "+name] != nil {
		return true
	}
	if slices.Contains(above, name) {
		return true
	}
	some := false
	for _, u := range k.uses[name] {
		if u.in == name {
			continue
		}
		if !u.bubble && (strings.HasPrefix(u.in, "Test") && k.uses["in "+u.in] == nil || !k.inBubble(u.in, append(above, name))) {
			return false
		}
		some = true
	}
	return some
}

// measures reports whether a function is a benchmark or a part of one.
func measures(f *function) bool {
	for _, p := range f.Type.Params.List {
		if star, ok := p.Type.(*ast.StarExpr); ok && named(star.X) == "testing.B" {
			return true
		}
	}
	return false
}

// comparesNow reports whether a call compares a time with now.
func comparesNow(c *ast.CallExpr) bool {
	method, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"After", "Before", "Sub"}, method.Sel.Name) {
		return false
	}
	for _, e := range append([]ast.Expr{method.X}, c.Args...) {
		if now, ok := e.(*ast.CallExpr); ok && named(now.Fun) == "time.Now" {
			return true
		}
	}
	return false
}

// named returns a name such as "time.Sleep" or "h.cmd.Start".
func named(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return named(e.X) + "." + e.Sel.Name
	}
	return ""
}
