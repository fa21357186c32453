package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"sheaf/internal/files"
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

// memory is a folder that Linux systems keep in memory.
const memory = "/dev/shm"

// roomInMemory is how many free bytes the folder memory must have to be used. In a container it may
// be small.
const roomInMemory = 1 << 30

// forFiles returns the folder in which tests make their temporary folders, or "" for the system's.
// TMPDIR comes first: the system uses it for all files. Then comes GOTMPDIR, where go puts a test's
// program: it may be in memory even where the folder memory is small. The folder memory comes last,
// if it has enough room.
func forFiles(memory string) string {
	if os.Getenv("TMPDIR") != "" {
		return ""
	}
	if dir := os.Getenv("GOTMPDIR"); dir != "" {
		return dir
	}
	var fs unix.Statfs_t
	if unix.Statfs(memory, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < roomInMemory {
		return ""
	}
	return memory
}

// InMemory is the TestMain of packages whose tests make many files durable. It runs the tests with
// temporary folders in memory, where a sync costs nothing, and ends the process. If the environment
// names a TMPDIR or GOTMPDIR, it uses these instead; if there is too little memory, it uses the
// disk.
func InMemory(m *testing.M) {
	remove := useMemory()
	exits.Lock()
	exits.called = true
	exits.Unlock()
	code := m.Run()
	for _, f := range exits.list { // no test runs any more
		f()
	}
	remove()
	os.Exit(code)
}

// exits are the functions that InMemory calls after the tests.
var exits struct {
	sync.Mutex // guards what follows
	called     bool
	list       []func()
}

// AtExit makes InMemory call f after the package's last test. It is for things that tests share. If
// the package's TestMain is not InMemory, AtExit does nothing and returns false.
func AtExit(f func()) bool {
	exits.Lock()
	defer exits.Unlock()
	if exits.called {
		exits.list = append(exits.list, f)
	}
	return exits.called
}

// useMemory sets TMPDIR to a new folder in memory, and removes the folders that killed test
// processes have left there.
func useMemory() (remove func()) {
	nothing := func() {}
	in := forFiles(memory)
	if in == "" {
		return nothing
	}
	const prefix = "sheaf-test-"
	left, _ := filepath.Glob(filepath.Join(in, prefix+"*")) // the pattern is sound
	for _, dir := range left {
		if f, err := lockDir(dir); err == nil {
			os.RemoveAll(dir)
			f.Close()
		}
	}
	dir, err := os.MkdirTemp(in, prefix)
	if err != nil {
		return nothing
	}
	f, err := lockDir(dir)
	if err == nil {
		err = os.Chmod(dir, 0o711) // PostgreSQL runs as another user
	}
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		os.RemoveAll(dir)
		return nothing
	}
	return func() {
		os.RemoveAll(dir)
		f.Close()
	}
}

// lockDir locks a folder until the file is closed or this process ends. If another process has the
// lock, it returns an error at once.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := files.TryLock(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
