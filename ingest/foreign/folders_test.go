package foreign

import (
	"archive/tar"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/wire"
)

// A robot of 1999 packed the directory that its hosts' directories lay in. It may have put the map
// of their hashed names beside them, before or behind the pages.
func TestTreeInDirectory(t *testing.T) {
	const one, two = "<html>one", "<html>two"
	want := map[string]string{"http://www.x.jp/": one, "http://www.y.jp:8080/a/b.html": two}
	named := []string{"html/", "html/www.x.jp/index.html", "html/www.y.jp_8080/a/b.html"}
	const lines = "# of this night\n1f3a9c www.x.jp\n9b/20d1e7 www.y.jp:8080\n"
	for name, c := range map[string]struct {
		names []string
		lines string
		hosts HostMap
	}{
		"hosts' names":                      {named, "", nil},
		"below the tar's own directory":     {[]string{"./", "./html/", "./html/www.x.jp/index.html", "./html/www.y.jp_8080/a/b.html"}, "", nil},
		"any name":                          {[]string{"19990301/www.x.jp/index.html", "19990301/www.y.jp:8080/a/b.html"}, "", nil},
		"hash digits below it":              {[]string{"html/1f/www.x.jp/index.html", "html/9b/www.y.jp_8080/a/b.html"}, "", nil},
		"a map of the operator":             {[]string{"html/1f3a9c/index.html", "html/9b/20d1e7/a/b.html"}, "", HostMap{"1f3a9c": "www.x.jp", "9b/20d1e7": "www.y.jp:8080"}},
		"a map in the tar":                  {[]string{"hosts.txt", "1f3a9c/index.html", "9b/20d1e7/a/b.html"}, lines, nil},
		"a map behind the pages":            {[]string{"./1f3a9c/index.html", "./9b/20d1e7/a/b.html", "./map"}, lines, nil},
		"a map in the directory":            {[]string{"html/1f3a9c/index.html", "html/9b/20d1e7/a/b.html", "html/hosts"}, lines, nil},
		"a map beside the directory":        {[]string{"html/1f3a9c/index.html", "html/9b/20d1e7/a/b.html", "hosts"}, lines, nil},
		"a map with the directory":          {[]string{"hosts", "html/1f3a9c/index.html", "html/9b/20d1e7/a/b.html"}, strings.ReplaceAll(strings.ReplaceAll(lines, "1f3a9c", "html/1f3a9c/"), "9b", "./html/9b"), nil},
		"a map, and the operator's for one": {[]string{"hosts", "html/1f3a9c/index.html", "html/9b/20d1e7/a/b.html"}, strings.Replace(lines, "www.y.jp", "www.wrong.jp", 1), HostMap{"9b/20d1e7": "www.y.jp:8080"}},
		"a map of one, a name of the other": {[]string{"html/hosts", "html/1f3a9c/index.html", "html/www.y.jp_8080/a/b.html"}, "1f3a9c www.x.jp\n", nil},
	} {
		files := map[string]string{}
		for _, n := range c.names {
			switch {
			case strings.HasSuffix(n, "/index.html"):
				files[n] = one
			case strings.HasSuffix(n, "/b.html"):
				files[n] = two
			default:
				files[n] = c.lines
			}
		}
		got, err := convert(t, tree(t, tar.FormatGNU, files, c.names...), c.hosts)
		if err != nil || !maps.Equal(got.pages, want) {
			t.Errorf("%s: %v, %v", name, err, got)
		}
	}
}

// A page is never taken for a host map, nor a host's directory for one that the hosts lie in.
func TestPagesLikeHostMaps(t *testing.T) {
	const line = "1f3a9c www.other.jp\n"
	var manyPages, manyURLs []string
	for n := range maxMaps + 1 {
		page := fmt.Sprintf("www.x.jp/%02d", n)
		manyPages, manyURLs = append(manyPages, page), append(manyURLs, "http://"+page)
	}
	for name, c := range map[string]struct {
		names []string
		hosts HostMap
		want  []string
	}{
		"in a host's directory":        {[]string{"www.x.jp/hosts.txt", "www.x.jp/www.y.jp/hosts"}, nil, []string{"http://www.x.jp/hosts.txt", "http://www.x.jp/www.y.jp/hosts"}},
		"in a host's, in the leading":  {[]string{"html/www.x.jp/hosts", "html/www.x.jp/1f3a9c/hosts"}, nil, []string{"http://www.x.jp/1f3a9c/hosts", "http://www.x.jp/hosts"}},
		"many in a host's directory":   {manyPages, nil, manyURLs},
		"below it, in the map":         {[]string{"www.x.jp/docs/a.html"}, HostMap{"docs": "www.other.jp"}, []string{"http://www.x.jp/docs/a.html"}},
		"in a directory of the map":    {[]string{"77aa00/hosts", "77aa00/1f3a9c/a"}, HostMap{"77aa00": "www.x.jp"}, []string{"http://www.x.jp/1f3a9c/a", "http://www.x.jp/hosts"}},
		"in one of the map in the tar": {[]string{"1f3a9c/a", "1f3a9c/b/c", "map"}, nil, []string{"http://www.other.jp/a", "http://www.other.jp/b/c"}},
	} {
		files := map[string]string{}
		for _, n := range c.names {
			files[n] = line
		}
		got, err := convert(t, tree(t, tar.FormatUSTAR, files, c.names...), c.hosts)
		if err != nil || !slices.Equal(slices.Sorted(maps.Keys(got.pages)), c.want) {
			t.Errorf("%s: %v, %v, want %q", name, err, got, c.want)
		}
	}
}

// What no host can be told of is refused, and the reason names the file.
func TestTreeOfNoHosts(t *testing.T) {
	var manyMaps []string
	for n := range maxMaps + 1 {
		manyMaps = append(manyMaps, fmt.Sprintf("hosts%d", n))
	}
	for name, c := range map[string]struct {
		names []string
		text  string
		says  []string
	}{
		"an empty file beside the hosts":    {[]string{"html/www.x.jp/a", "html/index.html"}, "", []string{"html/index.html", "names no directory"}},
		"comments beside the directory":     {[]string{"html/www.x.jp/a", "README"}, "# Read this first\n", []string{"README", "names no directory"}},
		"more maps than are read":           {append([]string{"1f3a9c/a"}, manyMaps...), "1f3a9c www.x.jp\n", []string{manyMaps[maxMaps], "the limit of 16 host maps"}},
		"two directories that hosts lie in": {[]string{"html/www.x.jp/a", "text/www.y.jp/a"}, "", []string{"html/www.x.jp/a", "the same for all"}},
		"two levels of them":                {[]string{"prs/html/www.x.jp/a"}, "", []string{"prs/html/www.x.jp/a", "host map"}},
		"one of no host":                    {[]string{"html/www.x.jp/a", "html/b/a"}, "", []string{"html/b/a", "host map"}},
		"a page beside the hosts":           {[]string{"html/www.x.jp/a", "html/README"}, "Read this first", []string{"html/README", "host map, line 1"}},
		"a page beside the directory":       {[]string{"html/www.x.jp/a", "README"}, "Read this first", []string{"README", "host map, line 1"}},
		"a map that contradicts itself":     {[]string{"1f3a9c/a", "hosts"}, "1f3a9c www.x.jp\n1f3a9c www.y.jp\n", []string{"hosts", "line 2: 1f3a9c is www.y.jp and was www.x.jp"}},
		"a map that lacks a directory":      {[]string{"html/hosts", "html/1f3a9c/a", "html/77aa00/a"}, "1f3a9c www.x.jp\n", []string{"html/77aa00/a", "host map"}},
		"a map alone":                       {[]string{"hosts"}, "1f3a9c www.x.jp\n", []string{"none is about a page"}},
	} {
		files := map[string]string{}
		for _, n := range c.names {
			files[n] = c.text
		}
		_, err := convert(t, tree(t, tar.FormatGNU, files, c.names...), nil)
		var fault *Error
		if !errors.As(err, &fault) || fault.Reason != wire.ReasonForeign {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(fault.Error(), says) {
				t.Errorf("%s: %v, want …%s…", name, fault, says)
			}
		}
	}
	many := strings.Repeat("# a map of so many bytes is none\n", maxTreeMaps/30)
	_, err := convert(t, tree(t, tar.FormatGNU, map[string]string{"hosts": many, "1f3a9c/a": "a"}, "hosts", "1f3a9c/a"), nil)
	if fault := (*Error)(nil); !errors.As(err, &fault) || !strings.Contains(fault.Msg, "bytes together") {
		t.Errorf("%v, want that its host map is too long", err)
	}
}
