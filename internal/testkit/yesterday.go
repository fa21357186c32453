package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Yesterday is a commit of an earlier day whose program works beside today's on one database. Move
// it on with a release, to the one before.
const Yesterday = "49281b5920f4a144e77715fe5ccc3c7e036db8ee"

// BuildAt returns the path of a program as Build does, of the sources of a commit. If the commit is
// not here, the test is skipped in a shallow clone and in sources without git, also in CI. In a
// whole clone the commit is wrong, and the test ends as Missing says.
func BuildAt(t testing.TB, commit, pkg string) string {
	t.Helper()
	git := git(t)
	if out, err := git("cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		if shallow, other := git("rev-parse", "--is-shallow-repository").Output(); other == nil && string(shallow) == "false\n" {
			Missing(t, "needs commit %s, which this repository does not have: %v %s", commit, err, out)
		}
		t.Skipf("%s needs commit %s of this repository (git fetch --unshallow): %v %s", t.Name(), commit, err, out)
	}
	once, _ := builds.LoadOrStore(commit, sync.OnceValues(func() (string, error) { return sourcesAt(git, commit) }))
	dir, err := once.(func() (string, error))()
	Must(t, err)
	return build(t, dir, pkg, nil)
}

// git returns a function that makes commands of git for the checkout, which may be another user's.
func git(t testing.TB) func(args ...string) *exec.Cmd {
	t.Helper()
	program, root := Tool(t, "git"), Root(t)
	return func(args ...string) *exec.Cmd {
		return exec.Command(program, append([]string{"-C", root, "-c", "safe.directory=" + root}, args...)...)
	}
}

// sourcesAt returns a folder in the user's cache that has the sources of a commit.
func sourcesAt(git func(args ...string) *exec.Cmd, commit string) (dir string, err error) {
	cache := cache()
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "at-"+commit)
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	half, err := os.MkdirTemp(cache, "at-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(half)
	tar := filepath.Join(half, "sources.tar")
	for _, cmd := range []*exec.Cmd{
		git("archive", "--output="+tar, commit),
		exec.Command("tar", "-xf", tar, "-C", half),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return dir, errors.Join(os.Remove(tar), os.Rename(half, dir))
}
