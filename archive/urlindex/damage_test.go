package urlindex_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"sheaf/archive/store"
	"sheaf/internal/testkit"
)

// damageable is a store whose objects a test can damage. All its objects were put at noon, because
// old objects are collected by the store's clock.
type damageable struct {
	*store.FS
	t   testing.TB
	dir string
}

func newDamageable(t testing.TB) *damageable {
	t.Helper()
	dir := t.TempDir()
	objects, err := store.OpenFS(dir)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, objects.Close()) })
	return &damageable{objects, t, dir}
}

func (d *damageable) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	err := d.FS.Put(ctx, key, r, size)
	if err == nil {
		err = os.Chtimes(d.path(key), noon, noon)
	}
	return err
}

func (d *damageable) path(key string) string { return filepath.Join(d.dir, filepath.FromSlash(key)) }

// read returns an object's bytes.
func (d *damageable) read(key string) []byte {
	d.t.Helper()
	data, err := os.ReadFile(d.path(key))
	testkit.Must(d.t, err)
	return data
}

// spoil changes an object's bytes.
func (d *damageable) spoil(key string, change func(data []byte) []byte) {
	d.t.Helper()
	data := change(d.read(key))
	testkit.Must(d.t, os.Remove(d.path(key)))
	testkit.Must(d.t, os.WriteFile(d.path(key), data, 0o600))
	testkit.Must(d.t, os.Chtimes(d.path(key), noon, noon))
}

// keys returns the keys with a prefix, in order.
func (d *damageable) keys(prefix string) (all []string) {
	d.t.Helper()
	for info, err := range d.List(d.t.Context(), prefix, "") {
		testkit.Must(d.t, err)
		all = append(all, info.Key)
	}
	return all
}
