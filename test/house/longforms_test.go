package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// TestLongFormsRun: each test that has a long form runs in it somewhere. test/long.txt says where,
// and names nothing else.
func TestLongFormsRun(t *testing.T) {
	root := testkit.Root(t)
	tests, long := map[string][]string{}, map[string][]string{} // by folder: all tests, those with a long form
	testkit.Must(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		folder, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		tests[folder], long[folder] = longForms(t, path)
		return nil
	}))
	if len(slices.Concat(slices.Collect(maps.Values(long))...)) < 10 {
		t.Errorf("these tests have a long form: %v", long)
	}

	text, err := os.ReadFile(filepath.Join(root, "test/long.txt"))
	testkit.Must(t, err)
	run := map[string][]string{} // folder: names of tests as the file has them
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) < 3 || f[0] != "ci" && f[0] != "soak" {
			t.Fatalf("test/long.txt: %q is not: ci or soak, folder, tests", line)
		}
		for name := range strings.SplitSeq(f[2], "|") {
			run[f[1]] = append(run[f[1]], name)
			if !slices.ContainsFunc(tests[f[1]], regexp.MustCompile("^"+name+"$").MatchString) {
				t.Errorf("test/long.txt: %s has no test %s", f[1], name)
			}
		}
	}
	for folder, names := range long {
		for _, name := range names {
			if !slices.ContainsFunc(run[folder], func(as string) bool { return regexp.MustCompile("^" + as + "$").MatchString(name) }) {
				t.Errorf("test/long.txt does not say when the long form of %s in %s runs", name, folder)
			}
		}
	}
}

// longForms returns the tests of the files in a folder, and those that ask testkit for their long
// form, themselves or by a function of the folder.
func longForms(t *testing.T, dir string) (tests, long []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	testkit.Must(t, err)
	calls := map[string][]string{} // function: names that it uses
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		testkit.Must(t, err)
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if strings.HasPrefix(f.Name.Name, "Test") && f.Recv == nil {
				tests = append(tests, f.Name.Name)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok {
						calls[f.Name.Name] = append(calls[f.Name.Name], x.Name+"."+n.Sel.Name)
					}
				case *ast.Ident:
					calls[f.Name.Name] = append(calls[f.Name.Name], n.Name)
				}
				return true
			})
		}
	}
	seen := map[string]bool{}
	var asks func(name string) bool
	asks = func(name string) bool {
		if name == "testkit.Full" || name == "testkit.Size" || name == "testkit.Long" {
			return true
		}
		if seen[name] {
			return false
		}
		seen[name] = true
		return slices.ContainsFunc(calls[name], asks)
	}
	for _, name := range tests {
		clear(seen)
		if asks(name) {
			long = append(long, name)
		}
	}
	return tests, long
}
