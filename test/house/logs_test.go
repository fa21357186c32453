package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// firstKey is the position of the first key in the arguments of a logger's methods, and of the
// functions of slog that make attributes.
var firstKey = map[string]int{
	"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0,
	"DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2,
}

var (
	loggerName = regexp.MustCompile(`(?i)(^|[a-z])log(ger)?$`)
	listedKeys = regexp.MustCompile("`([a-z_]+)`")
)

// TestLogKeys: who looks for a host or a request in the log finds it in all rooms under one key.
// The keys are those of docs/logs.md, each of which is used, and a function that has a context
// gives it to the logger, so that the line has the request's ID.
func TestLogKeys(t *testing.T) {
	t.Parallel()
	root := testkit.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "docs/logs.md"))
	testkit.Must(t, err)
	known := map[string]bool{} // by key: whether it is used
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell, _, _ := strings.Cut(line[1:], "|")
		for _, m := range listedKeys.FindAllStringSubmatch(cell, -1) {
			if _, twice := known[m[1]]; twice {
				t.Errorf("docs/logs.md lists the key %s twice", m[1])
			}
			known[m[1]] = false
		}
	}
	known["request"] = true // package commandline adds it
	k := keyCheck{t: t, known: known, files: token.NewFileSet()}
	testkit.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || rel == "test" || rel == "internal/testkit"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			k.file(path)
		}
		return nil
	}))
	if k.calls < 100 {
		t.Errorf("only %d lines of the log were looked at", k.calls)
	}
	for key, used := range known {
		if !used {
			t.Errorf("docs/logs.md lists the key %s, which nothing uses", key)
		}
	}
}

// keyCheck looks at the calls of loggers.
type keyCheck struct {
	t     *testing.T
	known map[string]bool
	files *token.FileSet
	calls int
}

func (k *keyCheck) file(path string) {
	f, err := parser.ParseFile(k.files, path, nil, parser.SkipObjectResolution)
	testkit.Must(k.t, err)
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
			k.body(d.Body, hasContext(d.Type))
		}
	}
}

// body checks the calls of a function that has a context or has none.
func (k *keyCheck) body(body *ast.BlockStmt, context bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			k.body(n.Body, context || hasContext(n.Type))
			return false
		case *ast.CallExpr:
			k.call(n, body, context)
		}
		return true
	})
}

func (k *keyCheck) call(c *ast.CallExpr, body *ast.BlockStmt, context bool) {
	method, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	of := lastName(method.X)
	if of == "slog" && method.Sel.Name == "Group" {
		k.keys(c.Args[1:], body)
		return
	}
	first, ok := firstKey[method.Sel.Name]
	if !ok || !loggerName.MatchString(of) {
		return
	}
	k.calls++
	if context && first == 1 {
		k.t.Errorf("%s: %sContext, with the context, gives the line the request's ID", k.files.Position(c.Pos()), method.Sel.Name)
	}
	k.keys(c.Args[min(first, len(c.Args)):], body)
}

// keys checks every other argument. One that is spread is looked up in the function's body.
func (k *keyCheck) keys(args []ast.Expr, body *ast.BlockStmt) {
	for i := 0; i < len(args); i += 2 {
		switch arg := args[i].(type) {
		case *ast.BasicLit:
			key, _ := strconv.Unquote(arg.Value)
			if _, ok := k.known[key]; !ok {
				k.t.Errorf("%s: the key %q is not in docs/logs.md", k.files.Position(arg.Pos()), key)
				continue
			}
			k.known[key] = true
		case *ast.CallExpr: // append(about, "err", err), or an attribute
			if lastName(arg.Fun) == "append" {
				k.keys(arg.Args[1:], body)
			}
		case *ast.Ident:
			k.assigned(arg.Name, body)
		default:
			k.t.Errorf("%s: a key is no constant", k.files.Position(arg.Pos()))
		}
	}
}

// assigned checks the list of keys and values that a variable gets.
func (k *keyCheck) assigned(name string, body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && lastName(a.Lhs[0]) == name {
			if list, ok := a.Rhs[0].(*ast.CompositeLit); ok {
				k.keys(list.Elts, body)
			}
		}
		return true
	})
}

// hasContext reports whether a function is given a context or a request.
func hasContext(f *ast.FuncType) bool {
	for _, p := range f.Params.List {
		of := p.Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		s, ok := of.(*ast.SelectorExpr)
		named := len(p.Names) > 0 && p.Names[0].Name != "_"
		if ok && named && (lastName(s.X) == "context" && s.Sel.Name == "Context" || lastName(s.X) == "http" && s.Sel.Name == "Request") {
			return true
		}
	}
	return false
}

// lastName returns the c of a.b.c.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
