package testkit

import (
	"flag"
	"os"
	"testing"
)

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
