package page

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"
	goUnicode "unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"sheaf/internal/preference"
)

const prose = "日本語のページです。漢字かな交じり文で、カタカナも混ぜて、文字コードの判別に足りる長さにしてあります。"

// TestCharsets reads one page in each encoding with right, no and wrong
// declarations in meta and header.
func TestCharsets(t *testing.T) {
	encodings := map[string]encoding.Encoding{
		"utf-8": encoding.Nop, "euc-jp": japanese.EUCJP, "shift_jis": japanese.ShiftJIS, "iso-2022-jp": japanese.ISO2022JP,
	}
	query := map[string]string{"utf-8": "%E8%AA%9E", "euc-jp": "%B8%EC", "shift_jis": "%8C%EA", "iso-2022-jp": "%1B$B8l%1B(B"}
	for actual, enc := range encodings {
		for _, declared := range []string{"", "utf-8", "euc-jp", "x-sjis", "iso-2022-jp", "iso-8859-1", "no-such-thing"} {
			for _, where := range []string{"meta", "header"} {
				meta, header := "", "text/html"
				if declared != "" && where == "meta" {
					meta = fmt.Sprintf(`<META http-equiv=Content-Type content="text/html; charset=%s">`, declared)
				} else if declared != "" {
					header += "; charset=" + declared
				}
				body, err := enc.NewEncoder().String("<html><head>" + meta + "<title>" + prose + "</title></head><body>" + prose + `<a href="x?q=語">x</a></body></html>`)
				if err != nil {
					t.Fatal(err)
				}
				p, err := Links([]byte(body), header, "http://h/")
				if err != nil {
					t.Fatal(err)
				}
				if p.Charset != actual || p.Title != prose {
					t.Errorf("%s declared %q in %s was read as %s: %q", actual, declared, where, p.Charset, p.Title)
				}
				if want := "http://h/x?q=" + query[actual]; len(p.Links) != 1 || p.Links[0].URL != want {
					t.Errorf("%s declared %q: links %v, want %s", actual, declared, p.Links, want)
				}
			}
		}
	}
}

func TestUTF16(t *testing.T) {
	for _, bom := range []unicode.BOMPolicy{unicode.UseBOM, unicode.IgnoreBOM} {
		for name, order := range map[string]unicode.Endianness{"utf-16le": unicode.LittleEndian, "utf-16be": unicode.BigEndian} {
			body, err := unicode.UTF16(order, bom).NewEncoder().String("<html><title>題</title><body><p>plain text</p><a href='x?q=語'>")
			if err != nil {
				t.Fatal(err)
			}
			p, err := Links([]byte(body), "text/html", "http://h/")
			if err != nil || p.Charset != name || p.Title != "題" || len(p.Links) != 1 || p.Links[0].URL != "http://h/x?q=%E8%AA%9E" {
				t.Errorf("%s: %+v, %v", name, p, err)
			}
		}
	}
}

// TestEscapesShown reads a Shift_JIS page that shows ISO-2022-JP's escapes.
func TestEscapesShown(t *testing.T) {
	body, err := japanese.ShiftJIS.NewEncoder().String("<html><title>題</title>" + prose + "\x1b$B8l\x1b(B")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Links([]byte(body), "text/html", "http://h/")
	if err != nil || p.Charset != "shift_jis" || p.Title != "題" {
		t.Errorf("%+v, %v", p, err)
	}
}

// links writes a page's links one a line: T for text, n for nofollow.
func links(p *Page) string {
	var b strings.Builder
	for _, l := range p.Links {
		fmt.Fprintf(&b, "%s", strings.TrimPrefix(l.URL, "http://h/"))
		if l.Text {
			b.WriteString(" T")
		}
		if l.NoFollow {
			b.WriteString(" n")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestLinks(t *testing.T) {
	for _, tt := range []struct{ name, contentType, body, want string }{
		{"anchors", "text/html", `<a href=a.html>a</a><area href="b.html"><a href="mailto:x@y">m</a><A HREF = 'a.html#top'>again`, "a.html T\nb.html T\n"},
		{"entities", "text/html", `<a href="a?x=1&amp;y=2&z=3">`, "a?x=1&y=2&z=3 T\n"},
		{"nofollow", "text/html", `<a href=a rel="ugc NoFollow"><a href=b rel=nofollow><a href=b>`, "a T n\nb T\n"},
		{"meta nofollow", "text/html", `<a href=a><img src=i><meta name=ROBOTS content="NoFollow">`, "a T n\ni\n"},
		{"frames", "text/html", `<frameset><frame src=f><noframes><body><a href=n>n</a></noframes></frameset><iframe src=i></iframe>`, "f T\nn T\ni T\n"},
		{"noscript", "text/html", `<noscript><img src=n></noscript><script>"<a href=no>"</script><!-- <a href=no> -->`, "n\n"},
		{"images", "text/html", `<img src=i srcset="s1 1x, s2,x 2x ,s3"><picture><source srcset="p1 480w,p2 800w"></picture><input type=IMAGE src=in><input src=no><body background=bg>`,
			"i\ns1\ns2,x\ns3\np1\np2\nin\nbg\n"},
		{"parts", "text/html", `<script src=s></script><embed src=e><object data=o></object><video poster=v><source src=m></video>`, "s\ne\no\nv\nm\n"},
		{"lazy parts", "text/html", `<img data-src=a data-srcset="b 1x, c 2x" data-original=d data-lazy-src=e data-full-src=f><iframe data-src=g></iframe><video data-src=h data-poster=i></video><source data-srcset=j><div data-src=no data-srcset=k>`,
			"b\nc\na\nd\ne\nf\ng T\nh\ni\nj\nk\n"},
		{"link", "text/html", `<link rel=stylesheet href=c><link rel="Shortcut Icon" href=i><link rel=next href=n><link rel=dns-prefetch href=//x>`, "c\ni\nn T\n"},
		{"refresh", "text/html", `<meta http-equiv=Refresh content="0; URL='r.html'">`, "r.html T\n"},
		{"style", "text/html", `<style>@import "a.css"; /* url(no) */ p{background:URL( 'b' )}</style><p style="background:url(c\))">`, "a.css\nb\nc)\n"},
		{"css", "text/css; charset=x", `@import url(a.css); @font-face{src:url("f.woff")} b{x:url()}`, "a.css\nf.woff\n"},
		{"late base", "text/html", `<a href=a><base target=_top><base href=d/><base href=no/><a href=b>`, "d/a T\nd/b T\n"},
		{"bad base", "text/html", `<base href="http://[bad/"><a href=a>`, "a T\n"},
		{"sitemap", "application/xml", `<?xml version="1.0"?><urlset><url><loc> http://h/a?x&amp;y </loc></url><url><loc><![CDATA[http://h/b]]></loc></url></urlset>`, "a?x&y T\nb T\n"},
		{"rss", "application/rss+xml", `<rss><channel><link>http://h/</link><item><link>http://h/a</link><enclosure url="e.mp3"/></item></channel></rss>`, " T\na T\ne.mp3\n"},
		{"atom", "application/atom+xml", `<feed><link rel="self" href="/f"/><entry><link href="/a"></link></entry></feed>`, "f T\na T\n"},
		{"sitemap with images", "text/xml", `<urlset><url><loc>/a</loc><image:image><image:loc>/i.png</image:loc></image:image><xhtml:link rel="alternate" href="/ja"/></url></urlset>`, "a T\ni.png T\nja T\n"},
		{"sitemap index", "application/octet-stream", `<?xml version="1.0"?><sitemapindex><sitemap><loc>http://h/s.xml.gz</loc></sitemap></sitemapindex>`, "s.xml.gz T\n"},
		{"packed sitemap", "application/x-gzip", zipped(`<urlset><url><loc>/a</loc></url></urlset>`), "a T\n"},
		{"packed sitemap cut off", "application/gzip", strings.TrimSuffix(zipped("<urlset><loc>/a</loc></urlset>"), "\x00\x00"), "a T\n"},
		{"packed something", "application/gzip", zipped("http is a protocol"), ""},
		{"sitemap of lines", "text/plain", "\ufeffhttp://h/a\r\n\nHTTP://h/b\n", "a T\nb T\n"},
		{"text that names URLs", "text/plain", "http://h/a\nis a page\n", ""},
		{"guid", "application/rss+xml", `<rss><item><guid>http://h/a</guid></item><item><guid isPermaLink="false">b</guid></item></rss>`, "a T\n"},
		{"opml", "text/x-opml+xml", `<opml><outline xmlUrl="/f" htmlUrl="/p"/></opml>`, "f T\np T\n"},
		{"svg", "image/svg+xml", `<svg><a xlink:href="a"><image href="i"/></a></svg>`, "a T\ni\n"},
		{"help book", "application/octet-stream", `<!DOCTYPE HTML><HTML><OBJECT type="text/sitemap"><param name="Name" value="n"><param name="Local" value="_R\P1.html#c"></OBJECT></HTML>`, "_R/P1.html T\n"},
		{"player", "text/html", `<object data=o><param name=Movie value=m.swf></object><applet code=A codebase=ap archive="x.jar, y.jar">`, "o\nm.swf\nap/x.jar\nap/y.jar\nap/A.class\n"},
		{"srcdoc", "text/html", `<iframe srcdoc="&lt;a href=s&gt;&lt;iframe srcdoc='&amp;lt;a href=t&gt;'&gt;"></iframe>`, "s T\n"},
		{"forms", "text/html", `<form action="f?no#x"><input name=a value="1 2"><input type=checkbox name=c><input type=radio name=r value=y checked><select name=s><option value=p><option value=q selected></select><input type=submit name=go></form><form method=post action=p><input name=a></form>`,
			"f?a=1+2&r=y&s=q T\n"},
		{"no type", "", `<!DOCTYPE html><a href=a>`, "a T\n"},
		{"a type without semicolon", "text/html charset=utf-8", `<html><a href=a>`, "a T\n"},
		{"two types", "text/plain, text/html", `<a href=a>`, "a T\n"},
		{"no type, without <html>", "", "\n\n<body bgcolor=white><a href=a>", "a T\n"},
		{"no type, in UTF-16", "", "\xff\xfe<\x00h\x00t\x00m\x00l\x00>\x00<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00a\x00>\x00", "a T\n"},
		{"empty elements of XHTML", "application/xhtml+xml", `<html><head><title/><script src="s"/><style/></head><body><iframe src="f"/><textarea/><a href="a">a</a></body></html>`, "s\nf T\na T\n"},
		{"empty elements with a prefix", "application/xml", `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:script/><h:a href="a">a</h:a></h:html>`, "a T\n"},
		{"empty elements of HTML", "text/html", `<script src="s"/><a href="a">a</a>`, "s\n"},
		{"empty elements of SVG", "image/svg+xml", `<svg><title/><style/><script/><a xlink:href="a"/></svg>`, "a T\n"},
		{"empty elements of SVG in HTML", "text/html", `<p><svg><title/><style/><a xlink:href="a"/></svg><style><a href=no></style><svg><foreignObject><style><a href=no></style></foreignObject><script/><a href="b"/></svg><svg><style/><p><style><a href=no></style>`, "a T\nb T\n"},
		{"empty elements of RSS", "application/rss+xml", `<rss><item><title/><link>/a</link></item><item><script/><textarea/><link>/b</link></item></rss>`, "a T\nb T\n"},
		{"CDATA", "text/xml", `<urlset><loc><![CDATA[/p?a&section=2]]></loc><loc> <![CDATA[/p?b&amp;c]]> </loc><loc>/p?d&amp;copy=2&section=3</loc></urlset>`, "p?a&section=2 T\np?b&amp;c T\np?d&copy=2&section=3 T\n"},
		{"CDATA of XHTML", "application/xhtml+xml", `<html><style><![CDATA[a{b:url(c?d&amp;e)}]]></style><style>a{b:url(f?g&amp;h)}</style><script><![CDATA[location="i?j&lt=1"]]></script></html>`, "c?d&amp;e\nf?g&h\ni?j&lt=1 T\n"},
		{"HTML in a feed", "application/rss+xml", `<rss><description><![CDATA[<a href="/a?b&amp;c&section=1">x</a>]]></description><description>&lt;a href="/d?e&amp;amp;f"&gt;</description></rss>`, "a?b&c&section=1 T\nd?e&f T\n"},
		{"XML that declares no encoding", "text/xml", `<urlset><loc>/?q=&#x65E5;</loc></urlset>`, "?q=%E6%97%A5 T\n"},
		{"XHTML that declares no encoding", "application/xhtml+xml", `<html><a href="?q=&#x65E5;"/></html>`, "?q=%E6%97%A5 T\n"},
		{"base of XML", "application/atom+xml", `<feed xml:base="/blog/"><link href="a"/><entry xml:base="x/"><link href="b"/></entry><entry><link href="c" xml:base="//i/"/><content type="html">&lt;a href=d&gt;</content><link href="e"/></entry></feed>`,
			"blog/a T\nblog/x/b T\nhttp://i/c T\nblog/d T\nblog/e T\n"},
		{"base of XHTML", "application/xhtml+xml", `<html><head><base href="/b/"/></head><body xml:base="c/"><br/><a href="d"/></body></html>`, "b/c/d T\n"},
		{"style sheet of XML", "text/xml", `<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="/a.xsl?b&amp;c"?><?xml-stylesheet href="#local"?><urlset><loc>/a</loc></urlset>`, "a.xsl?b&c\na T\n"},
		{"style sheet of XHTML", "application/xhtml+xml", `<?xml-stylesheet href='s.css'?><html/>`, "s.css\n"},
		{"XSLT", "text/xsl", `<xsl:stylesheet><xsl:include href="/i.xsl"/><xsl:template match="/"><img src="/a.png"/><a href="{loc}"/></xsl:template></xsl:stylesheet>`, "i.xsl\na.png\n"},
		{"attributes like references", "text/html", `<a href="?a&section=1"><a href="?b&copy=1"><a href="?c&copy;=1"><a href="?d&region=1&current=2&times3">`, "?a&section=1 T\n?b&copy=1 T\n?c%A9=1 T\n?d&region=1&current=2&times3 T\n"},
		{"HTML as text", "text/plain", `<html><a href=a>`, ""},
		{"sitemap as HTML", "text/html; charset=UTF-8", `<?xml version="1.0"?><!-- <html> --><sm:urlset><sm:loc>/a</sm:loc></sm:urlset>`, "a T\n"},
		{"sitemap as XHTML", "application/xhtml+xml", `<urlset><loc>/a</loc></urlset>`, "a T\n"},
		{"feed as HTML", "text/html", `<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY nbsp "&#160;">]><rss><item><link>http://h/a</link></item></rss>`, "a T\n"},
		{"sitemap of lines as HTML", "text/html", "http://h/a\nhttp://h/b\n", "a T\nb T\n"},
		{"sitemap as a file to save", "binary/octet-stream", `<urlset><loc>/a</loc></urlset>`, "a T\n"},
		{"sitemap of a type of its own", "application/x-sitemap", `<urlset><loc>/a</loc></urlset>`, "a T\n"},
		{"a script", "application/javascript", `"<a href=a>"`, ""},
		{"sitemap as packed", "application/x-gzip", `<urlset><loc>/a</loc></urlset>`, "a T\n"},
		{"packed sitemap as XML", "text/xml", zipped(`<urlset><loc>/a</loc></urlset>`), "a T\n"},
		{"packed sitemap as HTML", "text/html", zipped(`<urlset><loc>/a</loc></urlset>`), "a T\n"},
		{"packed sitemap without type", "", zipped(`<urlset><loc>/a</loc></urlset>`), "a T\n"},
		{"no text", "image/gif", `<html><a href=a>`, ""},
		{"plain text", "text/plain", `see <a href=a>`, ""},
		{"XHTML as XML", "text/xml", `<?xml version="1.0"?><html><body><a href="a"/></body></html>`, "a T\n"},
		{"soup", "text/html", `<<a href=a<b>><a href="b><a href=c>">x</a><a href=d`, "a%3Cb T\nb%3E%3Ca%20href=c%3E T\n"},
	} {
		p, err := Links([]byte(tt.body), tt.contentType, "http://h/")
		if err != nil {
			t.Fatal(err)
		}
		if got := links(p); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestText(t *testing.T) {
	p, err := Links([]byte(`<title>no</title><h1>A &amp; B</h1><script>no</script><style>no{}</style><!-- no --><p>c
	d</p><textarea>no</textarea>`), "text/html", "http://h/")
	if err != nil || p.Text != "A & B c d" || p.MoreText {
		t.Errorf("%q, %v", p.Text, err)
	}
	p, err = Links([]byte(strings.Repeat("語 ", MaxText)), "text/html", "http://h/")
	if err != nil || len(p.Text) > MaxText || !p.MoreText {
		t.Errorf("%d bytes, %v", len(p.Text), err)
	}
}

func zipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.String()
}

func TestHeaderLinks(t *testing.T) {
	h := http.Header{
		"Link":    {`</a>; rel=next, <b?x,y>; title="<no>, \"; rel=x"; rel="prev nofollow"`, `<c.css>; rel=stylesheet, <d>;anchor="/other";rel=next, <e`, `<//x.test>; rel=preconnect`},
		"Refresh": {"0; url=r"},
	}
	raw := http.Header{"Link": {"</l\x82\xa0.html>; rel=next"}, "Refresh": {"0; url=/r\x95\\.html"}}
	if got, want := links(&Page{Links: HeaderLinks(raw, "http://h/")}), "l%82%A0.html T\nr%95%5C.html T\n"; got != want {
		t.Errorf("in Shift_JIS: %s, want %s", got, want)
	}
	p := &Page{Links: HeaderLinks(h, "http://h/")}
	if got, want := links(p), "a T\nb?x,y T n\nc.css\nr T\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// A form's fields are sent in the page's encoding.
func TestFormInPagesEncoding(t *testing.T) {
	body, err := japanese.EUCJP.NewEncoder().String("<title>" + prose + "</title><form action=/q><input name=k value=語></form>")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Links([]byte(body), "text/html", "http://h/")
	if err != nil || len(p.Links) != 1 || p.Links[0].URL != "http://h/q?k=%B8%EC" || p.Links[0].Tag != "form" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestAboutThePage(t *testing.T) {
	p, err := Links([]byte(`<title> A
	 title </title><title>no</title><svg><title>no</title></svg><meta name=robots content="none,NOARCHIVE">`), "text/html", "http://h/d/")
	if err != nil {
		t.Fatal(err)
	}
	if p.Title != "A title" || p.Robots != (preference.Tag{NoIndex: true, NoFollow: true, NoArchive: true}) {
		t.Errorf("%+v", p)
	}
	if _, err := Links(nil, "text/html", "x"); err == nil {
		t.Error("a relative base is taken")
	}
}

func TestLimits(t *testing.T) {
	var b strings.Builder
	for i := range MaxLinks + 10 {
		fmt.Fprintf(&b, "<a href=%d>", i)
	}
	p, err := Links([]byte(b.String()), "text/html", "http://h/")
	if err != nil || len(p.Links) != MaxLinks || !p.More {
		t.Errorf("%d links, more %v, %v", len(p.Links), p.More, err)
	}
	p, err = Links([]byte("<title>"+strings.Repeat("語", MaxBytes)), "text/html", "http://h/")
	if err != nil || len(p.Title) > MaxTitle || !p.More {
		t.Errorf("a title of %d bytes, more %v, %v", len(p.Title), p.More, err)
	}
}

func FuzzLinks(f *testing.F) {
	f.Add([]byte("<a href=a rel='x \x00y'>\xb8\xec<img alt='\xb8\xec\t'><br>b</a><a>c<area href=d alt=e>"), "text/html; charset=euc-jp")
	f.Add([]byte("<base href=x><a href='a?\x8c\xea'><img srcset='a,b 1x'><style>url(</style>\x1b$B"), "text/html; charset=x-sjis")
	f.Add([]byte("<urlset><loc>x</loc><link href=y/>"), "text/xml")
	f.Add([]byte("@import 'x';/*url('\\"), "text/css")
	f.Add([]byte(zipped("<urlset><loc>/a</loc>")), "application/gzip")
	f.Add([]byte("http://h/a\nhttps://h/b"), "text/plain")
	f.Add([]byte("<form action=a><input name=b value='\xb8\xec'><select name=c><option value=d></form><iframe srcdoc='<a href=x>'>"), "text/html; charset=euc-jp")
	f.Add([]byte("<applet code=a archive=b,c><object><param name=Local value=d><a href=1><base href='//x'>"), "")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		p, err := Links(body, contentType, "http://h/d/")
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(p.Text) || !utf8.ValidString(p.Title) || len(p.Text) > MaxText || len(p.Title) > MaxTitle || len(p.Links) > MaxLinks {
			t.Errorf("title of %d bytes, text of %d, %d links; or not UTF-8", len(p.Title), len(p.Text), len(p.Links))
		}
		for _, l := range p.Links {
			if !strings.HasPrefix(l.URL, "http://") && !strings.HasPrefix(l.URL, "https://") {
				t.Errorf("link %q", l.URL)
			}
			if !utf8.ValidString(l.Anchor) || utf8.RuneCountInString(l.Anchor) > MaxAnchor || strings.ContainsFunc(l.Anchor+l.Rel, goUnicode.IsControl) || !utf8.ValidString(l.Rel) || len(l.Rel) > MaxRel {
				t.Errorf("link %q has the anchor %q and the rel %q", l.URL, l.Anchor, l.Rel)
			}
		}
	})
}

func FuzzHeaderLinks(f *testing.F) {
	f.Add(`</a>; rel="next"; title="a\", <b>", <c>;anchor=x`, "0; url='d'")
	f.Add(`<<>>;=,;"`, ";")
	f.Fuzz(func(t *testing.T, link, refresh string) {
		for _, l := range HeaderLinks(http.Header{"Link": {link}, "Refresh": {refresh}}, "http://h/d/") {
			if !strings.HasPrefix(l.URL, "http://") && !strings.HasPrefix(l.URL, "https://") {
				t.Errorf("link %q", l.URL)
			}
		}
	})
}

// Words are what unicode takes for words, however the text is divided, as many as the limit lets
// pass.
func FuzzVisible(f *testing.F) {
	f.Add("a b\u3000日本\u00a0語\u2028c\u0085\u1680 é\xff\xe3\x80", "x  y z", 3)
	f.Add("word word", " and one more \n", MaxText/5)
	f.Fuzz(func(t *testing.T, first, then string, times int) {
		if times < 0 || times*len(then) > 4*MaxText {
			return
		}
		then = strings.Repeat(then, times)
		c := &collector{page: new(Page), maxText: MaxText}
		var want strings.Builder
		more := false
		for _, text := range []string{first, then} {
			if c.page.MoreText { // nobody asks for more
				break
			}
			c.visible([]byte(text))
			for word := range strings.FieldsSeq(text) {
				if more = more || want.Len()+len(word) >= MaxText; more {
					break
				}
				if want.Len() > 0 {
					want.WriteByte(' ')
				}
				want.WriteString(word)
			}
		}
		if c.text.String() != want.String() || c.page.MoreText != more {
			t.Errorf("%d bytes, more %t, want %d, %t:\n%.200q\n%.200q", c.text.Len(), c.page.MoreText, want.Len(), more, c.text.String(), want.String())
		}
	})
}

func BenchmarkLinks(b *testing.B) {
	body := []byte("<html><title>t</title>" + strings.Repeat("<p>"+prose+"<a href='page.html?x=1'>x</a><img src=/i.gif>", 100))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := Links(body, "text/html", "http://h/"); err != nil {
			b.Fatal(err)
		}
	}
}
