package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

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
