package naming

import (
	"net/netip"
	"strings"
	"testing"
)

func TestFileNames(t *testing.T) {
	for path, want := range map[string]string{ // a trailing ~ stands for a mark with the URL's hash
		"/":                             "index.html",
		"/index.html":                   "index~.html",
		"/a.html":                       "a.html",
		"/docs/":                        "docs/index.html",
		"/docs/2.4/x.html":              "docs/2.4/x.html",
		"/~ueda/":                       "~ueda/index.html",
		"/a":                            "a~",
		"/a/b":                          "a/b~",
		"/A.html":                       "A~.html",
		"/Dir/a.html":                   "Dir/a~.html",
		"/a.html?q=1":                   "a~.html",
		"/a.html?":                      "a~.html",
		"/../../etc/passwd":             "_/_/etc/passwd~",
		"/..":                           "_~",
		"//a.html":                      "_/a~.html",
		"/con.html":                     "_con~.html",
		"/aux/x.html":                   "_aux/x~.html",
		"/x.html/y.html":                "x.html_/y~.html",
		"/a~b/y.html":                   "a_b/y~.html",
		"/_meta/x.html":                 "_meta_/x~.html",
		"/%00.html":                     "_00~.html",
		"/a:b.html":                     "a_b~.html",
		"/end./x.html":                  "end._/x~.html",
		"/.htaccess":                    ".htaccess~",
		"/x.tar.gz":                     "x.tar.gz",
		"/" + strings.Repeat("x/", 200): "_long/index~.html",
	} {
		url := "http://h.test" + path
		got := strings.Replace(FileName("h.test", url), "~"+shortHash(url), "~", 1)
		if got != "h.test/"+want {
			t.Errorf("%s is %q, want %q", path, got, "h.test/"+want)
		}
	}
	if http, https := FileName("h.test", "http://h.test/a.html"), FileName("h.test", "https://h.test/a.html"); http == https {
		t.Errorf("http and https share %s", http)
	}
}

// FuzzFileName checks two URLs at once: their names are harmless and do not get into each other's
// way.
func FuzzFileName(f *testing.F) {
	f.Add("a", "a/b")
	f.Add("Index.HTML", "index.html")
	f.Add("x?y", "x~y")
	f.Add("_meta/a.cdxj", "nul.txt")
	f.Add("a.b/c.d", "a.b")
	f.Fuzz(func(t *testing.T, a, b string) {
		urls := []string{"http://h.test/" + a, "http://h.test/" + b}
		var names [2]string
		for i, url := range urls {
			if _, err := HostOf(url); err != nil {
				t.Skip()
			}
			names[i] = FileName("h.test", url)
			if Escapes(names[i]) || len(names[i]) > 255 || !strings.HasPrefix(names[i], "h.test/") || strings.HasPrefix(names[i], "h.test/_meta/") {
				t.Errorf("%q has the name %q", url, names[i])
			}
			for part := range strings.SplitSeq(names[i], "/") {
				if windowsReserved(part) || strings.HasSuffix(part, ".") || len(part) > maxNamePart+30 || strings.ContainsAny(part, `<>:"|?*\`) {
					t.Errorf("%q: part %q of its name", url, part)
				}
			}
		}
		x, y := strings.ToLower(names[0]), strings.ToLower(names[1])
		if urls[0] != urls[1] && (x == y || strings.HasPrefix(x, y+"/") || strings.HasPrefix(y, x+"/")) {
			t.Errorf("%q and %q clash: %q, %q", urls[0], urls[1], names[0], names[1])
		}
	})
}

func TestHosts(t *testing.T) {
	for host, want := range map[string][3]string{ // directory, path, sort key
		"www.waseda.ac.jp":      {"www.waseda.ac.jp", "jp/ac/waseda/www", "jp,ac,waseda,www"},
		"www.waseda.ac.jp:8080": {"www.waseda.ac.jp_8080", "jp/ac/waseda/www_8080", "jp,ac,waseda,www:8080"},
		"localhost":             {"localhost", "localhost", "localhost"},
		"192.0.2.1":             {"192.0.2.1", "_ip/192.0.2.1", "192.0.2.1"},
		"192.0.2.1:81":          {"192.0.2.1_81", "_ip/192.0.2.1_81", "192.0.2.1:81"},
		"[2001:db8::1]:81":      {"[2001-db8--1]_81", "_ip/[2001-db8--1]_81", "[2001:db8::1]:81"},
		"[2001:db8::1]":         {"[2001-db8--1]", "_ip/[2001-db8--1]", "[2001:db8::1]"},
		"x_80.test":             {"x_80.test", "test/x_80_", "test,x_80"},
		"test.x_80":             {"test.x_80_", "x_80/test", "x_80,test"},
		"xn--wgv71a119e.jp":     {"xn--wgv71a119e.jp", "jp/xn--wgv71a119e", "jp,xn--wgv71a119e"},
		"_batch":                {"_batch_", "_batch_", "_batch"},
		"a_.b_":                 {"a_.b__", "b_/a__", "b_,a_"},
	} {
		if err := CheckHost(host); err != nil {
			t.Error(err)
		}
		if got := [3]string{HostDir(host), HostPath(host), HostSURT(host)}; got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
		if got, err := HostFromPath(want[1]); err != nil || got != host {
			t.Errorf("path %s is host %q, %v; want %s", want[1], got, err, host)
		}
		if got, segment, ok := ParseMetaName(IndexName(host, "s"), ".cdxj"); got != host || segment != "s" || !ok {
			t.Errorf("index name of %s is read as %q", host, got)
		}
	}
	for _, bad := range []string{"", "a..b", "A.jp", "a/b", "..", "a:", "a:b", "a:123456", "[::1", "[::1%eth0]", "[0:0:0:0:0:0:0:1]", "a\\b", "a b"} {
		if CheckHost(bad) == nil {
			t.Errorf("%q was accepted as a host", bad)
		}
	}
	for _, bad := range []string{"", "/", "jp//a", "../x", "_ip/a.b", "JP", "jp/a_8080_"} {
		if host, err := HostFromPath(bad); err == nil && HostPath(host) != bad {
			t.Errorf("path %q was read as %q", bad, host)
		}
	}
}

func TestSURT(t *testing.T) {
	for url, want := range map[string]string{
		"http://www.Waseda.ac.jp/Path/A.html?b=2&a=1":                       "jp,ac,waseda)/path/a.html?a=1&b=2",
		"http://www2.x.jp:8080/":                                            "jp,x:8080)/",
		"https://www.x.jp:443/a?":                                           "jp,x)/a",
		"http://x.jp/a/":                                                    "jp,x)/a",
		"http://x.jp/a//b/../c":                                             "jp,x)/a/c",
		"http://192.0.2.1/":                                                 "192.0.2.1)/",
		"http://x.jp/%7Euser/%E3%81%82":                                     "jp,x)/~user/%e3%81%82",
		"http://x.jp/a;jsessionid=0123456789abcdef0123456789abcdef":         "jp,x)/a",
		"http://x.jp/p?PHPSESSID=0123456789abcdef0123456789abcdef&x=1#here": "jp,x)/p?x=1",
		"http://wwwx.jp/":                                                   "jp,wwwx)/",
	} {
		if got := SURT(url); got != want {
			t.Errorf("%s has key %q, want %q", url, got, want)
		}
	}
}

// FuzzHosts reads hosts out of URLs and paths: names that are accepted go there and back.
func FuzzHosts(f *testing.F) {
	for _, s := range []string{"http://www.site.test:8080/a?b", "https://[2001:db8::1]:81/", "http://x_80/", "http://_batch/%E3%81%82", "HTTP://con:80/", "http://a..b/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		SURT(s)
		if host, err := HostFromPath(s); err == nil && HostPath(host) != s {
			t.Errorf("path %q is host %q, whose path is %q", s, host, HostPath(host))
		}
		host, err := HostOf(s)
		if err != nil {
			return
		}
		if again, err := HostFromPath(HostPath(host)); err != nil || again != host {
			t.Errorf("host %q is %q by its path %q: %v", host, again, HostPath(host), err)
		}
		if again, segment, ok := ParseMetaName(IndexName(host, "s-1"), ".cdxj"); !ok || again != host || segment != "s-1" {
			t.Errorf("host %q is %q by its index's name", host, again)
		}
		if name := FileName(host, s); Escapes(name) || len(name) > maxName+300 || !strings.HasPrefix(name, HostDir(host)+"/") {
			t.Errorf("%q is called %q", s, name)
		}
		if key := SURT(s); strings.ContainsAny(key, " \n") || SURT(s) != key {
			t.Errorf("%q has the key %q", s, key)
		}
	})
}

// An address is what netip takes for one.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"", "192.0.2.1", "192.0.2.1.", "192.0.2", "1.example.jp", "example.jp1", "2001:db8::1", "::ffff:192.0.2.1", "fe80::1%eth0", "::", "[::1]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := netip.ParseAddr(s); parsesAsAddress(s) != (err == nil) {
			t.Errorf("%q: %t, and netip says %v", s, parsesAsAddress(s), err)
		}
	})
}
