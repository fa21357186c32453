// Package testneed finds what a test needs from outside the project: a program,
// or the shared folder beside it. Where it is missing the test is skipped with a
// message; with SHEAF_TEST_REQUIRE=all, as in CI, a missing program fails it instead, so
// that no test is skipped there without anybody noticing. The shared folder is beside the project or not.
package testneed

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Missing ends a test that lacks what the message says: a skip, or a failure in CI.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("SHEAF_TEST_REQUIRE") == "all" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Tool returns the path of the program called name.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, "needs the program %s, which is not installed", name)
	}
	return path
}

// Shared returns the shared folder beside the project's checkout.
func Shared(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("no go.mod above the test's directory")
		}
		dir = filepath.Dir(dir)
	}
	shared := filepath.Join(filepath.Dir(dir), "shared")
	if _, err := os.Stat(filepath.Join(shared, "DESIGN.md")); err != nil {
		t.Skipf("needs the shared folder beside the project, which nothing can install: %v", err)
	}
	return shared
}
