package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// root is a file system with only busybox and the few programs that the install script needs: the
// smallest machine that a partner site could have.
type root struct {
	t   *testing.T
	dir string
}

// newRoot makes the file system. It must run as root, because the script makes a user.
func newRoot(t *testing.T) *root {
	t.Helper()
	if os.Getuid() != 0 {
		testkit.Missing(t, "needs root, for chroot and for a user of the robot's own")
	}
	testkit.Tool(t, "chroot")
	testkit.Tool(t, "unshare") // for /proc, which goes with the last process in it
	r := &root{t, t.TempDir()}
	for _, dir := range []string{"bin", "usr/bin", "usr/sbin", "usr/local", "etc/init.d", "var/lib", "tmp", "dev", "proc", "root"} {
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(r.dir, "tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	busybox := testkit.Tool(t, "busybox")
	r.program(busybox, "bin/busybox")
	r.must("/bin/busybox", "--install", "-s", "/bin")
	for _, name := range []string{"curl", "setpriv", "useradd", "userdel"} {
		r.program(testkit.Tool(t, name), "usr/bin/"+name)
	}
	r.write("usr/bin/sudo", "#!/bin/sh\nexec \"$@\"\n", 0o755)
	r.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", 0o644)
	r.write("etc/group", "root:x:0:\n", 0o644)
	r.write("etc/shadow", "root:*:1::::::\n", 0o600)
	r.write("dev/null", "", 0o666) // a plain file does here, where mknod may be forbidden
	return r
}

// program copies a program and the libraries that it is linked to.
func (r *root) program(from, to string) {
	r.t.Helper()
	r.copy(from, to)
	out, err := exec.Command("ldd", from).Output()
	if err != nil {
		return // static
	}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			r.copy(word, word[1:])
		}
	}
}

func (r *root) copy(from, to string) {
	r.t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(to, string(data), 0o755)
}

func (r *root) path(name string) string { return filepath.Join(r.dir, name) }

func (r *root) write(name, text string, mode os.FileMode) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.path(name), []byte(text), mode); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Chmod(r.path(name), mode); err != nil {
		r.t.Fatal(err)
	}
}

func (r *root) exists(name string) bool {
	_, err := os.Lstat(r.path(name))
	return err == nil
}

// run runs a command in the file system, and returns its output.
func (r *root) run(args ...string) (string, error) {
	cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c",
		`mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"`, r.dir}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/bin", "HOME=/root"}
	cmd.Dir = "/"
	// A file, not a pipe: the robot that a command leaves running would hold a pipe open.
	out, err := os.CreateTemp(r.t.TempDir(), "out")
	if err != nil {
		r.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	text, readErr := os.ReadFile(out.Name())
	if readErr != nil {
		r.t.Fatal(readErr)
	}
	return string(text), err
}

func (r *root) must(args ...string) string {
	r.t.Helper()
	out, err := r.run(args...)
	if err != nil {
		r.t.Fatalf("%q: %v\n%s\n%s", args, err, out, r.log())
	}
	return out
}

func (r *root) log() string {
	text, _ := os.ReadFile(r.path("var/lib/sheaf-robot/robotd.log"))
	return string(text)
}
