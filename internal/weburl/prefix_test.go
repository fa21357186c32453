package weburl

import (
	"strings"
	"testing"
)

// A prefix names every spelling of the pages below it, by both schemes, and no other page.
func TestPrefix(t *testing.T) {
	const host = "www.example.jp"
	for prefix, c := range map[string]struct {
		kept      string
		holds     []string
		holdsNone []string
	}{
		"http://" + host + "/private/": {"http://" + host + "/private/",
			[]string{
				"http://" + host + "/private/", "https://" + host + "/private/a?b", "http://" + host + ":80/private/", "https://" + host + ":443/private/",
				"HTTP://WWW.Example.JP/private/", "http://" + host + "/%70rivate/", "http://" + host + "/p%72ivat%65/a", "http://" + host + "/a/../private/",
				"http://" + host + "./private/", "http://user@" + host + "/private/", "http://" + host + "/%2e/private/",
				"http://" + host + "//private/a", "http://" + host + "/private///", "http://" + host + "/private", "http://" + host + "/PRIVATE/a", "http://" + host + "/%2570rivat%2565/", "http://" + host + "/private%2Fa", "http://" + host + "/private;jsessionid=0123456789abcdef/a", `http://` + host + `\private\a`,
			},
			[]string{
				"http://" + host + "/privately/", "http://" + host + "/a/private/", "http://example.jp/private/", "http://" + host + ":8080/private/",
				"https://" + host + ":80/private/", "http://" + host + "/private/../a", "http://" + host + ".evil.example/private/", "http://" + host + "/priv/ate/",
			}},
		"HTTPS://WWW.EXAMPLE.JP:443/%7Eme/%e3%81": {"http://" + host + "/~me/%E3%81",
			[]string{"http://" + host + "/~me/%e3%81%82", "https://" + host + "/%7eme/あ"}, []string{"http://" + host + "/~me/%E3"}},
		"http://" + host + "/~me/(a|b)?x=1&y='": {"http://" + host + "/~me/(a|b)?x=1&y=%27",
			[]string{"https://" + host + "/~me/%28a%7Cb%29?x=1&y=%27z", "http://" + host + "/~me/(a|b)?PHPSESSID=1&x=1&y='", "http://" + host + "/~ME/(a|b)/?Y='z&a&X=1", "http://" + host + "/~me/(a|b)?x=1%26y='"},
			[]string{"http://" + host + "/~me/(a|b)?x=12&y='", "http://" + host + "/~me/(a|b)?y='", "http://" + host + "/~me/(a|b)/c?x=1&y='"}},
		"http://" + host + "/a?": {"http://" + host + "/a?", []string{"http://" + host + "/a?", "http://" + host + "/a?b", "http://" + host + "/a"}, []string{"http://" + host + "/ab", "http://" + host + "/a/b"}},
		"http://" + host + "/":   {"http://" + host + "/", []string{"https://" + host, "https://" + host + "/?x"}, []string{"http://example.jp/"}},
		"http://" + host + "/p?sid=0a1b2c3d4e5f": {"http://" + host + "/p?sid=0a1b2c3d4e5f",
			[]string{"http://" + host + "/p?sid=9f8e7d6c5b4a", "http://" + host + "/p?sid=9f8e7d6c5b4a&x=1", "http://" + host + "/p"},
			[]string{"http://" + host + "/q", "http://" + host + "/pq", "http://" + host + "/p/q", "http://" + host + "/pq?sid=9f8e7d6c5b4a"}},
		"http://" + host + "/?PHPSESSID=1&": {"http://" + host + "/?PHPSESSID=1&",
			[]string{"https://" + host + "/", "http://" + host + "/?x=1"}, []string{"http://" + host + "/q", "http://" + host + "/q?PHPSESSID=1"}},
		"http://" + host + "/p?x=1&PHPSESSID=1": {"http://" + host + "/p?x=1&PHPSESSID=1",
			[]string{"http://" + host + "/p?PHPSESSID=2&x=1", "http://" + host + "/p?x=1&y=2"}, []string{"http://" + host + "/p?x=10", "http://" + host + "/p?PHPSESSID=2&x=10"}},
		"http://" + host + "/p;jsessionid=1": {"http://" + host + "/p;jsessionid=1",
			[]string{"http://" + host + "/p", "http://" + host + "/p;jsessionid=2/q", "http://" + host + "/p;a=b", "http://" + host + "/p?x"}, []string{"http://" + host + "/pq", "http://" + host + "/pq;jsessionid=2"}},
		"http://[2001:DB8::1]:8080/x": {"http://[2001:db8::1]:8080/x", []string{"https://[2001:db8:0::1]:8080/x"}, []string{"http://[2001:db8::1]/x"}},
	} {
		p, err := ParsePrefix(prefix)
		if err != nil || p.String() != c.kept || p != PrefixOf(c.kept) {
			t.Errorf("%s is kept as %s, %v; want %s", prefix, p, err, c.kept)
		}
		for _, url := range c.holds {
			if !p.Holds(url) {
				t.Errorf("%s does not hold %s", prefix, url)
			}
		}
		for _, url := range c.holdsNone {
			if p.Holds(url) {
				t.Errorf("%s holds %s", prefix, url)
			}
		}
	}
	for _, text := range []string{
		"", "http://www.example.jp", "ftp://www.example.jp/", "www.example.jp/private/", "http:///a", "http:/www.example.jp/", "http://u@www.example.jp/", "http://www.example.jp/a#b",
		"http://www.example.jp/%7", "http://www.example.jp/a%", "http://www.example.jp/a/..", "http://www.example.jp/a/%2e", "http://www.example.jp/a//", "http://www.example.jp/%2F", "http://www.example.jp/a/%252e%252e", "http://www.example.jp/a/%252e%252e/", `http://www.example.jp/a/\`, "http://www.example.jp/ ", "http://a b/", "http://x:y/",
		"http://www.example.jp/" + strings.Repeat("x", MaxLength),
	} {
		if p, err := ParsePrefix(text); err == nil {
			t.Errorf("%q is the prefix %s", text, p)
		}
	}
	meet := func(a, b string) bool { return PrefixOf(a).Meets(PrefixOf(b)) }
	if !meet("http://a.jp/x/", "https://a.jp/%78") || !meet("http://a.jp/x", "http://a.jp/x/y") || meet("http://a.jp/x/", "http://a.jp/y/") || meet("http://a.jp/", "http://b.jp/") {
		t.Error("prefixes meet wrongly")
	}
	covers := func(a, b string) bool { return PrefixOf(a).Covers(PrefixOf(b)) }
	if !covers("http://a.jp/x/", "https://a.jp/X/y?z") || !covers("http://a.jp/x", "http://a.jp/xy") || covers("http://a.jp/x/", "http://a.jp/x") || covers("http://a.jp/x?y", "http://a.jp/x") || covers("http://a.jp/", "http://b.jp/") {
		t.Error("prefixes cover each other wrongly")
	}
}

// What a person writes is refused or has one form, which names itself.
func FuzzPrefix(f *testing.F) {
	for _, text := range []string{"http://www.example.jp/", "https://例え.jp/x?y", "http://[::1]:8080/a", "http://a.jp", "http:///", "x", "http://a.jp/%%66", "https://www.example.jp/~me/a-b_c/x.html", "http://192.0.2.1/a/", "http://a.jp/.x/..", "http://a.jp/;sid=0a1b2c3d4e5f/..;x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, ok := spellPlain(text); ok && s != spellAny(text) {
			t.Errorf("%q is %q, and read in full %q", text, s, spellAny(text))
		}
		p, err := ParsePrefix(text)
		if err != nil {
			return
		}
		if again := PrefixOf(p.String()); again != p {
			t.Errorf("%q is kept as %q, which is %q", text, p, again)
		}
		if !p.Holds(text) || !p.Holds(p.String()) {
			t.Errorf("%q does not hold itself, %q", text, p)
		}
	})
}
