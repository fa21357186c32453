package store_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/internal/testkit"
)

func openFS(t *testing.T, dir string) *store.FS {
	t.Helper()
	s, err := store.OpenFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestFS(t *testing.T) {
	testStore(t, func(t *testing.T) store.Store { return openFS(t, filepath.Join(t.TempDir(), "new", "store")) })
}

// A wrapper that changes nothing passes the suite, as every wrapper must.
func TestFaultThatWorks(t *testing.T) {
	testStore(t, func(t *testing.T) store.Store {
		return &storetest.Fault{Store: openFS(t, t.TempDir()), Decide: func(_, _ string) storetest.Outcome { return storetest.Works }}
	})
}

// A key can have as many parts as its length allows; each is a directory.
func TestFSDeepKey(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s, key := openFS(t, t.TempDir()), strings.Repeat("d/", 511)+"k"
	testkit.Must(t, s.Put(t.Context(), key, strings.NewReader("data"), 4))
	if got, err := fetch(t.Context(), s, key); err != nil || got != "data" {
		t.Errorf("%q, %v", got, err)
	}
	testkit.Must(t, s.Delete(t.Context(), key))
}

// OpenFS removes a dead process's temporary files and leaves a living one's alone.
func TestFSSweep(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, ".tmp", "DEAD")
	if err := os.MkdirAll(dead, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead, "1"), []byte("torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	living := openFS(t, dir)
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("temporary files of a dead process stay: %v", err)
	}
	r, w := io.Pipe()
	done := make(chan error)
	go func() { done <- living.Put(t.Context(), "k", r, 4) }()
	if _, err := w.Write([]byte("da")); err != nil { // the writer has created the temporary file now
		t.Fatal(err)
	}
	openFS(t, dir)
	if _, err := w.Write([]byte("ta")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), <-done); err != nil {
		t.Errorf("put while another process opens the store: %v", err)
	}
}

// A Put leaves no temporary file, whether it succeeds or fails.
func TestFSLeavesNoTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	s := openFS(t, dir)
	for _, size := range []int64{4, 4, 3, 5} {
		_ = s.Put(t.Context(), "k", strings.NewReader("data"), size) // the suite checks its error
	}
	left, err := filepath.Glob(filepath.Join(dir, ".tmp", "*", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err = filepath.Glob(filepath.Join(dir, ".tmp", "*")); err != nil || len(left) != 0 {
		t.Errorf("left behind after Close: %q, %v", left, err)
	}
}

// A symbolic link that leads out of the store is not followed.
func TestFSNoEscape(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := openFS(t, dir)
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Open(t.Context(), "out/secret", 0, -1); err == nil {
		_ = r.Close()
		t.Error("read a file outside the store")
	}
	if err := s.Put(t.Context(), "out/new", strings.NewReader(""), 0); err == nil {
		t.Error("wrote a file outside the store")
	}
}

func TestFSKeyAsDirectory(t *testing.T) {
	s := openFS(t, t.TempDir())
	for _, key := range []string{"a/b", "c"} {
		if err := s.Put(t.Context(), key, strings.NewReader(""), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a", "c/d", "c/d/e"} {
		if err := s.Put(t.Context(), key, strings.NewReader(""), 0); !errors.Is(err, store.ErrKey) {
			t.Errorf("put %s: %v, want %v", key, err, store.ErrKey)
		}
	}
}

func TestFSOpenFile(t *testing.T) {
	var s store.Local = openFS(t, t.TempDir())
	if err := s.(store.Store).Put(t.Context(), "k", strings.NewReader("data"), 4); err != nil {
		t.Fatal(err)
	}
	f, err := s.OpenFile("k")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil || string(data) != "data" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := s.OpenFile("x"); !errors.Is(err, store.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}
