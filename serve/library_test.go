package serve_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

var (
	dayOne   = time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	dayTwo   = dayOne.AddDate(0, 0, 1)
	everyone = &account.Account{Name: "all", Domains: []string{"*"}}
)

const waseda = "http://www.waseda.ac.jp/"

// twoDays publishes two editions of one host, and other hosts around it.
func twoDays(t *testing.T) *servetest.Site {
	s := servetest.New(t, nil)
	one := s.Publish("20261120", map[string][]*archive.Record{
		"www.waseda.ac.jp": {
			servetest.Page(waseda, "home, first", dayOne),
			servetest.Page(waseda+"same", "never changes", dayOne),
			servetest.Page(waseda+"gone", "soon gone", dayOne),
			servetest.Page(waseda+"ill", "server falls ill", dayOne),
		},
		"waseda.ac.jp":          {servetest.Page("http://waseda.ac.jp/", "short name", dayOne)},
		"www.waseda.ac.jp:8080": {servetest.Page("http://www.waseda.ac.jp:8080/", "port", dayOne)},
		"www.keio.ac.jp":        {servetest.Page("http://www.keio.ac.jp/", "keio", dayOne)},
		"example.jpx":           {servetest.Page("http://example.jpx/", "not japan", dayOne)},
		"192.0.2.7":             {servetest.Page("http://192.0.2.7/", "address", dayOne)},
	})
	two := s.Publish("20261121", map[string][]*archive.Record{
		"www.waseda.ac.jp": {
			servetest.Page(waseda, "home, second", dayTwo),
			servetest.Again(waseda+"same", "never changes", dayOne, dayTwo),
			servetest.Answer(waseda+"gone", 404, dayTwo),
			servetest.Answer(waseda+"ill", 500, dayTwo),
			servetest.Page(waseda+"new", "new page", dayTwo),
		},
	})
	if one != "20261120" || two != "20261121" {
		t.Fatalf("editions %s, %s", one, two)
	}
	return s
}

func names(t *testing.T, l *reading.Library, a *account.Account, path string) []string {
	t.Helper()
	var out []string
	for n, err := range l.Tree.List(t.Context(), a, path) {
		if err != nil {
			t.Fatal(err)
		}
		if n.Dir {
			n.Name += "/"
		}
		out = append(out, n.Name)
	}
	return out
}

func read(t *testing.T, l *reading.Library, a *account.Account, path string) []byte {
	t.Helper()
	f, err := l.Tree.Open(t.Context(), a, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return readFile(t, f)
}

func readFile(t *testing.T, f *library.File) []byte {
	t.Helper()
	return servetest.ReadFile(t, f)
}

// pages returns the bodies of the page files in a tar.gz.
func pages(t *testing.T, data []byte) []string {
	t.Helper()
	gz, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var bodies []string
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return bodies
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(h.Name, "/_meta/") {
			bodies = append(bodies, string(body))
		}
	}
}

func TestTree(t *testing.T) {
	s := twoDays(t)
	for path, want := range map[string]string{
		"/":                        "README LATEST days/ editions/ feed/ _ip/ jp/ jpx/",
		"/editions":                "20261120/ 20261121/",
		"/feed":                    "000000/ LATEST",
		"/editions/20261120":       "HOSTS MANIFEST SHA256SUMS ls-lR.gz",
		"/days/20261120":           "_ip/ jp/ jpx/",
		"/days/20261120/jp":        "00001.tar.gz 00001.warc.gz 00001.jsonl MANIFEST",
		"/jp/ac":                   "keio/ waseda/",
		"/jp/ac/waseda/":           "www/ www_8080/ 20261120.tar.gz 20261120.warc.gz current.tar.gz current.warc.gz all.tar.gz all.warc.gz MANIFEST SHA256SUMS",
		"/jp/ac/waseda/www":        "20261120.tar.gz 20261120.warc.gz 20261121.tar.gz 20261121.warc.gz current.tar.gz current.warc.gz all.tar.gz all.warc.gz MANIFEST SHA256SUMS",
		"/_ip":                     "192.0.2.7/",
		"/jp/../jp/ac/./waseda/..": "keio/ waseda/",
	} {
		if got := strings.Join(names(t, s.Library, everyone, path), " "); got != want {
			t.Errorf("%s holds\n%s, want\n%s", path, got, want)
		}
	}
	for _, path := range []string{
		"/us", "/feed/000001", "/feed/000000/000000000001-000000000010.ndjson.gz", "/feed/x", "/jp/ac/waseda/www/x", "/jp/ac/waseda/www/20261122.tar.gz", "/editions/20261122", "/days/20261122", "/days/2026112", "/days/20261120-2", "/editions/20261120/jp", "/editions/20261120/x",
		"/jp/ac/20261120.tar.gz", "/jp/MANIFEST", "/LATEST/x", "/jp/AC", "/jp/ac/waseda/www/20261120.zip",
	} {
		if n, err := s.Library.Tree.Stat(t.Context(), everyone, path); !errors.Is(err, library.ErrNotFound) {
			t.Errorf("%s: %+v, %v", path, n, err)
		}
	}
	if _, err := s.Library.Tree.Open(t.Context(), everyone, "/jp"); !errors.Is(err, library.ErrIsDirectory) {
		t.Errorf("a directory was opened: %v", err)
	}
}

// What is listed, what Stat says and what is read must be one and the same.
func TestFilesAreAsListed(t *testing.T) {
	s := twoDays(t)
	seen := 0
	var walk func(dir string)
	walk = func(dir string) {
		for n, err := range s.Library.Tree.List(t.Context(), everyone, dir) {
			if err != nil {
				t.Fatal(err)
			}
			path := strings.TrimSuffix(dir, "/") + "/" + n.Name
			if stat, err := s.Library.Tree.Stat(t.Context(), everyone, path); err != nil || stat != n {
				t.Errorf("%s: listed as %+v, Stat says %+v, %v", path, n, stat, err)
			}
			if n.Dir {
				walk(path)
				continue
			}
			seen++
			data := read(t, s.Library, everyone, path)
			if n.SHA256 != "" && n.SHA256 != servetest.SHA256(data) {
				t.Errorf("%s: SHA-256 is %s, listed as %s", path, servetest.SHA256(data), n.SHA256)
			}
			if strings.HasPrefix(n.Name, "2026") && n.SHA256 == "" {
				t.Errorf("%s: an edition's file without a digest", path)
			}
			if n.ETag == "" || n.Modified.IsZero() || n.Modified.Nanosecond() != 0 {
				t.Errorf("%s: %+v", path, n)
			}
		}
	}
	walk("/")
	if seen != 2+2*4+4*4+6*8+2+7+1 {
		t.Errorf("%d files", seen)
	}
}

func TestArchives(t *testing.T) {
	s := twoDays(t)
	for file, want := range map[string][]string{
		"20261120.tar.gz":         {"home, first", "never changes", "soon gone", "server falls ill"},
		"20261121.tar.gz":         {"home, second", "new page"},
		"current.tar.gz":          {"never changes", "server falls ill", "home, second", "new page"},
		"current.members.tar.gz":  {"never changes", "server falls ill", "home, second", "new page"},
		"all.tar.gz":              {"home, first", "never changes", "soon gone", "server falls ill", "home, second", "new page"},
		"20261121.members.tar.gz": {"home, second", "new page"},

		"20261120-20261121.tar.gz":         {"home, first", "never changes", "soon gone", "server falls ill", "home, second", "new page"},
		"20261121-20261231.tar.gz":         {"home, second", "new page"},
		"20000101-20261120.members.tar.gz": {"home, first", "never changes", "soon gone", "server falls ill"},
	} {
		if got := pages(t, read(t, s.Library, everyone, "/jp/ac/waseda/www/"+file)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	before := read(t, s.Library, everyone, "/jp/ac/waseda/www/all.members.tar.gz")
	s.Publish("20261122", map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page(waseda+"third", "third day", dayTwo.AddDate(0, 0, 1))}})
	after := read(t, s.Library, everyone, "/jp/ac/waseda/www/all.members.tar.gz")
	cells := len(before) - len(archive.EndMember(0, 0))
	if !bytes.HasPrefix(after, before[:cells]) {
		t.Error("all.members.tar.gz does not go on where it ended before")
	}
}

func TestSpansThatAreNone(t *testing.T) {
	s := twoDays(t)
	for _, base := range []string{"20261121-20261120", "20261122-20261231", "20261120-", "-20261121", "20261120-2", "20261320-20261321", "0-9"} {
		if _, err := s.Library.Tree.Open(t.Context(), everyone, "/jp/ac/waseda/www/"+base+".tar.gz"); !errors.Is(err, library.ErrNotFound) {
			t.Errorf("%s: %v", base, err)
		}
	}
}

// TestWACZ: the data is the archive's WARC view, and what is described is there.
func TestWACZ(t *testing.T) {
	s := twoDays(t)
	for _, base := range []string{"20261120", "20261121", "current", "all", "20261120-20261121"} {
		path := "/jp/ac/waseda/www/" + base
		wacz := read(t, s.Library, everyone, path+".wacz")
		z, err := zip.NewReader(bytes.NewReader(wacz), int64(len(wacz)))
		if err != nil {
			t.Fatal(err)
		}
		files := make(map[string][]byte)
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			if files[f.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(f.Name, err)
			}
		}
		if warc := read(t, s.Library, everyone, path+".warc.gz"); !bytes.Equal(files["archive/data.warc.gz"], warc) {
			t.Errorf("%s.wacz does not hold the .warc.gz", base)
		}
		var about struct{ Resources []struct{ Path, Hash string } }
		if err := json.Unmarshal(files["datapackage.json"], &about); err != nil {
			t.Fatal(err)
		}
		for _, r := range about.Resources {
			if r.Hash != "sha256:"+servetest.SHA256(files[r.Path]) {
				t.Errorf("%s.wacz: hash of %s is %q", base, r.Path, r.Hash)
			}
		}
		if len(about.Resources) != len(files)-1 {
			t.Errorf("%s.wacz: %d resources of %d files", base, len(about.Resources), len(files))
		}
	}
}

func TestCDXJ(t *testing.T) {
	s := twoDays(t)
	for _, base := range []string{"20261121", "all", "current"} {
		warc := read(t, s.Library, everyone, "/jp/ac/waseda/www/"+base+".warc.gz")
		index := string(read(t, s.Library, everyone, "/jp/ac/waseda/www/"+base+".cdxj"))
		lines := strings.Split(strings.TrimSuffix(index, "\n"), "\n")
		if !slices.IsSorted(lines) {
			t.Errorf("%s.cdxj is not sorted", base)
		}
		for _, line := range lines {
			_, object, _ := strings.Cut(line, " {")
			var fields struct{ URL, Offset, Length, Filename string }
			if err := json.Unmarshal([]byte("{"+object), &fields); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if want := "jp/ac/waseda/www/" + base + ".warc.gz"; fields.Filename != want {
				t.Errorf("filename %s, want %s", fields.Filename, want)
			}
			var off, n int64
			json.Unmarshal([]byte(fields.Offset), &off)
			json.Unmarshal([]byte(fields.Length), &n)
			gz, err := gzip.NewReader(bytes.NewReader(warc[off : off+n]))
			if err != nil {
				t.Fatalf("%s.cdxj: %s: %v", base, line, err)
			}
			record, err := io.ReadAll(gz)
			if err != nil || !strings.Contains(string(record), "WARC-Target-URI: "+fields.URL+"\r\n") {
				t.Errorf("%s.cdxj: %s points to %.200q, %v", base, line, record, err)
			}
		}
	}
}

func TestCurrent(t *testing.T) {
	const host, url = "example.jp", "http://example.jp/"
	goneAgain := func(at time.Time) *archive.Record {
		r := servetest.Answer(url, 404, at)
		r.Kind, r.Body, r.PayloadDigest, r.RefersTo, r.RefersDate = archive.Revisit, nil, servetest.Digest("404"), url, dayOne
		return r
	}
	day := func(n int) time.Time { return dayOne.AddDate(0, 0, n) }
	page := func(body string, n int) *archive.Record { return servetest.Page(url, body, day(n)) }
	cut := func(body, why string, hours int) *archive.Record {
		r := servetest.Page(url, body, day(0).Add(time.Duration(hours)*time.Hour))
		r.Truncated = why
		return r
	}
	const off = archive.TruncatedDisconnect
	for _, c := range []struct {
		name     string
		editions [][]*archive.Record
		want     []string
	}{
		{"newest", [][]*archive.Record{{page("a", 0)}, {page("b", 1)}}, []string{"b"}},
		{"late batch", [][]*archive.Record{{page("b", 1)}, {page("a", 0)}}, []string{"b"}},
		{"revisit", [][]*archive.Record{{page("a", 0)}, {servetest.Again(url, "a", day(0), day(1))}}, []string{"a"}},
		{"back to an older text", [][]*archive.Record{{page("a", 0)}, {page("b", 1)}, {servetest.Again(url, "a", day(0), day(2))}}, []string{"a"}},
		{"gone", [][]*archive.Record{{page("a", 0)}, {servetest.Answer(url, 410, day(1))}}, nil},
		{"moved", [][]*archive.Record{{page("a", 0)}, {servetest.Answer(url, 301, day(1))}}, nil},
		{"moved for now", [][]*archive.Record{{page("a", 0)}, {servetest.Answer(url, 302, day(1))}}, []string{"a"}},
		{"back again", [][]*archive.Record{{page("a", 0)}, {servetest.Answer(url, 404, day(1))}, {page("b", 2)}}, []string{"b"}},
		{"confirmed after gone", [][]*archive.Record{{page("a", 0)}, {servetest.Answer(url, 404, day(1))}, {servetest.Again(url, "a", day(0), day(2))}}, []string{"a"}},
		{"gone again", [][]*archive.Record{{servetest.Answer(url, 404, day(0))}, {page("a", 1)}, {goneAgain(day(2))}}, nil},
		{"gone as elsewhere", [][]*archive.Record{{page("a", 1)}, {goneAgain(day(2))}}, nil},
		{"back after it was gone again", [][]*archive.Record{{goneAgain(day(0))}, {page("a", 1)}}, []string{"a"}},
		{"asked twice in a second", [][]*archive.Record{{page("a", 0), servetest.Answer(url, 429, day(0)), servetest.Answer(url, 404, day(0).Add(time.Millisecond))}}, []string{"a"}},
		{"ill, then a late page", [][]*archive.Record{{servetest.Answer(url, 500, day(1))}, {page("a", 0)}}, []string{"a"}},
		{"never a page", [][]*archive.Record{{servetest.Answer(url, 500, day(1))}}, nil},
		{"broken off", [][]*archive.Record{{page("a", 0)}, {cut("b", off, 24)}}, []string{"a"}},
		{"too slow", [][]*archive.Record{{page("a", 0)}, {cut("b", archive.TruncatedTime, 24)}}, []string{"a"}},
		{"cut by a limit", [][]*archive.Record{{page("a", 0)}, {cut("b", archive.TruncatedLength, 24)}}, []string{"b"}},
		{"broken off from the first", [][]*archive.Record{{cut("a", off, 0)}, {cut("b", off, 24)}}, []string{"b"}},
		{"whole at last", [][]*archive.Record{{cut("a", off, 0)}, {page("b", 1)}, {cut("c", off, 48)}}, []string{"b"}},
		{"broken off in three nights", [][]*archive.Record{{page("a", 0)}, {cut("b", off, 24)}, {cut("c", off, 48)}, {cut("d", off, 72)}}, []string{"d"}},
		{"in four", [][]*archive.Record{{page("a", 0)}, {cut("b", off, 24)}, {cut("c", off, 48)}, {cut("d", off, 72)}, {cut("e", off, 96)}}, []string{"e"}},
		{"three times in two nights", [][]*archive.Record{{page("a", 0)}, {cut("b", off, 24), cut("c", off, 28)}, {cut("d", off, 48)}}, []string{"a"}},
		{"whole after two", [][]*archive.Record{{page("a", 0)}, {cut("b", off, 24)}, {cut("c", off, 48)},
			{servetest.Again(url, "a", day(0), day(3))}, {cut("d", off, 96)}, {cut("e", off, 120)}}, []string{"a"}},
		{"whole after three", [][]*archive.Record{{page("a", 0)}, {cut("b", off, 24)}, {cut("c", off, 48)}, {cut("d", off, 72)},
			{page("e", 4)}, {cut("f", off, 120)}}, []string{"e"}},
		{"gone after one", [][]*archive.Record{{page("a", 0)}, {cut("b", off, 24)}, {servetest.Answer(url, 404, day(2))}}, nil},
		{"broken off after gone", [][]*archive.Record{{page("a", 0)}, {servetest.Answer(url, 404, day(1))}, {cut("b", off, 48)}}, []string{"b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := servetest.New(t, nil)
			for i, captures := range c.editions {
				s.Publish(day(i).Format("20060102"), map[string][]*archive.Record{host: captures})
			}
			if got := pages(t, read(t, s.Library, everyone, "/jp/example/current.tar.gz")); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestScope(t *testing.T) {
	s := twoDays(t)
	for _, c := range []struct {
		domains        []string
		root, ac, host string
		hosts          string
	}{
		{[]string{"jp"}, "jp/", "keio/ waseda/", "www/ www_8080/", "www.keio.ac.jp waseda.ac.jp www.waseda.ac.jp www.waseda.ac.jp:8080"},
		{[]string{"waseda.ac.jp"}, "jp/", "waseda/", "www/ www_8080/", "waseda.ac.jp www.waseda.ac.jp www.waseda.ac.jp:8080"},
		{[]string{"www.waseda.ac.jp", "jpx"}, "jp/ jpx/", "waseda/", "www/ www_8080/", "www.waseda.ac.jp www.waseda.ac.jp:8080 example.jpx"},
		{[]string{"www.waseda.ac.jp:8080"}, "jp/", "waseda/", "www_8080/", "www.waseda.ac.jp:8080"},
		{[]string{"192.0.2.7"}, "_ip/", "", "", "192.0.2.7"},
		{[]string{"us"}, "", "", "", ""},
	} {
		a := &account.Account{Name: "a", Domains: c.domains}
		dirs := func(path string) string {
			if _, err := s.Library.Tree.Stat(t.Context(), a, path); errors.Is(err, library.ErrNotFound) {
				return ""
			}
			var out []string
			for _, n := range names(t, s.Library, a, path) {
				if strings.HasSuffix(n, "/") && n != "days/" && n != "editions/" && n != "feed/" {
					out = append(out, n)
				}
			}
			return strings.Join(out, " ")
		}
		for path, want := range map[string]string{"/": c.root, "/jp/ac": c.ac, "/jp/ac/waseda": c.host} {
			if got := dirs(path); got != want {
				t.Errorf("%v: %s holds %q, want %q", c.domains, path, got, want)
			}
		}
		hosts := strings.Fields(string(read(t, s.Library, a, "/editions/20261120/HOSTS")))
		if got := strings.Join(hosts, " "); got != c.hosts {
			t.Errorf("%v: edition has hosts %q, want %q", c.domains, got, c.hosts)
		}
		var listed []string
		for next := ""; ; {
			some, more, err := s.Library.Tree.Hosts(t.Context(), a, "", next, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range some {
				listed = append(listed, h.Host)
			}
			if next = more; next == "" {
				break
			}
		}
		if got := strings.Join(listed, " "); got != c.hosts {
			t.Errorf("%v: hosts %q, want %q", c.domains, got, c.hosts)
		}
	}
	outside := &account.Account{Name: "a", Domains: []string{"keio.ac.jp"}}
	for _, path := range []string{"/jp/ac/waseda", "/jp/ac/waseda/www/all.tar.gz", "/jp/ac/waseda/MANIFEST", "/_ip", "/jpx"} {
		if _, err := s.Library.Tree.Open(t.Context(), outside, path); !errors.Is(err, library.ErrNotFound) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTakeDown(t *testing.T) {
	s := twoDays(t)
	ctx := context.Background()
	whole, err := s.Library.Tree.Stat(ctx, everyone, "/jp/ac/waseda/www/20261120.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Catalog.Remove(ctx, catalog.Tombstone{Host: "www.waseda.ac.jp", URLPrefix: waseda + "same"}, catalog.Tombstone{Host: "www.keio.ac.jp"}); err != nil {
		t.Fatal(err)
	}
	got := pages(t, read(t, s.Library, everyone, "/jp/ac/waseda/www/20261120.tar.gz"))
	if want := []string{"home, first", "soon gone", "server falls ill"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	less, err := s.Library.Tree.Stat(ctx, everyone, "/jp/ac/waseda/www/20261120.tar.gz")
	if err != nil || less.ETag == whole.ETag || less.SHA256 != "" {
		t.Errorf("the file without the page is %+v, %v", less, err)
	}
	wantSums(t, s, "/jp/ac/waseda/www/", 4)
	wantSums(t, s, "/editions/20261120/", 2)
	for _, path := range []string{"/jp/ac/waseda/www/all.warc.gz", "/jp/ac/waseda/www/current.warc.gz", "/jp/ac/waseda/www/all.cdxj"} {
		if bytes.Contains(inflated(read(t, s.Library, everyone, path)), []byte(waseda+"same")) {
			t.Errorf("%s still has the page", path)
		}
	}
	if _, err := s.Library.Tree.Stat(ctx, everyone, "/jp/ac/keio"); !errors.Is(err, library.ErrNotFound) {
		t.Errorf("the host is still there: %v", err)
	}
}

// The links of the pages that remain are listed, and told of in MANIFEST and SHA256SUMS.
func TestTakeDownKeepsLinks(t *testing.T) {
	s := servetest.New(t, nil)
	page := func(name string) *archive.Record {
		r := servetest.Page(waseda+name, name, dayOne)
		r.Links = []archive.Link{{URL: waseda + "of-" + name, Kind: "a"}}
		return r
	}
	s.Publish("20261120", map[string][]*archive.Record{"www.waseda.ac.jp": {page("stays"), page("goes")}})
	s.Publish("20261121", map[string][]*archive.Record{"www.waseda.ac.jp": {page("other")}})
	const dir = "/jp/ac/waseda/www/"
	known, err := s.Library.Tree.Stat(t.Context(), everyone, dir+"20261121.links.gz")
	if err != nil || known.SHA256 == "" {
		t.Fatalf("%+v, %v", known, err)
	}
	if _, err := s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: "www.waseda.ac.jp", URLPrefix: waseda + "goes"}); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for n, err := range s.Library.Tree.List(t.Context(), everyone, dir) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(n.Name, ".links.gz") {
			listed = append(listed, n.Name)
		}
	}
	if want := []string{"20261120.links.gz", "20261121.links.gz", "all.links.gz"}; !slices.Equal(listed, want) {
		t.Errorf("listed: %q, want %q", listed, want)
	}
	if text := string(inflated(read(t, s.Library, everyone, dir+"20261120.links.gz"))); !strings.Contains(text, "of-stays") || strings.Contains(text, "of-goes") {
		t.Errorf("the links that remain: %s", text)
	}
	if now, err := s.Library.Tree.Stat(t.Context(), everyone, dir+"20261121.links.gz"); err != nil || now != known {
		t.Errorf("an edition that has nothing of what was taken down: %+v, %v, want %+v", now, err, known)
	}
	wantSums(t, s, dir, 6)
	wantSums(t, s, "/editions/20261120/", 3)
}

// wantSums compares a directory's SHA256SUMS and MANIFEST with the files that they name.
func wantSums(t *testing.T, s *servetest.Site, dir string, atLeast int) {
	t.Helper()
	sums := make(map[string]string)
	for line := range strings.Lines(string(read(t, s.Library, everyone, dir+"SHA256SUMS"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got := servetest.SHA256(read(t, s.Library, everyone, dir+name)); got != sum {
			t.Errorf("%s%s has SHA-256 %s, SHA256SUMS says %s", dir, name, got, sum)
		}
		sums[name] = sum
	}
	if len(sums) < atLeast {
		t.Errorf("%sSHA256SUMS names %d files, want %d at least", dir, len(sums), atLeast)
	}
	for line := range strings.Lines(string(read(t, s.Library, everyone, dir+"MANIFEST"))) {
		var m library.ManifestLine
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		data := read(t, s.Library, everyone, dir+m.Path)
		if int64(len(data)) != m.Size || m.Edition != "" && m.SHA256 != sums[m.Path] {
			t.Errorf("%s%s has %d bytes; MANIFEST says %d and SHA-256 %q, SHA256SUMS %q", dir, m.Path, len(data), m.Size, m.SHA256, sums[m.Path])
		}
		for _, of := range m.Segments {
			base, _, _ := library.CutForm(m.Path)
			if files := len(pages(t, read(t, s.Library, everyone, dir+base+".tar.gz"))); of.Files > int64(files) {
				t.Errorf("%s%s holds %d pages, MANIFEST counts %d", dir, m.Path, files, of.Files)
			}
		}
	}
}

func inflated(data []byte) []byte {
	gz, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return data
	}
	out, _ := io.ReadAll(gz)
	return out
}

func TestPublishKeepsOpenFiles(t *testing.T) {
	s := twoDays(t)
	f, err := s.Library.Tree.Open(t.Context(), everyone, "/jp/ac/waseda/www/current.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := readFile(t, f)
	s.Publish("20261122", map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page(waseda, "home, third", dayTwo.AddDate(0, 0, 1))}})
	if !bytes.Equal(readFile(t, f), before) {
		t.Error("an open file changed")
	}
	now, err := s.Library.Tree.Stat(t.Context(), everyone, "/jp/ac/waseda/www/current.tar.gz")
	if err != nil || now.ETag == f.ETag {
		t.Errorf("%+v, %v: the ETag is still %s", now, err, f.ETag)
	}
}
