package serve_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/servetest"
)

// beside is what an import left of records about these URLs.
func beside(urls ...string) string {
	var b bytes.Buffer
	for _, u := range urls {
		z := gzip.NewWriter(&b)
		target := ""
		if u != "" {
			target = "WARC-Target-URI: <" + u + ">\r\n"
		}
		fmt.Fprintf(z, "WARC/1.0\r\nWARC-Type: request\r\n%sContent-Length: 5\r\n\r\nab\r\nc\r\n\r\n", target)
		z.Close()
	}
	return b.String()
}

// What lies beside the batches of an edition is a file of the host, of all batches, in ranges too;
// for who may see the host, and without what is taken down.
func TestOthers(t *testing.T) {
	const host, keio = "www.waseda.ac.jp", "www.keio.ac.jp"
	s := servetest.New(t, nil)
	alice, bob := s.Account("alice", "always", "*"), s.Account("bob", "always", "keio.ac.jp")
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	pages := map[string][]*archive.Record{
		host: {servetest.Page("http://"+host+"/", "home", at)}, keio: {servetest.Page("http://"+keio+"/", "keio", at)},
	}
	u := func(path string) string { return "http://" + host + path }
	first, second := beside(u("/a"), "http://user@"+host+"./a", "urn:text:"+u("/a"), "urn:uuid:1", "", u("/b/c"), "urn:text:"+u("/b/c"), "dns:"+host), beside(u("/a"), u("/d"))
	s.Others = map[string]string{"": "records of no host", host: first, keio: beside("http://" + keio + "/")}
	s.Publish("20261120", pages)
	s.Others = map[string]string{host: second}
	s.Publish("20261121", pages, map[string][]*archive.Record{host: {servetest.Page(u("/e"), "e", at)}})
	s.Others = nil
	s.Publish("20261122", pages)

	read := func(a *account.Account, name string, off, n int64) (string, library.Node, error) {
		f, err := s.Library.Tree.Open(t.Context(), a, name)
		if err != nil {
			return "", library.Node{}, err
		}
		defer f.Close()
		if n < 0 {
			n = f.Size - off
		}
		r, err := f.OpenRange(t.Context(), off, n)
		if err != nil {
			return "", library.Node{}, err
		}
		defer r.Close()
		data, err := io.ReadAll(r)
		return string(data), f.Node, err
	}
	const dir = "/jp/ac/waseda/www/"
	tags := make(map[string]bool)
	for name, want := range map[string]string{
		"20261120.others.warc.gz": first, "20261121.others.warc.gz": second + second, "20261120-20261122.others.warc.gz": first + second + second,
		"all.others.warc.gz": first + second + second,
	} {
		got, node, err := read(alice, dir+name, 0, -1)
		if err != nil || got != want || node.Size != int64(len(want)) || node.SHA256 != "" && node.SHA256 != servetest.SHA256([]byte(want)) {
			t.Errorf("%s: %d bytes, want %d; %+v %v", name, len(got), len(want), node, err)
		}
		tags[node.ETag] = true
		for _, r := range [][2]int64{{0, 1}, {int64(len(want)) - 1, 1}, {int64(len(first)) - 3, 6}, {5, int64(len(want)) - 9}, {0, 0}} {
			r[0] = min(r[0], int64(len(want)))
			r[1] = min(r[1], int64(len(want))-r[0])
			if got, _, err := read(alice, dir+name, r[0], r[1]); err != nil || got != want[r[0]:r[0]+r[1]] {
				t.Errorf("%s: %d bytes at %d: %d bytes, %v", name, r[1], r[0], len(got), err)
			}
		}
	}
	if len(tags) != 3 { // a span of all editions is all
		t.Errorf("tags %v", tags)
	}
	for _, missing := range []string{"20261122.others.warc.gz", "current.others.warc.gz", "20991231.others.warc.gz"} {
		if _, _, err := read(alice, dir+missing, 0, -1); !errors.Is(err, library.ErrNotFound) {
			t.Errorf("%s: %v", missing, err)
		}
	}
	if _, _, err := read(bob, dir+"all.others.warc.gz", 0, -1); !errors.Is(err, library.ErrNotFound) {
		t.Errorf("another account: %v", err)
	}
	if got, _, err := read(bob, "/jp/ac/keio/www/all.others.warc.gz", 0, -1); err != nil || got != beside("http://"+keio+"/") {
		t.Errorf("its own host: %d bytes, %v", len(got), err)
	}
	listed := func() (names []string) {
		for n, err := range s.Library.Tree.List(t.Context(), alice, dir) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(n.Name, "others") {
				names = append(names, n.Name)
			}
		}
		return names
	}
	if got := fmt.Sprint(listed()); got != "[20261120.others.warc.gz 20261121.others.warc.gz all.others.warc.gz]" {
		t.Errorf("listed: %s", got)
	}
	manifest, _, err := read(alice, dir+"MANIFEST", 0, -1)
	if err != nil || !strings.Contains(manifest, `"path":"20261120.others.warc.gz"`) {
		t.Errorf("%v\n%s", err, manifest)
	}

	// One edition's page is taken down: its records go there and stay elsewhere, and with it goes
	// what may tell of it.
	if _, err := s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: host, Edition: "20261120", URLPrefix: u("/a")}); err != nil {
		t.Fatal(err)
	}
	inflated := func(packed string) string {
		z, err := gzip.NewReader(strings.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	left := beside(u("/b/c"), "urn:text:"+u("/b/c"), "dns:"+host)
	for name, want := range map[string]string{"20261120": left, "20261121": second + second, "all": left + second + second} {
		got, _, err := read(alice, dir+name+".others.warc.gz", 0, -1)
		if err != nil || inflated(got) != inflated(want) {
			t.Errorf("%s after the take-down: %v\n%s", name, err, inflated(got))
		}
	}
}
