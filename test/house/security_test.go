package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// TestSecurity: whoever reads in SECURITY.md what holds, or in docs/papers.md what works, can run
// the test that shows it. Each line of these tables names one, and each test that is named exists.
func TestSecurity(t *testing.T) {
	for file, head := range map[string]string{
		"SECURITY.md":    "| against | what holds | shown by |\n|---|---|---|\n",
		"docs/papers.md": "| paper, section | what | where | shown by | what we do otherwise, and why |\n|---|---|---|---|---|\n",
	} {
		root := testkit.Root(t)
		text, err := os.ReadFile(filepath.Join(root, file))
		testkit.Must(t, err)
		named := regexp.MustCompile("`([\\w/]+) (Test\\w+)`")
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if !hasTest(t, filepath.Join(root, m[1]), m[2]) {
				t.Errorf("%s names %s %s, which does not exist", file, m[1], m[2])
			}
		}
		_, table, _ := strings.Cut(string(text), head)
		table, _, _ = strings.Cut(table, "\n\n")
		lines := strings.Split(table, "\n")
		if len(lines) < 2 {
			t.Errorf("%s has no such table", file)
		}
		for _, line := range lines {
			if !named.MatchString(line) {
				t.Errorf("%s names no test for %s", file, line)
			}
		}
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	testkit.Must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
