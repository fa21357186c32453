package serve_test

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

// crowd publishes n hosts below blog.ne.jp, and few elsewhere, of which only the
// catalog knows. It returns the hosts' names, sorted.
func crowd(t testing.TB, s *servetest.Site, n int) []string {
	t.Helper()
	hosts := []string{"www.example.jp", "www.waseda.ac.jp"}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		name := []byte(strconv.FormatUint(r.Uint64()>>20, 36))
		if i%5 == 0 {
			name = append([]byte("xn--"), name...)
		}
		hosts = append(hosts, string(name)+".blog.ne.jp")
	}
	hosts = append(hosts, "a.blog.ne.jp", "a.blog.ne.jp:8080", "aa.blog.ne.jp", "www.aa.blog.ne.jp", "a-.blog.ne.jp")
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	sum := strings.Repeat("0f", 32)
	b := catalog.Batch{ID: "r1-20261121T000000Z-1", SHA256: sum}
	_, err := s.Catalog.Publish(t.Context(), catalog.Publication{Day: "20261121", Batches: []catalog.Batch{b}, Entries: func(yield func(catalog.SegmentEntry, error) bool) {
		for i, host := range hosts {
			l := catalog.SegmentEntry{
				Host: host, Object: "segments/" + naming.HostPath(host), Length: 20_000, IndexOffset: 18_000, IndexLength: 1800,
				First: dayOne, Last: dayOne, Records: 3, Files: 2, SHA256: sum, Origin: catalog.Origin{Batch: b.ID, BatchSHA256: sum, Robot: "r1"}, Views: map[string]catalog.View{},
			}
			for _, kind := range []archive.ViewKind{archive.Single, archive.WARC, archive.Members} {
				sum := sha256.Sum256(fmt.Append(nil, i, kind))
				l.Views[string(kind)] = catalog.View{Size: int64(20_000 + i), SHA256: hex.EncodeToString(sum[:]), ETag: fmt.Sprintf(`"%x"`, sum[:16])}
			}
			if !yield(l, nil) {
				return
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

// A level of very many hosts is fanned out: no directory lists more than its share,
// each host is found once, by the fan and by its plain path, and the first entry
// comes before the level has been read. SHEAF_TEST_LEVEL=1000000 makes it of a million hosts (a
// minute or two).
func TestWideLevelsFanOut(t *testing.T) {
	testkit.Slow(t)
	n, widest := testkit.Size(1_000, 5_000), 200
	if text := os.Getenv("SHEAF_TEST_LEVEL"); text != "" {
		n, _ = strconv.Atoi(text)
		widest = 10_000 // the default
	}
	s := servetest.New(t, nil)
	hosts := crowd(t, s, n)
	lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Widest: widest})
	if err != nil {
		t.Fatal(err)
	}
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const level = "/jp/ne/blog"
	start := time.Now()
	for n, err := range lib.Tree.List(t.Context(), everyone, level) {
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d hosts: first entry, %s, after %v", len(hosts), n.Name, time.Since(start))
		break
	}
	var found []string
	directories, most := 0, 0
	var walk func(dir, letters string)
	walk = func(dir, letters string) {
		directories++
		entries, fans := 0, []string(nil)
		for n, err := range lib.Tree.List(t.Context(), everyone, dir) {
			if err != nil {
				t.Fatalf("%s: %v", dir, err)
			}
			entries++
			begin, isFan := strings.CutSuffix(n.Name, "+")
			switch {
			case !n.Dir || n.Name == "www":
			case !strings.HasPrefix(n.Name, letters):
				t.Errorf("%s lists %s", dir, n.Name)
			case isFan:
				fans = append(fans, begin)
			default:
				found = append(found, strings.TrimPrefix(path.Join(level, n.Name), "/"))
			}
		}
		most = max(most, entries)
		if widest < entries && letters != "" {
			t.Errorf("%s lists %d entries", dir, entries)
		}
		for _, f := range fans {
			walk(dir+"/"+f+"+", f)
		}
	}
	walk(level, "")
	runtime.GC()
	runtime.ReadMemStats(&during)
	t.Logf("%d directories, the longest of %d entries; %v; the heap grew by %d KiB", directories, most, time.Since(start), (int64(during.HeapAlloc)-int64(before.HeapAlloc))>>10)
	var want []string
	for _, h := range hosts {
		if place := naming.HostPath(h); strings.HasPrefix(place, "jp/ne/blog/") && !strings.HasSuffix(place, "/www") {
			want = append(want, place)
		}
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("%d hosts are listed, want %d", len(found), len(want))
	}

	for _, name := range []string{level + "/a/20261121.tar.gz", level + "/a+/a/20261121.tar.gz", level + "/a+/aa+/aa/www/20261121.warc.gz", level + "/aa+/aa/20261121.tar.gz"} {
		if _, err := lib.Tree.Stat(t.Context(), everyone, name); err != nil {
			t.Errorf("%v", err)
		}
	}
	for _, name := range []string{
		level + "/+", level + "/b+/a", level + "/a+/a+", level + "/aa+/a+", level + "/a+/20261121.tar.gz", level + "/a+/a/b+", level + "/a+/MANIFEST",
		"/jp/ne/b+/current.tar.gz", "/R+/README", "/e+/editions", "/editions/2+/20261121", level + "/zzzzzzzzzzzzzzz+", level + "/a+/b",
	} {
		if node, err := lib.Tree.Stat(t.Context(), everyone, name); !strings.Contains(fmt.Sprint(err), library.ErrNotFound.Error()) {
			t.Errorf("%s: %+v, %v", name, node, err)
		}
	}
	// Who may see one host of the level is led to it, and shown no fan.
	for n, err := range lib.Tree.List(t.Context(), &account.Account{Name: "aa", Domains: []string{"aa.blog.ne.jp"}}, level) {
		if err != nil || n.Name != "aa" {
			t.Errorf("%+v, %v", n, err)
		}
	}
}

// The texts of a large edition come in shards, which together name each host once;
// the paths in them are those that the listings have.
func TestLargeEditionsAreSharded(t *testing.T) {
	s := servetest.New(t, nil)
	hosts := crowd(t, s, 700)
	lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Widest: 100})
	if err != nil {
		t.Fatal(err)
	}
	read := func(a *account.Account, name string) []string {
		t.Helper()
		f, err := lib.Tree.Open(t.Context(), a, name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := f.OpenRange(t.Context(), 0, f.Size)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var lines []string
		in := bufio.NewScanner(io.LimitReader(r, f.Size))
		for in.Scan() {
			lines = append(lines, in.Text())
		}
		return lines
	}
	var named, summed []string
	for n, err := range lib.Tree.List(t.Context(), everyone, "/editions/20261121") {
		if err != nil || !n.Dir {
			t.Fatalf("%+v, %v", n, err)
		}
		dir := "/editions/20261121/" + n.Name
		some := read(everyone, dir+"/HOSTS")
		if len(some) > 100 {
			t.Errorf("%s has %d hosts", n.Name, len(some))
		}
		named = append(named, some...)
		for _, line := range read(everyone, dir+"/SHA256SUMS") {
			sum, name, _ := strings.Cut(line, "  ")
			node, err := lib.Tree.Stat(t.Context(), everyone, path.Join(dir, name))
			if err != nil || node.SHA256 != sum {
				t.Fatalf("%s: %+v, %v", line, node, err)
			}
			summed = append(summed, path.Join(dir, name))
		}
	}
	slices.Sort(named)
	if !slices.Equal(named, hosts) || len(summed) != 2*len(hosts) {
		t.Errorf("%d hosts and %d digests in the shards, of %d hosts", len(named), len(summed), len(hosts))
	}
	if !slices.ContainsFunc(summed, func(p string) bool { return strings.HasPrefix(p, "/jp/ne/blog/x+/xn+/xn-+/xn--+/") }) {
		t.Error("the digests' paths do not lead through the fan")
	}
	f, err := lib.Tree.Open(t.Context(), everyone, "/editions/20261121/00001/ls-lR.gz")
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
	text, err := io.ReadAll(z)
	node, statErr := lib.Tree.Stat(t.Context(), everyone, "/jp/ac/waseda/www/20261121.tar.gz")
	line := fmt.Sprintf("./jp/ac/waseda/www:\ntotal 0\n-r--r--r--   1 ftp      ftp      %12d %s 20261121.tar.gz\n", node.Size, node.Modified.Format("Jan _2  2006"))
	if err := errors.Join(err, statErr); err != nil || !strings.Contains(string(text), line) {
		t.Errorf("%v; %.300s", err, text)
	}
	if whole := read(everyone, "/editions/20261121/HOSTS"); len(whole) != len(hosts) {
		t.Errorf("the whole HOSTS names %d", len(whole))
	}
	few := &account.Account{Name: "few", Domains: []string{"ac.jp", "a.blog.ne.jp", "aa.blog.ne.jp"}}
	if got := read(few, "/editions/20261121/HOSTS"); !slices.Equal(got, []string{"www.waseda.ac.jp", "a.blog.ne.jp", "a.blog.ne.jp:8080", "aa.blog.ne.jp", "www.aa.blog.ne.jp"}) {
		t.Errorf("a scope's hosts: %q", got)
	}
	for _, name := range []string{"00000", "00099", "1", "00001/README", "00001/HOSTS/x", "000001/HOSTS"} {
		if node, err := lib.Tree.Stat(t.Context(), everyone, "/editions/20261121/"+name); err == nil {
			t.Errorf("%s: %+v", name, node)
		}
	}
}
