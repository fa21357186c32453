package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/serve/mirror"
)

// TestMirrorCommand mirrors a running service, with the account from the environment, and
// is told what is wrong with what it is asked.
func TestMirrorCommand(t *testing.T) {
	c := startService(t, nil)
	c.run(nil, "account", "add", "alice", "--domain", "jp", "--password", "wonderland")
	t.Setenv("SHEAF_USER", "alice")
	t.Setenv("SHEAF_PASSWORD", "wonderland")
	dir := filepath.Join(t.TempDir(), "archive")
	mirrored := func(args ...string) (string, error) {
		var out bytes.Buffer
		root := rootCommand()
		root.SetOut(&out)
		root.SetArgs(append([]string{"mirror"}, args...))
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	out, err := mirrored(c.url, dir, "--once", "--json", "--domain", "ac.jp", "--limit", "1MiB")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var sum mirror.Summary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil || sum != (mirror.Summary{}) || !strings.Contains(out, `"event":"current"`) {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, ".sheaf-mirror", "state.json")); err != nil {
		t.Error(err)
	}
	for says, args := range map[string][]string{
		"not a number of bytes": {c.url, dir, "--limit", "fast"},
		"some of tar.gz":        {c.url, dir, "--forms", "zip"},
		"names no service":      {"archive.example.jp", dir},
		"want http":             {"gopher://127.0.0.1/", dir},
		"password is wrong":     {strings.Replace(c.url, "//", "//alice:wrong@", 1), dir, "--once"},
	} {
		if _, err := mirrored(args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: error %v; want one that says %q", args, err, says)
		}
	}
}
