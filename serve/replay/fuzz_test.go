package replay

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"sheaf/internal/testkit"
	"sheaf/internal/weburl"
)

// FuzzRewrite: whatever a page contains, its rewritten form has no scripts, no handlers, and no
// address of a page or part outside the archive.
func FuzzRewrite(f *testing.F) {
	f.Add([]byte(`<a href=x onclick=f()><script>a</script><img srcset="a 1x,b"><style>@import 'x';a{b:url(c)}</style>`), "text/html")
	f.Add([]byte("<a \x95\\=\"x' href='\x83\"><base href=//o/><iframe srcdoc=\"<a href=x>\">"), "text/html; charset=shift_jis")
	f.Add([]byte(`<svg><script xlink:href=x /><a href=y></svg><p/onload=x/href=y/><![CDATA[<a href=z>]]>`), "application/xhtml+xml")
	f.Add([]byte("\x1b$B<a href=\x1b(B'x'>"), "text/html")
	f.Add([]byte(`a{b:url(\`), "text/css")
	f.Add([]byte(`<noscript><style>a{b:url("</style><noscript><script>`), "text/html")
	f.Add([]byte(`<plaintext><a href=x><script>`), "text/html")
	f.Add([]byte("<p style='a:url(\"\\\n\\26\\'&quot;);b:image-set(\"c\"(('>"), "text/html")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		d, err := Open(bytes.NewReader(body), contentType, "http://h/d/p")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := d.Rewrite(&out, then, false, []byte("<b>banner</b>")); err != nil {
			t.Fatal(err)
		}
		if d.Kind == HTML || d.Kind == XHTML {
			harmless(t, out.String())
		}
	})
}

// harmless parses the markup as a browser without scripts does.
func harmless(t *testing.T, markup string) {
	base, err := weburl.New("http://archive"+Root+"page", nil)
	if err != nil {
		t.Fatal(err)
	}
	z := html.NewTokenizer(strings.NewReader(markup))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			if token.Data == "script" {
				t.Fatalf("a script is left: %q", markup)
			}
			for _, a := range token.Attr {
				v := strings.ToLower(strings.TrimFunc(a.Val, func(r rune) bool { return r <= ' ' }))
				switch {
				case strings.HasPrefix(a.Key, "on"), isScript(v) && (a.Key == "href" || a.Key == "src"):
					t.Fatalf("%s=%q is left in %q", a.Key, a.Val, markup)
				case a.Key == "href" && token.Data != "base" || a.Key == "src":
					to, err := base.Resolve(v, nil) // a browser does not follow an invalid address
					if err == nil && (strings.HasPrefix(to, "http://") || strings.HasPrefix(to, "https://")) && !strings.HasPrefix(to, "http://archive"+Root) && !strings.HasPrefix(v, "#") && v != "" {
						t.Fatalf("%s=%q leads out of the archive in %q", a.Key, a.Val, markup)
					}
				}
			}
		}
	}
}

func FuzzAddress(f *testing.F) {
	f.Add("20261121030000id_/http://h/x?y")
	f.Add("2026*/h")
	f.Add("*/http:/h//x/../y")
	f.Add("id_/http%3A%2F%2Fh%2F%0d%0a")
	f.Add("99999999999999/x")
	f.Add("2026022930/ http://\\h\x00")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s, time.UTC)
		if err != nil {
			return
		}
		for _, c := range []byte(a.URL) {
			if c <= ' ' || c >= 0x7f {
				t.Fatalf("%q gives the URL %q", s, a.URL)
			}
		}
		if a.All || a.Time.IsZero() {
			return
		}
		path := Path(a.Time, a.Mode, a.URL)
		again, err := ParseAddress(strings.TrimPrefix(path, Root), time.FixedZone("JST", 9*60*60))
		if err != nil || again.URL != a.URL || !again.Time.Equal(a.Time) || again.Mode != a.Mode || !again.Full {
			t.Fatalf("%q is %+v, its own address %q is %+v, %v", s, a, path, again, err)
		}
	})
}

func TestTimestamps(t *testing.T) {
	for in, want := range map[string]struct{ first, last string }{
		"20261121030000": {"20261121030000", "20261121030000"}, "2026112103": {"20261121030000", "20261121035959"},
		"202602": {"20260201000000", "20260228235959"}, "20240": {"20240101000000", "20241231235959"},
		"2026": {"20260101000000", "20261231235959"}, "2": {"29991231235959", "29991231235959"},
		"20261": {"20260101000000", "20261231235959"}, "20240229": {"20240229000000", "20240229235959"},
	} {
		if got, err := ParsePeriod(in, nil); err != nil || Timestamp(got.Since) != want.first || Timestamp(got.Time) != want.last {
			t.Errorf("%s is %v, %v; want %v", in, got, err, want)
		}
	}
	newYork, err := time.LoadLocation("America/New_York")
	testkit.Must(t, err)
	for in, want := range map[string]struct{ first, last string }{
		"20261101": {"20261101040000", "20261102045959"}, "20260308": {"20260308050000", "20260309035959"}, // days of 25 and 23 hours
		"202611": {"20261101040000", "20261201045959"}, "2026": {"20260101050000", "20270101045959"}, "202612310512": {"20261231101200", "20261231101259"},
		"20261121030000": {"20261121030000", "20261121030000"}, "2": {"29991231235959", "29991231235959"},
	} {
		if got, err := ParsePeriod(in, newYork); err != nil || Timestamp(got.Since) != want.first || Timestamp(got.Time) != want.last {
			t.Errorf("%s in New York is %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "1", "20", "202", "20261301", "20260230", "00001231", "20261121250000", "202611210300001", "2026x"} {
		if got, err := ParsePeriod(in, nil); err == nil {
			t.Errorf("%s is %v", in, got)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for in, want := range map[string]Address{
		"20261121030000/http://www.a.jp/x?b=http://c/": {Period: Period{then, then}, Full: true, URL: "http://www.a.jp/x?b=http://c/"},
		"20261121030000id_/https://www.a.jp":           {Period: Period{then, then}, Full: true, Mode: Bytes, URL: "https://www.a.jp/"},
		"20261121030000im_/HTTP:/WWW.a.jp//x":          {Period: Period{then, then}, Full: true, Mode: Frame, URL: "http://www.a.jp//x"},
		"20261121030000~01234abcid_/http://www.a.jp/":  {Period: Period{then, then}, Full: true, Record: "01234abc", Mode: Bytes, URL: "http://www.a.jp/"},
		"20261121~01234abc/":                           {URL: "http://20261121~01234abc/"},
		"*/www.a.jp/":                                  {All: true, URL: "http://www.a.jp/"},
		"2026*/www.a.jp/":                              {All: true, Period: Period{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)}, URL: "http://www.a.jp/"},
		"www.a.jp:8080/":                               {URL: "http://www.a.jp:8080/"},
		"http://www.a.jp/2026/":                        {URL: "http://www.a.jp/2026/"},
		"id_/http%3A%2F%2Fwww.a.jp%2Fa%2520b":          {Mode: Bytes, URL: "http://www.a.jp/a%20b"},
		"http://日本.jp/":                                {URL: "http://xn--wgv71a.jp/"},
	} {
		if got, err := ParseAddress(in, nil); err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "/", "ftp://h/", "20261121030000/", "20261399000000/http://h/", "http://", "mailto:x", "javascript:x", "http://h h/"} {
		if got, err := ParseAddress(in, nil); err == nil {
			t.Errorf("%q is %+v", in, got)
		}
	}
}
