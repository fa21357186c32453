package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// mostLines is how long a function may be. A type has no limit of methods or fields: to keep one,
// whole things were copied apart into handles.
const mostLines = 60

func TestSizes(t *testing.T) {
	files := 0
	testkit.Must(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if n, ok := n.(*ast.FuncDecl); ok {
				if lines := set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1; lines > mostLines {
					t.Errorf("%s: %s has %d lines, more than %d", set.Position(n.Pos()), n.Name.Name, lines, mostLines)
				}
			}
			return true
		})
		return nil
	}))
	if files < 500 {
		t.Errorf("%d files were read", files)
	}
}

// receiver returns the name of a method's type.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return "?"
}
