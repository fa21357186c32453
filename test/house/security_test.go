package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// TestSecurity: whoever reads in SECURITY.md what holds can run the test that shows it. Each line
// of that table names one, and each test that is named exists.
func TestSecurity(t *testing.T) {
	root := testkit.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	testkit.Must(t, err)
	named := regexp.MustCompile("`([\\w/]+) (Test\\w+)`")
	for _, m := range named.FindAllStringSubmatch(string(text), -1) {
		if !hasTest(t, filepath.Join(root, m[1]), m[2]) {
			t.Errorf("SECURITY.md names %s %s, which does not exist", m[1], m[2])
		}
	}
	_, table, _ := strings.Cut(string(text), "| against | what holds | shown by |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	lines := strings.Split(table, "\n")
	if len(lines) < 2 {
		t.Fatal("SECURITY.md has no table of what holds")
	}
	for _, line := range lines {
		if !named.MatchString(line) {
			t.Errorf("SECURITY.md names no test for %s", line)
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
