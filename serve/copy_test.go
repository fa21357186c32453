package serve_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/internal/stream"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

// send reads a file as it would be sent: by its extents, if it has them.
func send(t *testing.T, f *library.File) ([]byte, error) {
	t.Helper()
	from, err := f.Extents(0, f.Size)
	if err != nil {
		return nil, err
	}
	if from == nil {
		r, err := f.OpenRange(t.Context(), 0, f.Size)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	defer from.Close()
	var got collector
	_, err = stream.Send(t.Context(), &got, from, func(_ context.Context, n int64) (int64, error) { return n, nil })
	return got.Bytes(), err
}

// Archives whose segments are gone from the store are those of its copy, whether they are sent by
// the kernel or read.
func TestArchivesComeFromTheCopy(t *testing.T) {
	testkit.Slow(t)
	s := servetest.New(t, nil)
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	for day := range 3 {
		s.Publish(at.AddDate(0, 0, day).Format("20060102"), map[string][]*archive.Record{"www.waseda.ac.jp": {
			servetest.Page("http://www.waseda.ac.jp/", noise(200_000, day), at.AddDate(0, 0, day)),
			servetest.Page("http://www.waseda.ac.jp/a", noise(300, day+10), at.AddDate(0, 0, day)),
		}})
	}
	reader := s.Account("alice", "always", "jp")
	var names []string
	for _, base := range []string{"20261120", "20261121", "all", "current"} {
		for _, form := range []string{".members.tar.gz", ".tar.gz", ".warc.gz", ".wacz"} {
			names = append(names, "/jp/ac/waseda/www/"+base+form)
		}
	}
	read := func(lib *reading.Library, a *account.Account, name string) ([]byte, error) {
		f, err := lib.Tree.Open(t.Context(), a, name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return send(t, f)
	}
	lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store})
	testkit.Must(t, err)
	want := make(map[string][]byte)
	for _, name := range names {
		want[name], err = read(lib, reader, name)
		testkit.Must(t, err)
	}
	second := t.TempDir()
	testkit.Must(t, os.CopyFS(second, os.DirFS(s.Dir)))
	for _, of := range []string{"packs/r1-20261120*", "segments/jp/ac/waseda/www/*"} {
		objects, err := filepath.Glob(filepath.Join(s.Dir, filepath.FromSlash(of)))
		testkit.Must(t, err)
		if len(objects) != 1 {
			t.Fatalf("%s is %v", of, objects)
		}
		testkit.Must(t, os.Remove(objects[0]))
	}
	watched := &storetest.Fault{Store: s.Store, Decide: func(_, _ string) storetest.Outcome { return storetest.Works }}
	for under, objects := range map[string]store.Store{"local": s.Store, "across the network": watched} {
		objects, counted := store.NewBacked(objects, func(context.Context) (store.Store, error) { return store.OpenFS(second) }, slog.New(slog.DiscardHandler))
		lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: objects})
		testkit.Must(t, err)
		for _, name := range names {
			if got, err := read(lib, reader, name); err != nil || !bytes.Equal(got, want[name]) {
				t.Errorf("%s, %s: %d bytes, %v; want %d", under, name, len(got), err, len(want[name]))
			}
		}
		if counted.Reads() == 0 {
			t.Errorf("%s: nothing was read from the copy", under)
		}
	}
	if _, err := read(lib, reader, "/jp/ac/waseda/www/20261121.members.tar.gz"); err == nil {
		t.Error("without a copy the missing segment is read all the same")
	}
}
