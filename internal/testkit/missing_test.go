package testkit

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// skipped runs a test that needs something, and returns why it has skipped.
func skipped(t *testing.T, test func(testing.TB)) string {
	t.Helper()
	t.Setenv("SHEAF_TEST_REQUIRE", "")
	inner := &needy{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(inner)
	}()
	<-done
	return inner.reason
}

// needy is a test that notes why it has skipped.
type needy struct {
	testing.TB
	reason string
}

func (n *needy) Skipf(format string, args ...any) {
	n.reason = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// emptyCache gives the test a cache folder of its own, with the compiled packages of all.
func emptyCache(t *testing.T) {
	t.Helper()
	compiled, err := exec.Command("go", "env", "GOCACHE").Output()
	Must(t, err)
	t.Setenv("GOCACHE", strings.TrimSpace(string(compiled)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

// Tests fetch nothing: what the network would have to bring is missing.
func TestNothingIsFetched(t *testing.T) {
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOPROXY", "https://127.0.0.1:1") // nobody may ask it
	emptyCache(t)
	for what, test := range map[string]func(testing.TB){
		"a module's program": func(t testing.TB) { BuildModule(t, "test/acme") },
		"npm's packages":     func(t testing.TB) { NPM(t, "warcio") },
	} {
		if reason := skipped(t, test); !strings.Contains(reason, "which test/tools.sh fetches") || strings.Contains(reason, "127.0.0.1:1") {
			t.Errorf("%s: %q", what, reason)
		}
	}
}

// A checkout may belong to another user: git refuses it, and go asks git unless it is told not to.
func TestCheckoutOfAnotherUser(t *testing.T) {
	Tool(t, "git")
	t.Setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1") // git's own, for its tests
	t.Setenv("GOFLAGS", "-buildvcs=auto")
	emptyCache(t)
	if out, err := exec.Command("git", "log", "-1").CombinedOutput(); err == nil {
		t.Fatalf("git does not refuse it: %s", out)
	}
	Build(t, "sheaf/cmd/sheaf/demo/sites")
}
