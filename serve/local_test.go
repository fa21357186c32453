package serve_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/serve"
	"sheaf/serve/servetest"
)

// An archive that is one stretch of a local file leaves by way of the file, however
// the store is wrapped, and by the store where that must see every read.
func TestLocalFileBehindWrappers(t *testing.T) {
	s := servetest.New(t, nil)
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	edition := s.Publish("20261121", map[string][]*archive.Record{
		"www.waseda.ac.jp": {servetest.Page("http://www.waseda.ac.jp/", "waseda", at)},
	})
	account := s.Account("alice", "always", "jp")
	wrapped := store.NewRetry(store.NewMeter(store.NewLimit(s.Store, 2, 2)), store.RetryOptions{})
	watched := &storetest.Fault{Store: s.Store, Decide: func(_, _ string) storetest.Outcome { return storetest.Works }}
	for name, c := range map[string]struct {
		store store.Store
		local bool
	}{"bare": {s.Store, true}, "wrapped": {wrapped, true}, "watched": {store.NewMeter(watched), false}} {
		library, err := serve.NewLibrary(serve.Options{Catalog: s.Catalog, Store: c.store})
		if err != nil {
			t.Fatal(err)
		}
		f, err := library.Open(t.Context(), account, "/jp/ac/waseda/www/"+edition+".members.tar.gz")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		file, off, err := f.Local()
		if err != nil || (file != nil) != c.local {
			t.Errorf("%s: local file %v, %v", name, file, err)
		}
		if file == nil {
			continue
		}
		r, err := f.OpenRange(t.Context(), 0, f.Size)
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(r)
		got := make([]byte, f.Size)
		_, readErr := file.ReadAt(got, off)
		if err := errors.Join(err, readErr, r.Close(), file.Close()); err != nil || string(got) != string(want) {
			t.Errorf("%s: the file's stretch is not what is read: %v", name, err)
		}
	}
}
