package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"sheaf/internal/testkit"
)

// mostColumns is how wide a comment that has lines of its own may be, with tabs of four columns.
const mostColumns = 100

// Comments are wrapped, but for tables and what cannot be broken.
func TestCommentsAreWrapped(t *testing.T) {
	comments := 0
	testkit.Must(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := 0
		for line := range strings.Lines(string(text)) {
			at++
			comment, ok := strings.CutPrefix(strings.TrimLeft(line, "\t"), "// ")
			if !ok {
				continue
			}
			comments++
			wide := utf8.RuneCountInString(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")) > mostColumns
			if wide && !strings.Contains(comment, "   ") && !strings.Contains(comment, "\t") && !strings.Contains(comment, "://") {
				t.Errorf("%s:%d: a comment wider than %d columns", path, at, mostColumns)
			}
		}
		return nil
	}))
	if comments < 10_000 {
		t.Errorf("%d lines of comments were read", comments)
	}
}
