package testkit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sheaf/internal/files"
)

// builds has, by folder, package and flags, a func() (string, error) for each program that this
// test process needs. The function builds the program at its first call.
var builds sync.Map

// Build returns the path of a program that `go build` makes from one of the project's packages with
// the flags, such as Build(t, "sheaf/cmd/sheaf"). All test processes share the file in the user's
// cache folder: only the first one after a change of the source must link it.
func Build(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	return build(t, Root(t), pkg, flags)
}

// BuildShared is Build for a program of the shared folder, such as vhostd.
func BuildShared(t testing.TB, name string) string {
	t.Helper()
	return build(t, filepath.Join(Shared(t), name), ".", []string{"-mod=mod"})
}

// BuildModule is Build for a program in a folder of the project with its own go.mod, such as
// test/oidc.
func BuildModule(t testing.TB, folder string) string {
	t.Helper()
	return build(t, filepath.Join(Root(t), folder), ".", nil)
}

func build(t testing.TB, dir, pkg string, flags []string) string {
	t.Helper()
	once, _ := builds.LoadOrStore(fmt.Sprint(dir, " ", pkg, flags), sync.OnceValues(func() (string, error) {
		return goBuild(dir, pkg, flags)
	}))
	program, err := once.(func() (string, error))()
	if err != nil && strings.Contains(err.Error(), "GOPROXY=off") {
		Missing(t, "needs Go modules, which test/tools.sh fetches: %v", err)
	}
	Must(t, err)
	return program
}

// goBuild runs go build in dir, without fetching modules. Go does nothing if the program is up to
// date. The program does not contain its commit, because the checkout may belong to another user,
// and git does not open such a repository.
func goBuild(dir, pkg string, flags []string) (string, error) {
	name := path.Base(pkg)
	if pkg == "." {
		name = filepath.Base(dir)
	}
	key := sha256.Sum256(fmt.Append(nil, dir, pkg, flags, os.Getenv("GOFLAGS"), os.Getenv("CGO_ENABLED")))
	folder := filepath.Join(cache(), fmt.Sprintf("%x", key[:8]))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(folder, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	out := filepath.Join(folder, name)
	cmd := exec.Command("go", append(append([]string{"build", "-buildvcs=false", "-o", out}, flags...), pkg)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "TMPDIR=") // a TMPDIR that a test has set may be small
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, text)
	}
	return out, nil
}

// cache returns the folder for files that test processes share, in the user's cache folder.
func cache() string {
	dir, err := os.UserCacheDir()
	if err != nil { // no HOME
		dir = os.TempDir()
	}
	return filepath.Join(dir, "sheaf-test")
}

// lock waits until no other process has locked the file called name, and locks it until unlock.
func lock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := files.Lock(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil // closing releases the lock
}

// NPM returns a new folder for scripts of node. The scripts can import the npm packages that a
// folder of test/npm lists. name is that folder's name. Only test/tools.sh fetches the packages;
// without the packages the test ends as by Missing.
func NPM(t testing.TB, name string) (dir string) {
	t.Helper()
	have, want := filepath.Join(cache(), "npm", name), filepath.Join(Root(t), "test", "npm", name)
	files, err := os.ReadDir(want)
	Must(t, err)
	for _, file := range files {
		wanted, err := os.ReadFile(filepath.Join(want, file.Name()))
		Must(t, err)
		if fetched, err := os.ReadFile(filepath.Join(have, file.Name())); err != nil || !bytes.Equal(fetched, wanted) {
			Missing(t, "needs the packages of test/npm/%s, which test/tools.sh fetches from npm's registry", name)
		}
	}
	dir = t.TempDir()
	Must(t, os.Symlink(filepath.Join(have, "node_modules"), filepath.Join(dir, "node_modules")))
	return dir
}

// Run runs a program in dir, with dir as its HOME, and returns its output. The test fails if the
// program fails or takes longer than Patience. It is skipped if the program is missing.
func Run(t testing.TB, dir, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, Tool(t, program), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}
