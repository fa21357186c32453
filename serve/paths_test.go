package serve_test

import (
	"errors"
	"io"
	"path"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

// FuzzPaths asks for anything. A path leads to what its account may see or to
// nothing: it never crashes, never leads out of the tree and says nothing of what is
// outside the scope; what it leads to has the last name of the path, and what a
// directory lists can be found.
func FuzzPaths(f *testing.F) {
	s := servetest.New(f, nil)
	s.Publish("20261121", map[string][]*archive.Record{
		"www.waseda.ac.jp":      {servetest.Page(waseda, "home", dayOne)},
		"waseda.ac.jp":          {servetest.Page("http://waseda.ac.jp/", "home", dayOne)},
		"www.keio.ac.jp":        {servetest.Page("http://www.keio.ac.jp/", "secret", dayOne)},
		"www.waseda.ac.jp:8080": {servetest.Page("http://www.waseda.ac.jp:8080/", "port", dayOne)},
	})
	lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Accounts: s.Accounts, Widest: 1})
	if err != nil {
		f.Fatal(err)
	}
	account := &account.Account{Name: "waseda", Domains: []string{"waseda.ac.jp"}}
	for _, name := range []string{
		"/", "/README", "/LATEST", "/editions/20261121/MANIFEST", "/editions/20261121/00001/HOSTS", "/feed/LATEST", "/feed/000000",
		"/jp/ac/waseda/www/20261121.tar.gz", "/jp/ac/waseda/w+/www/20261121-20261122.wacz", "/jp/ac/keio/www/current.cdxj", "/jp/ac/waseda/www_8080/all.members.tar.gz",
		"/jp/../../etc/passwd", "//jp//ac/./waseda", "/jp/ac/+", "/jp/ac/waseda/w+/ww+/www+", "/jp\x00/ac", "/\xff\xfe", "/JP/AC", "/jp/ac/waseda/www/.tar.gz", "/_ip/[2001-db8--1]",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, err := lib.Tree.Stat(t.Context(), account, name)
		if err != nil {
			if !errors.Is(err, library.ErrNotFound) {
				t.Fatalf("%q: %v", name, err)
			}
			return
		}
		clean := path.Clean("/" + name)
		if strings.Contains(clean, "keio") {
			t.Fatalf("%q leads out of the scope", name)
		}
		if n.Name != path.Base(clean) {
			t.Fatalf("%q leads to %q", name, n.Name)
		}
		if n.Dir {
			for below, err := range lib.Tree.List(t.Context(), account, name) {
				if err != nil {
					t.Fatalf("%q lists %v", name, err)
				}
				if _, err := lib.Tree.Stat(t.Context(), account, path.Join(clean, below.Name)); err != nil {
					t.Fatalf("%q lists %q, which is not there: %v", name, below.Name, err)
				}
			}
			return
		}
		file, err := lib.Tree.Open(t.Context(), account, name)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		defer file.Close()
		r, err := file.OpenRange(t.Context(), 0, file.Size)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		defer r.Close()
		if got, err := io.Copy(io.Discard, r); err != nil || got != n.Size {
			t.Fatalf("%q: %d bytes of %d, %v", name, got, n.Size, err)
		}
	})
}
