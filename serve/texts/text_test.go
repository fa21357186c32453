package texts

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"sheaf/internal/testkit"
)

// Main text is what is left of a page without what is for finding one's way.
func TestMainText(t *testing.T) {
	const prose = "A sentence that is long enough to be one."
	for _, c := range []struct{ name, page, title, main string }{
		{"plain", "<title> A\n title </title><p>" + prose + "<p>Another", "A title", prose + "\nAnother"},
		{"rows of links", "<a href=a>Home</a> | <a href=b>News</a><h1>Head</h1><p>" + prose + "<hr><a href=c>Back</a><p>Copyright (c) 1999", "", "Head\n" + prose},
		{"names", "<div class=sidebar>Side<div>more</div>end</div><div id=content>" + prose + "</div><footer>Foot</footer>", "", prose},
		{"main", "<div>Before " + prose + "</div><main><h1>H</h1>" + prose + prose + prose + "</main>", "", "H\n" + prose + prose + prose},
		{"links alone", "<ul><li><a href=a>One</a><li><a href=b>Two</a></ul>", "", "One\nTwo"},
		{"lines of Japanese", "<p>文章の\n途中と word\nword", "", "文章の途中と word word"},
		{"kept lines", "<pre>one\n two</pre>", "", "one\ntwo"},
		{"cells", "<table><tr><th>Name<th>Value<tr><td>" + prose + "<td>1</table>", "", "Name\tValue\n" + prose + "\t1"},
		{"scripts", "<script>no</script><style>no</style><noscript>no</noscript>yes<select><option>no</select>", "", "yes"},
		{"unclosed name", "<p class=nav>" + strings.Repeat("text ", 20) + "<p>" + prose, "", prose},
		{"no frames", "<frameset><frame src=a><noframes><body><p>" + prose + "</noframes></frameset>", "", prose},
		{"controls", "a\x01b\u00adc\u200bd", "", "abc d"},
	} {
		x := Extract([]byte(c.page), "text/html; charset=utf-8")
		if x.Title != c.title || x.Main != c.main || x.Reason != "" {
			t.Errorf("%s: %q, %q, %q; want %q, %q", c.name, x.Title, x.Main, x.Reason, c.title, c.main)
		}
	}
}

// Pages that are not as they should be have a text, or a reason why they have none.
func TestBadPages(t *testing.T) {
	const prose = "<p>A sentence that is long enough to be one."
	for _, c := range []struct {
		name, page, main, reason string
	}{
		{"empty", "", "", NoText},
		{"pictures", "<body><img src=a alt=b></body>", "", NoText},
		{"frames", "<frameset><frame src=a></frameset>", "", Frames},
		{"nested", strings.Repeat("<div>", 300_000) + "deep", "deep", ""},
		{"nested names", strings.Repeat("<div class=nav>", 100_000) + "deep", "deep", ""},
		{"open comment", prose + "<!-- " + strings.Repeat("x", 1000), prose[3:], ""},
		{"wrong charset", "\xff\xfe\xff", "", NoText},
	} {
		x := Extract([]byte(c.page), "text/html")
		if x.Main != c.main || x.Reason != c.reason {
			t.Errorf("%s: %.100q, %q; want %.100q, %q", c.name, x.Main, x.Reason, c.main, c.reason)
		}
	}
	long := Extract([]byte(prose+strings.Repeat("<b>", 64<<20/3)), "text/html")
	if long.Reason != TooLong || long.Main != prose[3:] {
		t.Errorf("64 MiB: %q, %.100q", long.Reason, long.Main)
	}
}

// The language is that of the text. Kanji alone are Japanese, unless they are written as in China,
// and what is declared decides where the text does not.
func TestLanguage(t *testing.T) {
	const english = "This is a sentence of the English language, and it is as long as it has to be for that. "
	for page, want := range map[string]string{
		"<p>日本語のページです。": "ja", "<title>参考文献</title><p>東京大学": "ja", "<p>常见问题已经移到服务器": "zh", "<html lang=zh><p>東京": "zh", "<p>한국어 문서": "ko",
		"<p>" + english: "en", "<html lang=ja><p>" + english: "en", "<p>" + english + english + "日本語の題": "en",
		"<p>日本語の文章の中に名前。 int main(int argc, char **argv) { return printf(format, argument); }": "ja",
		"<p>Ceci est une page de la langue que les gens parlent dans le sud du pays.":          "fr",
		"<p>Это страница на русском языке, и больше ничего.":                                   "ru", "<html lang=ja-JP><p>X": "ja", "<p>X": "",
		"<nav>これはメニューです。日本語のサイトの入口。</nav><p>" + english + english: "en",
	} {
		if got := Extract([]byte(page), "text/html; charset=utf-8").Language; got != want {
			t.Errorf("%s: %q, want %q", page, got, want)
		}
	}
}

// Pages that differ in little have fingerprints that differ in few bits.
func TestSimHash(t *testing.T) {
	var a, c strings.Builder
	for i := range 200 {
		fmt.Fprintf(&a, "word%d ", i*i%101)
		fmt.Fprintf(&c, "other%d ", i*i%97)
	}
	bits := func(x, y string) (n int) {
		for d := simHash(x) ^ simHash(y); d != 0; d &= d - 1 {
			n++
		}
		return n
	}
	if n := bits(a.String(), strings.ToUpper(a.String())+" 1999"); n > 3 {
		t.Errorf("%d bits of near duplicates differ", n)
	}
	if n := bits(a.String(), c.String()); n < 12 {
		t.Errorf("only %d bits of different texts differ", n)
	}
	if simHash("abc") != 0 {
		t.Error("a text of three letters has a fingerprint")
	}
}

// Whatever the bytes are, the text is UTF-8 without controls, and there is a reason if it is empty.
func FuzzExtract(f *testing.F) {
	for _, page := range []string{"<title>a</title><p>b", "<p class=nav>x<p>y", "<svg><title/><![CDATA[x]]></svg>", "<frameset><noframes>x", "\x1b$B$\"\x1b(B", "<table><tr><td>a<td>b", "\xff\xfea\x00"} {
		f.Add([]byte(page), "text/html; charset=shift_jis")
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		x := Extract(body, contentType)
		for _, text := range []string{x.Title, x.Main} {
			if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x01\r\x7f") {
				t.Errorf("%q", text)
			}
		}
		if (x.Main == "") != (x.Reason == NoText || x.Reason == Frames) && x.Reason != TooLong {
			t.Errorf("%q for %q", x.Reason, x.Main)
		}
		if again := Extract(body, contentType); *again != *x {
			t.Error("the second time it is another")
		}
	})
}

func BenchmarkExtract(b *testing.B) {
	page := []byte("<title>t</title>" + strings.Repeat("<div class=x><p>日本語の<a href=a>文章</a>です。 And some words of English.</div>", 300))
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		Extract(page, "text/html; charset=utf-8")
	}
}

// A short text costs its own bytes and some kilobytes: a night has millions of them.
func TestShortTextsTakeLittleMemory(t *testing.T) {
	const n, most = 100, 128 << 10
	w, err := NewWET(io.Discard)
	testkit.Must(t, err)
	text := &Text{Title: "title", Main: strings.Repeat("some words of a page, ", 200), Language: "en"}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		testkit.Must(t, w.Add(text, Origin{URL: "http://www.example.jp/", Record: "<urn:uuid:1>"}))
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > most {
		t.Errorf("%d bytes were allocated for each, more than %d", each, most)
	}
}
