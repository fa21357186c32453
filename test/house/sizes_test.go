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

// What a reader should be able to keep in the head; see docs/architecture.md (Rooms).
const (
	mostMethods = 40 // of a type
	mostFields  = 20 // of a struct
	mostLines   = 60 // of a function
)

func TestSizes(t *testing.T) {
	methods := map[string]int{} // by directory and type
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
			switch n := n.(type) {
			case *ast.FuncDecl:
				if lines := set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1; lines > mostLines {
					t.Errorf("%s: %s has %d lines, more than %d", set.Position(n.Pos()), n.Name.Name, lines, mostLines)
				}
				if n.Recv != nil {
					methods[filepath.Dir(path)+": "+receiver(n.Recv.List[0].Type)]++
				}
			case *ast.StructType:
				if fields := n.Fields.NumFields(); fields > mostFields {
					t.Errorf("%s: a struct has %d fields, more than %d", set.Position(n.Pos()), fields, mostFields)
				}
			}
			return true
		})
		return nil
	}))
	for of, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods, more than %d", of, n, mostMethods)
		}
	}
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
