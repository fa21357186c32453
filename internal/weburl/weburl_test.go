package weburl

import (
	"bufio"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"

	"sheaf/internal/testkit"
)

func TestParse(t *testing.T) {
	const base = "http://www.example.jp/dir/page.html?q=1"
	for _, tt := range []struct{ ref, want string }{
		{"next.html", "http://www.example.jp/dir/next.html"},
		{"next.html#part", "http://www.example.jp/dir/next.html"},
		{"#part", base},
		{"", base},
		{"?r=2", "http://www.example.jp/dir/page.html?r=2"},
		{"./", "http://www.example.jp/dir/"},
		{"..", "http://www.example.jp/"},
		{"../../..", "http://www.example.jp/"},
		{"a/..", "http://www.example.jp/dir/"},
		{"a/.%2E/b", "http://www.example.jp/dir/b"},
		{"..\\up", "http://www.example.jp/up"},
		{"//other.example/x", "http://other.example/x"},
		{"/\t/other.example/x", "http://other.example/x"},
		{"/\\\\other.example/x", "http://other.example/x"},
		{"http:next.html", "http://www.example.jp/dir/next.html"},
		{"http:/next.html", "http://www.example.jp/next.html"},
		{"https:next.html", "https://next.html/"},
		{"HtTpS:\\\\Other.Example\\A\\b?c\\d", "https://other.example/A/b?c\\d"},
		{"https://other.example:443/", "https://other.example/"},
		{"https://other.example:0080/", "https://other.example:80/"},
		{"https://other.example:/", "https://other.example/"},
		{"http://a@b@c.example/", "http://a%40b@c.example/"},
		{"http://0300.0250.1/", "http://192.168.0.1/"},
		{"http://4294967295/", "http://255.255.255.255/"},
		{"http://[0:0::1]:8080/", "http://[::1]:8080/"},
		{"http://[::ffff:1.2.3.4]/", "http://[::ffff:102:304]/"},
		{"http://ひらがな.例え/", "http://xn--v8j0cwa6g.xn--r8jz45g/"},
		{"http://%65xample.jp/", "http://example.jp/"},
		{"http://under_score.example/", "http://under_score.example/"},
		{"a b", "http://www.example.jp/dir/a%20b"},
		{"a%zz%4", "http://www.example.jp/dir/a%zz%4"},
		{"é?é", "http://www.example.jp/dir/%C3%A9?%C3%A9"},
		{"\xff", "http://www.example.jp/dir/%FF"},
		{"/\x82\xa0.html?k=\x82\xa0&l=caf\xe9#\x82", "http://www.example.jp/%82%A0.html?k=%82%A0&l=caf%E9"},
		{"http://ひらがな.例え/\xc6\xfc\xcb\xdc/", "http://xn--v8j0cwa6g.xn--r8jz45g/%C6%FC%CB%DC/"},
		{"/\x95\x5c/\x83\x5c\\a\\", "http://www.example.jp/%95%5C/%83%5C/a/"},
		{"表\\a", "http://www.example.jp/dir/%E8%A1%A8/a"},
		{"x?'", "http://www.example.jp/dir/x?%27"},
		{"a:b", "a:b"},
		{"mailto:a@b", "mailto:a@b"},
		{"ftp://h:21/x", "ftp://h/x"},
		{"java\nscript:x", "javascript:x"},
		{"git://h/a/../b", "git://h/b"},
	} {
		got, err := Parse(base, tt.ref, nil)
		if err != nil || got != tt.want {
			t.Errorf("Parse(%q) = %q, %v; want %q", tt.ref, got, err, tt.want)
		}
	}
}

func TestParseFails(t *testing.T) {
	for _, ref := range []string{
		"http://", "http://?", "http://h:x/", "http://h:65536/", "http://a b/", "http://[::1/", "http://[1.2.3.4]/",
		"http://[fe80::1%25eth0]/", "http://1.2.3.4.5/", "http://1.256.3.4/", "http://0x100000000/", "http://a.0XFfFfFfFfFfFfFfFfFf/", "http://09/",
		"http://%zz/", "http://%00/", "http://xn--a-ecp.example.xn--0/", "//:80/", "http://a<b/", "http://h:-1/", "git://:1/",
	} {
		var e *Error
		if got, err := Parse("http://www.example.jp/", ref, nil); !errors.As(err, &e) {
			t.Errorf("Parse(%q) = %q, %v; want an error", ref, got, err)
		}
	}
	if _, err := Parse("http://h/", strings.Repeat("a", MaxLength), nil); !errors.Is(err, ErrTooLong) {
		t.Errorf("a long reference: %v, want %v", err, ErrTooLong)
	}
	half := strings.Repeat("a", MaxLength/2)
	if _, err := Parse("http://h/"+half+"/", half, nil); !errors.Is(err, ErrTooLong) {
		t.Errorf("a reference that makes its base too long: %v, want %v", err, ErrTooLong)
	}
	if got, err := Parse("git://h", "x", nil); err != nil || got != "git://h/x" {
		t.Errorf("a reference to a base without path gave %q, %v", got, err)
	}
	if got, err := Parse("", "x.html", nil); err == nil {
		t.Errorf("a relative reference without base gave %q", got)
	}
	if got, err := Parse("mailto:a@b", "x", nil); err == nil {
		t.Errorf("a relative reference to a mail address gave %q", got)
	}
}

func TestQueryInPagesEncoding(t *testing.T) {
	for _, tt := range []struct {
		enc       encoding.Encoding
		ref, want string
	}{
		{nil, "x?q=語", "http://h/x?q=%E8%AA%9E"},
		{japanese.EUCJP, "x?q=語", "http://h/x?q=%B8%EC"},
		{japanese.ShiftJIS, "x?q=語", "http://h/x?q=%8C%EA"},
		{japanese.ShiftJIS, "x?q=表", "http://h/x?q=%95\\"},
		{japanese.ISO2022JP, "x?q=語", "http://h/x?q=%1B$B8l%1B(B"},
		{japanese.ShiftJIS, "語?q=語", "http://h/%E8%AA%9E?q=%8C%EA"},
		{japanese.ShiftJIS, "x?q=한", "http://h/x?q=%26%2354620%3B"},
		{japanese.ShiftJIS, "x?q=①髙纊ⅰ黑", "http://h/x?q=%87@%FB%FC%FA\\%FA@%FCK"},
		{japanese.ShiftJIS, "x?q=−¥‾ｱ～", "http://h/x?q=%81|\\~%B1%81`"},
		{japanese.EUCJP, "x?q=−¥‾ｱ髙", "http://h/x?q=%A1%DD\\~%8E%B1%FC%E2"},
		{japanese.EUCJP, "x?q=丂", "http://h/x?q=%26%2319970%3B"},
		{japanese.ISO2022JP, "x?q=日ｱ−本한語", "http://h/x?q=%1B$BF|%%22!]K\\%1B(B%26%2354620%3B%1B$B8l%1B(B"},
		{charmap.Windows1252, "x?q=é€", "http://h/x?q=%E9%80"},
		{charmap.Windows1252, "x?q=é語", "http://h/x?q=%E9%26%2335486%3B"},
	} {
		if got, err := Parse("http://h/", tt.ref, tt.enc); err != nil || got != tt.want {
			t.Errorf("Parse(%q) in %v = %q, %v; want %q", tt.ref, tt.enc, got, err, tt.want)
		}
	}
}

func TestHostAndCanonical(t *testing.T) {
	for _, tt := range []struct{ url, host, canonical string }{
		{"http://Example.JP:80/%7ea/%e3%2f?", "example.jp", "http://example.jp/~a/%E3%2F"},
		{"https://u:p@example.jp:8443/x?a=%41", "example.jp:8443", "https://example.jp:8443/x?a=A"},
		{"http://[::1]:8080", "[::1]:8080", "http://[::1]:8080/"},
		{"mailto:x%41@y", "", "mailto:x%41@y"},
		{"not a url", "", "not a url"},
	} {
		if got := Host(tt.url); got != tt.host {
			t.Errorf("Host(%q) = %q, want %q", tt.url, got, tt.host)
		}
		if got := Canonical(tt.url); got != tt.canonical {
			t.Errorf("Canonical(%q) = %q, want %q", tt.url, got, tt.canonical)
		}
	}
}

// A user and a final point change nothing of which page a URL names. What was made of a page is
// about the page.
func TestAbout(t *testing.T) {
	for target, want := range map[string]string{
		"http://u:p@Example.JP/a": "http://example.jp/a", "https://example.jp.:8443/": "https://example.jp:8443/", "http://192.0.2.1./": "http://192.0.2.1/",
		"http://a.jp/?u=x:http://b.jp/":         "http://a.jp/?u=x:http://b.jp/",
		"urn:text:https://a.jp/?u=http://b.jp/": "https://a.jp/?u=http://b.jp/", "screenshot:http://a.jp/x": "http://a.jp/x",
		"urn:uuid:1": "", "dns:a.jp": "", "ftp://a.jp/": "", "metadata://a.jp/x:http": "", "": "", "a.jp": "",
	} {
		if got, err := About(target); got != want || (err == nil) != (want != "") {
			t.Errorf("About(%q) = %q, %v, want %q", target, got, err, want)
		}
	}
}

func TestCanonicalWithoutSessions(t *testing.T) {
	for _, tt := range []struct{ ref, want string }{
		{"?PHPSESSID=a1&p=2", "?p=2"},
		{"?p=2&PHPSESSID=a1", "?p=2"},
		{"?p=2&phpsessid=a1&q=3", "?p=2&q=3"},
		{"?jsessionid=1", ""},
		{"x.jsp;jsessionid=0A1B2C", "x.jsp"},
		{"x.jsp;jsessionid=0A1B2C?p=2", "x.jsp?p=2"},
		{"a;v=1;jsessionid=0A/b", "a;v=1/b"},
		{"?ASPSESSIONIDQQQQABCD=LJKHABCDEFGHIJKLMNOPQRST", ""},
		{"(S(lit3py55t21z5v55vlm25s55))/x.aspx", "x.aspx"},
		{"?sid=5a9f3be01c22d4ef&page=1", "?page=1"},
		{"?session=0f3a9b1c4d5e", ""},
		// These only look like session parameters.
		{"?sid=02/11/05/0123456", "?sid=02/11/05/0123456"},
		{"?sid=200311051234567", "?sid=200311051234567"},
		{"?sid=internationalization", "?sid=internationalization"},
		{"?s=ruby", "?s=ruby"},
		{"?sid=12", "?sid=12"},
		{"?PHPSESSID", "?PHPSESSID"},
		{"?id=5a9f3be01c22d4ef", "?id=5a9f3be01c22d4ef"},
		{"(S(x))/y", "(S(x))/y"},
		{"a;b&c", "a;b&c"},
		{"?&&a=1&", "?&&a=1&"},
	} {
		if got := Canonical("http://h/" + tt.ref); got != "http://h/"+tt.want {
			t.Errorf("Canonical(%q) = %q, want %q", tt.ref, got, tt.want)
		}
	}
}

// TestCorpus resolves the edge cases of the shared corpus. The expected results come from another
// implementation of the standard.
func TestCorpus(t *testing.T) {
	testkit.Slow(t)
	corpus := filepath.Join(testkit.Shared(t), "corpus", "dev.tar.xz")
	tar := testkit.Tool(t, "tar")
	testkit.Tool(t, "xz")
	out, err := exec.Command(tar, "-xJOf", corpus, "--wildcards", "--occurrence=1", "*edge-urls.expected.jsonl").Output()
	if err != nil {
		t.Fatalf("tar -xJOf %s: %v", corpus, err)
	}
	cases := 0
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); cases++ {
		var c [2]string
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("case %d: %v", cases+1, err)
		}
		want, _, _ := strings.Cut(c[1], "#")
		got, err := Parse("http://edge.jp.test/urls.html", c[0], nil)
		if err != nil {
			got = "FAILURE"
		}
		if got != want {
			t.Errorf("Parse(%.100q) = %.100q (%v), want %.100q", c[0], got, err, want)
		}
	}
	if cases < 60 {
		t.Errorf("only %d cases", cases)
	}
}

// FuzzParse checks that a resolved URL parses as itself, and that a canonical form is its own
// canonical form.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"x", "../..", "//a:1/", "http:\\\\x", "a:b", "?é", "http://[::1]", "/.//p", "x:/.//y", "file:\\c:/", "%2e%2E/x"} {
		f.Add("http://www.example.jp/dir/", s)
	}
	f.Fuzz(func(t *testing.T, base, ref string) {
		abs, err := Parse(base, ref, japanese.ShiftJIS)
		if err != nil {
			return
		}
		again, err := Parse("", abs, nil)
		if err != nil {
			t.Fatalf("Parse(%q, %q) = %q, which does not parse: %v", base, ref, abs, err)
		}
		if again != abs {
			t.Fatalf("Parse(%q, %q) = %q, then %q", base, ref, abs, again)
		}
		if c := Canonical(abs); Canonical(c) != c {
			t.Fatalf("Canonical(%q) = %q, then %q", abs, c, Canonical(c))
		}
	})
}

// The fast paths return the same as the full parser.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{"www.example.jp", "a--b.c", "xn--a", "1.2.3.4", "1.2.3", "0x1", "a.0x1", "a.1", "a.b.", "a-.b_c", "/a/b.html", "/a/./b", "/..", "/a..b/~c", "//x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if plainHost(s) {
			if name, err := parseName(s); name != s || err != nil {
				t.Errorf("host %q is %q, %v", s, name, err)
			}
		}
		if s != "" && plainPath(s) {
			if path := cleanPath("", s, true); path != s {
				t.Errorf("path %q is %q", s, path)
			}
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	base, err := New("http://www.example.jp/dir/page.html", nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct{ name, ref string }{
		{"plain", "../images/x.gif"[3:]},
		{"dots", "../images/x.gif?size=2"},
		{"absolute", "https://other.example/a/b/c.html?x=1"},
		{"encoded", "日本語.html?語=%zz"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := base.Resolve(bb.ref, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestFormEscape(t *testing.T) {
	for _, tt := range []struct {
		enc      encoding.Encoding
		in, want string
	}{
		{nil, "a b&c=d+e*f-g.h_i~", "a+b%26c%3Dd%2Be*f-g.h_i%7E"},
		{nil, "語%20", "%E8%AA%9E%2520"},
		{japanese.ShiftJIS, "表 髙", "%95%5C+%FB%FC"},
		{japanese.EUCJP, "語한", "%B8%EC%26%2354620%3B"},
	} {
		if got := FormEscape(tt.in, tt.enc); got != tt.want {
			t.Errorf("FormEscape(%q) in %v = %q, want %q", tt.in, tt.enc, got, tt.want)
		}
	}
}
