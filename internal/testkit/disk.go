package testkit

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inNamespace is set in the environment of a test that SmallDisk has run again in a user namespace.
const inNamespace = "SHEAF_TEST_IN_NAMESPACE"

// SmallDisk mounts a tmpfs with the options for the test. A user who may not mount gets the test
// run again in a user namespace; then SmallDisk returns an empty path, and the test must end.
func SmallDisk(t *testing.T, options string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	err := MountSmall(t, dir, options)
	switch {
	case err == nil:
		return dir
	case os.Getenv(inNamespace) != "":
		Missing(t, "needs to mount a tmpfs, which not even a user namespace may here: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), Tool(t, "unshare"), "-Urm", self, "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "--- SKIP"), strings.Contains(string(out), "unshare failed"):
		Missing(t, "needs to mount a tmpfs: %s", out)
	case err != nil:
		t.Fatalf("in a user namespace: %v\n%s", err, out)
	}
	return ""
}

// MountSmall mounts a tmpfs with the options at a directory until the test ends. It returns an
// error if the user may not mount.
func MountSmall(t testing.TB, dir, options string) error {
	t.Helper()
	err := unix.Mount("sheaf-test", dir, "tmpfs", 0, options)
	if err == nil {
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	}
	return err
}

// inLimits is set in the environment of a test that FilesUpTo has run again in a new process.
const inLimits = "SHEAF_TEST_IN_LIMITS"

// FilesUpTo limits each file of the process to n bytes until lift is called. A write beyond that
// limit stores what fits and then fails, as on a full disk. For that, FilesUpTo runs the test again
// in a new process. If it returns nil, the new process has done the test, which must then end.
func FilesUpTo(t *testing.T, n uint64) (lift func()) {
	t.Helper()
	if os.Getenv(inLimits) == "" {
		self, err := os.Executable()
		Must(t, err)
		cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), inLimits+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("in a process of its own: %v\n%s", err, out)
		}
		return nil
	}
	var was unix.Rlimit
	Must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
	lift = func() { Must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &was)) }
	t.Cleanup(lift)
	Must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: was.Max}))
	return lift
}
