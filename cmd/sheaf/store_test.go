package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"sheaf/archive/store/storecheck"
	"sheaf/archive/store/storetest"
	"sheaf/internal/testkit"
)

// checkStore runs the command and returns the promises that it prints.
func checkStore(t *testing.T, args ...string) []storecheck.Promise {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetArgs(append([]string{"store", "check", "--json"}, args...))
	testkit.Must(t, root.ExecuteContext(t.Context()))
	var found []storecheck.Promise
	testkit.Must(t, json.Unmarshal(out.Bytes(), &found))
	return found
}

func wantNoFiles(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("the check left %v (%v)", left, err)
	}
}

func TestStoreCheckDirectory(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, "store")
	testkit.Must(t, os.Mkdir(dir, 0o755))
	for _, args := range [][]string{{dir}, {"--data", data}} {
		if found := checkStore(t, args...); len(found) != 9 {
			t.Errorf("%q: %+v, want 9 promises", args, found)
		}
		wantNoFiles(t, dir)
	}
}

func TestStoreCheckBucket(t *testing.T) {
	g := storetest.StartVersity(t)
	o := g.Options(t)
	t.Setenv("AWS_ACCESS_KEY_ID", o.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", o.SecretKey)
	if found := checkStore(t, o.Endpoint+"/"+o.Bucket+"/some/prefix"); len(found) != 10 {
		t.Errorf("%+v, want 10 promises", found)
	}
}
