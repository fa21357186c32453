package serve_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

// longOf reads an ls-lR.gz: the size of each path.
func longOf(t *testing.T, lib *reading.Library, account *account.Account, name string) map[string]int64 {
	t.Helper()
	f, err := lib.Tree.Open(t.Context(), account, name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := f.OpenRange(t.Context(), 0, f.Size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	files, dir := make(map[string]int64), ""
	in := bufio.NewScanner(z)
	for in.Scan() {
		line := in.Text()
		if place, ok := strings.CutSuffix(line, ":"); ok {
			dir = strings.TrimPrefix(place, ".")
			continue
		}
		if fields := strings.Fields(line); len(fields) == 9 {
			n, err := strconv.ParseInt(fields[4], 10, 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			files[path.Join(dir, fields[8])] = n
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return files
}

// walked finds the editions' files of the tree by listing it.
func walked(t *testing.T, lib *reading.Library, account *account.Account, dir string) map[string]int64 {
	t.Helper()
	files := make(map[string]int64)
	for n, err := range lib.Tree.List(t.Context(), account, dir) {
		if err != nil {
			t.Fatal(err)
		}
		name := path.Join(dir, n.Name)
		base, _, isArchive := library.CutForm(n.Name)
		switch {
		case n.Dir && name != "/days" && name != "/editions" && name != "/feed":
			for sub, size := range walked(t, lib, account, name) {
				files[sub] = size
			}
		case isArchive && base != "current" && base != "all":
			files[name] = n.Size
		}
	}
	return files
}

// The root's ls-lR.gz has every edition's files of the hosts that the account may see, under
// the paths that listings show, and follows publications and take-downs.
func TestLongListOfTheRoot(t *testing.T) {
	s := servetest.New(t, nil)
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	publish := func(day string, hosts ...string) {
		pages := make(map[string][]*archive.Record)
		for i, h := range hosts {
			pages[h] = []*archive.Record{servetest.Page("http://"+h+"/", strings.Repeat(day, i+1), at)}
		}
		s.Publish(day, pages)
	}
	publish("20261120", "www.waseda.ac.jp", "a.blog.jp", "b.blog.jp", "ba.blog.jp", "a.blog.jp:8080", "www.example.com")
	publish("20261121", "a.blog.jp", "www.waseda.ac.jp")
	lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Widest: 2})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, account *account.Account, want int) {
		t.Helper()
		got, walk := longOf(t, lib, account, "/ls-lR.gz"), walked(t, lib, account, "/")
		if len(got) != want {
			t.Errorf("%s: %d files, want %d", what, len(got), want)
		}
		if fmt.Sprint(got) != fmt.Sprint(walk) {
			t.Errorf("%s: the list has\n%v, the tree\n%v", what, got, walk)
		}
	}
	some := &account.Account{Name: "some", Domains: []string{"blog.jp", "com"}}
	check("everyone", everyone, 16)
	check("some", some, 12)
	publish("20261122", "b.blog.jp")
	check("after a publication", everyone, 18)
	if _, err := s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: "a.blog.jp"}); err != nil {
		t.Fatal(err)
	}
	check("after a take-down", everyone, 14)
	check("some, after a take-down", some, 10)

	f, err := lib.Tree.Open(t.Context(), everyone, "/ls-lR.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	whole := readRange(t, f, 0, f.Size)
	if got := readRange(t, f, 7, f.Size-9); got != whole[7:f.Size-2] {
		t.Error("a range is not that of the whole")
	}
	again, err := lib.Tree.Stat(t.Context(), everyone, "/ls-lR.gz")
	if err != nil || again.ETag != f.ETag || again.Size != f.Size {
		t.Errorf("the same version gives %+v, then %+v, %v", f.Node, again, err)
	}
}

func readRange(t *testing.T, f *library.File, off, n int64) string {
	t.Helper()
	r, err := f.OpenRange(t.Context(), off, n)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What the root's ls-lR.gz costs at 5,000 hosts or SHEAF_TEST_LEVEL: it is never held as a
// whole, and made once.
func TestLongListOfManyHosts(t *testing.T) {
	testkit.Slow(t)
	n := 5_000
	if text := os.Getenv("SHEAF_TEST_LEVEL"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	s := servetest.New(t, nil)
	hosts := crowd(t, s, n)
	lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	node, err := lib.Tree.Stat(t.Context(), everyone, "/ls-lR.gz")
	if err != nil {
		t.Fatal(err)
	}
	made := time.Since(start)
	runtime.GC()
	runtime.ReadMemStats(&after)
	start = time.Now()
	if _, err := lib.Tree.Stat(t.Context(), everyone, "/ls-lR.gz"); err != nil {
		t.Fatal(err)
	}
	held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d hosts: %d bytes, made in %v, found again in %v, %d bytes of memory held", len(hosts), node.Size, made, time.Since(start), held)
	if held > 64<<20 { // of a million hosts 45 MB, of which most is the catalog's and the cache's of what was asked last
		t.Errorf("%d bytes are held in memory", held)
	}
	if got := longOf(t, lib, everyone, "/ls-lR.gz"); len(got) != 2*len(hosts) {
		t.Errorf("%d files, want %d", len(got), 2*len(hosts))
	}
}
