// Package testkit is shared by the tests of all packages. It finds programs that tests need, waits
// for events, starts processes, builds Sheaf's own programs, and provides addresses and disks for a
// test.
//
// A test that needs something from outside the project (a program, the shared folder beside the
// checkout) asks for it here. If it is missing, the test is skipped, with a message that names the
// Debian package. With SHEAF_TEST_REQUIRE=all, as in CI, a missing program fails the test.
package testkit

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed tools.txt
var tools string

// Missing ends a test that lacks something it needs: it skips the test, or fails it in CI. The
// message says what is missing. Like all of t's methods that end a test, Missing must be called
// from the test's own goroutine.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("SHEAF_TEST_REQUIRE") == "all" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Tool returns the path of the program called name. Call it before the test starts goroutines. If
// SHEAF_TEST_ASKED names a file, Tool adds a line to it: folder of the package, test, program.
func Tool(t testing.TB, name string) string {
	t.Helper()
	noteAsked(t, name)
	path, err := exec.LookPath(name)
	if err != nil {
		MissingTool(t, name)
	}
	return path
}

// packageFolder is the folder of the tested package, in which test processes start.
var packageFolder, _ = os.Getwd()

func noteAsked(t testing.TB, tool string) {
	t.Helper()
	file := os.Getenv("SHEAF_TEST_ASKED")
	if file == "" {
		return
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	Must(t, err)
	defer f.Close()
	_, err = fmt.Fprintln(f, packageFolder, test, tool)
	Must(t, err)
}

// MissingTool is Missing for a program. The message has the Debian package of the program, if
// tools.txt names it.
func MissingTool(t testing.TB, name string) {
	t.Helper()
	if pkg := debianPackage(name); pkg != "" {
		Missing(t, "needs the program %s (Debian: apt-get install %s)", name, pkg)
	}
	Missing(t, "needs the program %s", name)
}

// debianPackage returns the Debian package that has a program, or "" if tools.txt does not name it.
func debianPackage(program string) string {
	for line := range strings.Lines(tools) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == program {
			return f[1]
		}
	}
	return ""
}

// Shared returns the shared folder beside the project's checkout.
func Shared(t testing.TB) string {
	t.Helper()
	shared := filepath.Join(filepath.Dir(Root(t)), "shared")
	if _, err := os.Stat(filepath.Join(shared, "DESIGN.md")); err != nil {
		t.Skipf("%s needs the shared folder beside the project, which nothing can install: %v", t.Name(), err)
	}
	return shared
}

// Root returns the directory of the project's go.mod.
func Root(t testing.TB) string {
	t.Helper()
	start, err := os.Getwd()
	Must(t, err)
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("no go.mod in %s or above it", start)
		}
	}
}

// Full reports whether the tests run in their long form, because SHEAF_TEST_FULL is set.
func Full() bool { return os.Getenv("SHEAF_TEST_FULL") != "" }

// Size returns the size of a test's input: full in the long form, otherwise usual.
func Size(usual, full int) int {
	if Full() {
		return full
	}
	return usual
}

// Long skips the test unless the tests run in their long form. test/long.txt says whether `.ci/run`
// or `make soak` runs it.
func Long(t testing.TB) {
	t.Helper()
	if !Full() {
		t.Skip("only the long form has it: set SHEAF_TEST_FULL=1")
	}
}

// Slow skips a test that takes a second or more if only quick tests are asked for (-short).
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes a second or more, which -short leaves out")
	}
}

// Waiting is for the TestMain of packages whose tests wait most of the time. It lets up to six
// parallel tests run at once, unless the command line has -parallel.
func Waiting() {
	flag.Parse()
	if at := flag.Lookup("test.parallel"); at.Value.String() == at.DefValue {
		_ = at.Value.Set("6")
	}
}
