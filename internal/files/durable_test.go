package files_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"sheaf/internal/files"
	"sheaf/internal/powerloss"
)

// deed is an operation, and what must hold before and after it.
type deed struct {
	name    string
	prepare func(d files.Disk, at func(string) string) error // durable when it returns
	do      func(d files.Disk, at func(string) string) error
	before  func(dir string) error // may hold until do has returned
	after   func(dir string) error // may hold once do has begun, and must hold once it has returned
}

func holds(name, want string) func(dir string) error {
	return func(dir string) error {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && string(got) != want {
			err = fmt.Errorf("%s holds %q, want %q", name, got, want)
		}
		return err
	}
}

func absent(name string) func(dir string) error {
	return func(dir string) error {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there: %w", name, err)
		}
		return nil
	}
}

func both(a, b func(string) error) func(string) error {
	return func(dir string) error { return errors.Join(a(dir), b(dir)) }
}

func deeds() []deed {
	write := func(name, data string) func(files.Disk, func(string) string) error {
		return func(d files.Disk, at func(string) string) error { return d.WriteFile(at(name), []byte(data), 0o600) }
	}
	nothing := func(files.Disk, func(string) string) error { return nil }
	batch := func(d files.Disk, at func(string) string) error {
		return errors.Join(d.MakeDir(at("in"), 0o700), d.MakeDir(at("out"), 0o700), d.MakeDir(at("in/b"), 0o700),
			d.WriteFile(at("in/b/f"), []byte("data"), 0o600))
	}
	return []deed{
		{"new file", nothing, write("f", "new"), absent("f"), holds("f", "new")},
		{"other content", write("f", "old"), write("f", "newer"), holds("f", "old"), holds("f", "newer")},
		{"after a broken one", write("f"+files.TempSuffix, "broken, and longer"), write("f", "new"), absent("f"), holds("f", "new")},
		{"file moved", batch, func(d files.Disk, at func(string) string) error { return d.Move(at("in/b/f"), at("out/f")) },
			holds("in/b/f", "data"), holds("out/f", "data")},
		{"directory moved", batch, func(d files.Disk, at func(string) string) error { return d.Move(at("in/b"), at("out/b")) },
			holds("in/b/f", "data"), both(holds("out/b/f", "data"), absent("in/b"))},
		{"directory made", nothing, func(d files.Disk, at func(string) string) error {
			return errors.Join(d.MakeDir(at("a"), 0o700), d.MakeDir(at("a"), 0o700), d.WriteFile(at("a/f"), []byte("data"), 0o600))
		}, absent("a/f"), holds("a/f", "data")},
		{"directory dropped", batch, func(d files.Disk, at func(string) string) error { return d.Drop(at("in")) },
			func(string) error { return nil }, absent("in")},
	}
}

// Once it has returned, each operation survives a power failure. Before that, a power failure
// leaves either the old state or the new one.
func TestPowerLoss(t *testing.T) {
	for _, c := range deeds() {
		t.Run(c.name, func(t *testing.T) {
			if err := try(t, c, func(s files.System) files.System { return s }); err != nil {
				t.Error(err)
			}
		})
	}
}

// The test finds an operation that leaves out its syncs.
func TestPowerLossIsNoticed(t *testing.T) {
	for _, c := range deeds() {
		if try(t, c, func(s files.System) files.System { return unsynced{s} }) == nil {
			t.Errorf("%s: directories were not synced, and nothing was lost", c.name)
		}
	}
}

type unsynced struct{ files.System }

func (unsynced) SyncDir(string) error { return nil }

// try performs the deed on a recorded disk, and checks every state that a power failure can leave.
// within may return a disk without syncs.
func try(t *testing.T, c deed, within func(files.System) files.System) error {
	base := t.TempDir()
	r := &powerloss.Recorder{System: files.Host{}, Base: base}
	at := func(name string) string { return filepath.Join(base, name) }
	if err := c.prepare(files.Disk{System: r}, at); err != nil {
		t.Fatal(err)
	}
	first := r.Len()
	if err := c.do(files.Disk{System: within(r)}, at); err != nil {
		t.Fatal(err)
	}
	for s := range r.States(first, 10) {
		dir := t.TempDir()
		if err := s.Write(dir); err != nil {
			t.Fatal(err)
		}
		err := c.after(dir)
		if err != nil && s.After < r.Len() {
			err = c.before(dir)
		}
		if err != nil {
			return fmt.Errorf("after %d of %d operations, %s: %w", s.After, r.Len(), s.Which, err)
		}
	}
	return nil
}

// MkdirAll creates what is missing and keeps what exists.
func TestMkdirAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	for range 2 {
		if err := files.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "f")
	if err := files.WriteFile(file, nil); err != nil {
		t.Fatal(err)
	}
	if err := files.MkdirAll(filepath.Join(file, "d"), 0o700); err == nil {
		t.Error("made a directory below a file")
	}
}
