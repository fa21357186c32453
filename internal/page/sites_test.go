package page

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/text/encoding/japanese"

	"sheaf/internal/testkit"
)

// TestWaysOfLinking: links that real sites write otherwise than by href and src.
func TestWaysOfLinking(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, contentType, body, want string }{
		{"location", "text/html", `<script>location.href='a.html'; window.location = "b.html"; if (top.location=='no') location.replace('c.html')</script>`, "a.html T\nb.html T\nc.html T\n"},
		{"assign", "text/html", `<script>document.location.assign ( "a.html" );parent.frames[0].location.href ="b.html"</script>`, "a.html T\nb.html T\n"},
		{"escapes", "text/html", `<script>location.href="http:\/\/h\/a\x26b\u0063"</script>`, "a&bc T\n"},
		{"no address", "text/html", `<script>var location = 'Tokyo'; mylocation='no'; location.hash='no'; location='no'+x; location.href == 'no'; alert('location'); location="</no>"</script>`, ""},
		{"open", "text/html", `<script>window.open("a.html","w","width=1"); window.open(''); xhr.open('GET','no'); window.open('no'+id)</script>`, "a.html T\n"},
		{"handlers", "text/html", `<td onclick="location.href='a.html'"><input type=button onClick='window.open("b.html")'><div data-x="location='no'">`, "a.html T\nb.html T\n"},
		{"entities in handlers", "text/html", `<p onclick="location.href=&quot;a.html?x=1&amp;y=2&quot;">`, "a.html?x=1&y=2 T\n"},
		{"javascript:", "text/html", `<a href="javascript:window.open('a%2Ehtml')">x</a><a href="JavaScript: void(0)">`, "a.html T\n"},
		{"menu", "text/html", `<select onchange="location.href=this.value"><option value="">-<option value="a.html">a<option value="/b/">b<option value="c/d.html#e">c<option value="http://h/f">f</select>`,
			"a.html T\nb/ T\nc/d.html T\nf T\n"},
		{"no menu", "text/html", `<select><option value=1><option value="km/h"><option value="n/a"><option value="Tokyo"><option value="a b.html"></select>`, ""},
		{"svg use", "text/html", `<svg><use href="icons.svg#a"/><use xlink:href="#b"/><use xlink:href="more.svg#c"></svg>`, "icons.svg\nmore.svg\n"},
		{"svg use in SVG", "image/svg+xml", `<svg><use xlink:href="icons.svg#a"/></svg>`, "icons.svg\n"},
		{"Atom, escaped", "application/atom+xml", `<feed><base href="/no/"/><entry><content type="html">&lt;p&gt;&lt;a href="a?x=1&amp;amp;y"&gt;a&lt;/a&gt;&lt;img src=i&gt;&lt;base href="/no/"&gt;</content><link href="b"/></entry></feed>`, "a?x=1&y T\ni\nb T\n"},
		{"Atom, XHTML", "application/atom+xml", `<feed><entry><content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><a href="a">a</a><img src="i"/></div></content><link href="b"/></entry></feed>`, "a T\ni\nb T\n"},
		{"Atom, elsewhere", "application/atom+xml", `<feed><entry><content src="c"/><link href="b"/></entry></feed>`, "c\nb T\n"},
		{"RSS", "application/rss+xml", `<rss><item><description><![CDATA[<a href="a">a</a> <img src="i">]]></description><content:encoded><![CDATA[<a href="b">b</a>]]></content:encoded><link>c</link></item></rss>`, "a T\ni\nb T\nc T\n"},
		{"CSS escapes", "text/css", `a{b:url(a\20 b.png)} c{d:-webkit-image-set("e.png" 1x, url(f.png) 2x)} g{h:url("\65 5.png")}`, "a%20b.png\ne.png\nf.png\ne5.png\n"},
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

// TestNothingIsCutSilently: what a limit leaves out is counted by the limit.
func TestNothingIsCutSilently(t *testing.T) {
	t.Parallel()
	many := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, tt := range []struct {
		name, contentType, body string
		links                   int
		cut                     map[string]int
	}{
		{"a page", "text/html", many("<a href=%d>", MaxLinks), MaxLinks, nil},
		{"a page with too many links", "text/html", many("<a href=%d>", MaxLinks+7), MaxLinks, map[string]int{CutLinks: 7}},
		{"a page with far too many links", "text/html", many("<a href=%d>", 3*MaxLinks), MaxLinks, map[string]int{CutLinks: 2 * MaxLinks}},
		{"a page that is too long", "text/html", "<a href=a>" + strings.Repeat(" ", MaxBytes) + "<a href=b>", 1, map[string]int{CutBytes: 1}},
		{"a long link", "text/html", "<a href=" + strings.Repeat("a", 9000) + "><img src=data:" + strings.Repeat("a", 9000) + ">", 0, map[string]int{CutLength: 1}},
		{"a large form", "text/html", "<form>" + many("<input name=a%d>", maxFields+1) + "</form>", 0, map[string]int{CutFields: 1}},
		{"a sitemap of the protocol's size", "text/xml", "<urlset>" + many("<url><loc>http://h/%d</loc></url>", 50_000) + "</urlset>", 50_000, nil},
		{"a sitemap that is too large", "text/xml", "<urlset>" + many("<loc>http://h/%d</loc>", MaxSitemapLinks+3) + "</urlset>", MaxSitemapLinks, map[string]int{CutSitemapLinks: 3}},
		{"a list", "text/plain", many("http://h/%d\n", 50_000), 50_000, nil},
		{"a packed sitemap", "application/gzip", zipped("<urlset>" + many("<loc>http://h/%d</loc>", 50_000) + "</urlset>"), 50_000, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := Links([]byte(tt.body), tt.contentType, "http://h/")
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Links) != tt.links || fmt.Sprint(p.Cut) != fmt.Sprint(tt.cut) || p.More != (tt.cut != nil) {
				t.Errorf("%d links, want %d; cut %v, want %v; more %v", len(p.Links), tt.links, p.Cut, tt.cut, p.More)
			}
		})
	}
}

// endlessSitemap is a sitemap of n URLs, each with so much white space that all together are longer
// than what is searched of a page.
func endlessSitemap(n, bytesEach int) io.Reader {
	r, w := io.Pipe()
	go func() {
		fmt.Fprint(w, "<urlset>")
		blank := strings.Repeat(" ", bytesEach)
		for i := range n {
			if _, err := fmt.Fprintf(w, "<url><loc>http://h/%d</loc>%s</url>", i, blank); err != nil {
				return
			}
		}
		fmt.Fprint(w, "</urlset>")
		w.Close()
	}()
	return r
}

// TestStream: sitemaps are read up to the protocol's 50 MB, packed or not, and what is beyond is
// told.
func TestStream(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const each = 10 << 10
	most := MaxSitemapBytes / (each + len("<url><loc>http://h/1234</loc></url>"))
	p, err := Stream(endlessSitemap(3000, each), "text/xml", "http://h/")
	if err != nil || len(p.Links) != 3000 || p.Cut != nil {
		t.Errorf("30 MB: %d links, %v, %v", len(p.Links), p.Cut, err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.Copy(z, endlessSitemap(6000, each)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	p, err = Stream(&packed, "application/gzip", "http://h/")
	if err != nil || len(p.Links) < most-1 || len(p.Links) > most+1 || p.Cut[CutSitemapBytes] != 1 {
		t.Errorf("60 MB: %d links, want some %d; %v, %v", len(p.Links), most, p.Cut, err)
	}
	old, err := japanese.EUCJP.NewEncoder().String(`<?xml version="1.0" encoding="euc-jp"?><urlset><loc>http://h/日本</loc></urlset>`)
	if err != nil {
		t.Fatal(err)
	}
	p, err = Stream(strings.NewReader(old), "text/xml", "http://h/")
	if err != nil || len(p.Links) != 1 || p.Links[0].URL != "http://h/%E6%97%A5%E6%9C%AC" {
		t.Errorf("%+v, %v", p, err)
	}
	if Streams([]byte("<html>"), "text/html") || !Streams([]byte("<urlset>"), "") {
		t.Error("what is read as it comes is not told from other pages")
	}
}
