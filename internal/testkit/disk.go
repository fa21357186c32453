package testkit

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inNamespace is set in a test that was run again where it may mount.
const inNamespace = "SHEAF_TEST_IN_NAMESPACE"

// SmallDisk mounts a file system of its own for the test, with tmpfs's options. Who may not
// mount runs the test again in a user namespace; an empty path says that this was done.
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

// MountSmall mounts a file system of its own at a directory until the test ends, with tmpfs's
// options. It returns the error of who may not mount.
func MountSmall(t testing.TB, dir, options string) error {
	t.Helper()
	err := unix.Mount("sheaf-test", dir, "tmpfs", 0, options)
	if err == nil {
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	}
	return err
}

// inLimits is set in a test that was run again where its files may be limited.
const inLimits = "SHEAF_TEST_IN_LIMITS"

// FilesUpTo lets no file of the process grow beyond n bytes until the returned function is called.
// A write beyond them stores what fits and then fails, as on a full disk. The test is run again for
// that in a process of its own; nil says that this was done.
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
