package replay

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

var then = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// show rewrites a page of http://h/d/p.html.
func show(t testing.TB, body, contentType, banner string) (string, *Document) {
	t.Helper()
	d, err := Open(strings.NewReader(body), contentType, "http://h/d/p.html")
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	if banner != "" {
		b = []byte(banner)
	}
	var out bytes.Buffer
	if err := d.Rewrite(&out, then, false, b); err != nil {
		t.Fatal(err)
	}
	return out.String(), d
}

const at = "/web/20261121030000/http://h/"

func TestRewrite(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"links":            {`<A HREF = 'x.html?a=1&amp;b=2#p' Class=k>x</A>`, `<A href="` + at + `d/x.html?a=1&amp;b=2#p" Class=k>x</A>`},
		"unquoted":         {`<a href=/x/y>x</a><a href=//o.jp>`, `<a href="` + at + `x/y">x</a><a href="/web/20261121030000/http://o.jp/">`},
		"as it was":        {`<P aLign=left>a &nbsp; b<BR/>c<br />`, `<P aLign=left>a &nbsp; b<BR/>c<br />`},
		"same page":        {`<a href="#top">t</a><a href="mailto:x@y.jp">m</a>`, `<a href="#top">t</a><a href="mailto:x@y.jp">m</a>`},
		"base":             {`<a href=x><base href="/b/" target=_top><a href="#f">`, `<a href="` + at + `b/x"><base  target=_top><a href="` + at + `b/#f">`},
		"scripts":          {`a<script src=x>"</p>"</script>b<a href=" java&#10;script:f()" onclick="f()">c`, `ab<a  >c`},
		"handlers":         {`<body onload=f() ONUNLOAD='g()' bgcolor=red>`, `<body   bgcolor=red>`},
		"twice":            {`<a onclick=f() onclick=g() href=x href=javascript:f()>`, `<a   href="` + at + `d/x" >`},
		"noscript":         {`<noscript><img src=i></noscript>`, `<noscript><img src="` + at + `d/i"></noscript>`},
		"srcset":           {`<img srcset="a.png 1x, b,c.png 2x ,d">`, `<img srcset="` + at + `d/a.png 1x, ` + at + `d/b%2Cc.png 2x, ` + at + `d/d">`},
		"style":            {`<style>@import "a.css"; p{background:URL( 'b(1).gif' )}/* url(no) */</style>`, `<style>@import "` + at + `d/a.css"; p{background:url("` + at + `d/b(1).gif")}/* url(no) */</style>`},
		"style=":           {`<p style="background:url(&quot;a.gif&quot;);color:red">`, `<p style="background:url(&quot;` + at + `d/a.gif&quot;);color:red">`},
		"image-set":        {`<style>a{b:image-set("a.png" 1x,"b.png" type("image/png") 2x);content:"c.png"}</style>`, `<style>a{b:image-set("` + at + `d/a.png" 1x,"` + at + `d/b.png" type("image/png") 2x);content:"c.png"}</style>`},
		"css escapes":      {`<style>a{b:url(a\)b.gif);c:url("\64 .gif")}</style>`, `<style>a{b:url("` + at + `d/a)b.gif");c:url("` + at + `d/d.gif")}</style>`},
		"css broken":       {`<style>a{b:url("x` + "\n" + `)}c{d:url(e`, `<style>a{b:url("x` + "\n" + `)}c{d:url(e`},
		"refresh":          {`<meta http-equiv=Refresh content="0; URL='r.html'">`, `<meta http-equiv=Refresh content="0; url=` + at + `d/r.html">`},
		"policy":           {`<meta http-equiv="Content-Security-Policy" content="img-src 'none'"><meta name=a content=b>`, `<meta name=a content=b>`},
		"early":            {`<link rel="dns-prefetch" href=//o.jp><link rel=stylesheet integrity=x crossorigin href=c.css>`, `<link rel=stylesheet   href="` + at + `d/c.css">`},
		"more than a hint": {`<link rel="preload stylesheet" href=a><link rel="Icon prefetch" href=b><link rel="preload prefetch" href=c>`, `<link rel="preload stylesheet" href="` + at + `d/a"><link rel="Icon prefetch" href="` + at + `d/b">`},
		"css names": {`<style>@namespace url(http://n/x);@NAMESPACE s "y;{";@namespace t url("z;");@import "a.css";s|a{b:url(c)}</style>`,
			`<style>@namespace url(http://n/x);@NAMESPACE s "y;{";@namespace t url("z;");@import "` + at + `d/a.css";s|a{b:url("` + at + `d/c")}</style>`},
		"lone percent": {`<a href="/100%"><a href="/bad%zz?%4"><a href="/fine%41">`, `<a href="` + at + `100%25"><a href="` + at + `bad%25zz?%254"><a href="` + at + `fine%41">`},
		"forms":        {`<form action="/go" method=post><input name=q><input type=submit value=Go><button>b</button></form>`, `<form  method=post><input name=q><input type=submit value=Go disabled="disabled"><button disabled="disabled">b</button></form>`},
		"button ends":  {`<input type=submit /><input type=submit value=a/>`, `<input type=submit  disabled="disabled"/><input type=submit value=a/ disabled="disabled">`},
		"frames":       {`<frameset><frame src=f.html name=main></frameset>`, `<frameset><frame src="/web/20261121030000if_/http://h/d/f.html" name=main></frameset>`},
		"srcdoc":       {`<iframe srcdoc="<a href='x'>&amp;eacute;</a>"></iframe>`, `<iframe srcdoc="&lt;a href=&quot;/web/20261121030000if_/http://h/d/x&quot;&gt;&amp;eacute;&lt;/a&gt;"></iframe>`},
		"objects":      {`<object data=o.svg><param name=movie value=m></object><video poster=p src=v autoplay>`, `<object data="/web/20261121030000if_/http://h/d/o.svg"><param name=movie value=m></object><video poster="` + at + `d/p" src="` + at + `d/v" >`},
		"svg":          {`<svg><image xlink:href="i.png"/></svg>`, `<svg><image xlink:href="` + at + `d/i.png"/></svg>`},
		"sticks":       {`<img src='a.png'alt=x>`, `<img src="` + at + `d/a.png" alt=x>`},
		"text":         {`<textarea><a href=x></textarea><!-- <a href=x> --><title><a href=x></title>`, `<textarea><a href=x></textarea><!-- <a href=x> --><title><a href=x></title>`},
		"half a tag":   {`a<a href="x`, `a<a href="x`},
		"backslashes":  {`<a href="\\o.jp\x">a</a><p style='a:url("y?\\")'>`, `<a href="/web/20261121030000/http://o.jp/x">a</a><p style="a:url(&quot;` + at + `d/y?\\&quot;)">`},
		"other scheme": {`<a href="ftp://h/x">f</a><img src="data:image/gif;base64,R0">`, `<a href="ftp://h/x">f</a><img src="data:image/gif;base64,R0">`},
	} {
		if got, _ := show(t, c.in, "text/html; charset=utf-8", ""); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
	}
}

func TestFramed(t *testing.T) {
	d, err := Open(strings.NewReader(`<a href=a>a</a><a href=b target=main>b</a><a href=c target=_TOP>c</a>`), "text/html", "http://h/")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := d.Rewrite(&out, then, true, nil); err != nil {
		t.Fatal(err)
	}
	const in = "/web/20261121030000if_/http://h/"
	want := `<a href="` + in + `a">a</a><a href="` + in + `b" target=main>b</a><a href="` + at + `c" target=_TOP>c</a>`
	if out.String() != want {
		t.Errorf("%s, want\n%s", out.String(), want)
	}
}

// TestBanner: the banner does not change the page's mode or how its head is parsed.
func TestBanner(t *testing.T) {
	for in, want := range map[string]string{
		`<!DOCTYPE html><html><head><title>t</title></head><BODY class=c>x`:              `<!DOCTYPE html><html><head><title>t</title></head><BODY class=c>[B]x`,
		"<!-- c --><!DOCTYPE html>\n<title>t</title>\n<link rel=stylesheet href=a><p>hi": "<!-- c --><!DOCTYPE html>\n<title>t</title>\n<link rel=stylesheet href=\"" + at + "d/a\">[B]<p>hi",
		`just text`:                 `[B]just text`,
		``:                          `[B]`,
		`<title>only</title>`:       `<title>only</title>[B]`,
		`<body>a<body>b`:            `<body>[B]a<body>b`,
		`<script>f()</script>x`:     `[B]x`,
		`<noscript>x</noscript><p>`: `<noscript>x</noscript>[B]<p>`,
	} {
		if got, _ := show(t, in, "text/html", "[B]"); got != want {
			t.Errorf("%q:\n%q, want\n%q", in, got, want)
		}
	}
	if got, _ := show(t, `<svg><a href="x"/></svg>`, "image/svg+xml", "[B]"); strings.Contains(got, "[B]") {
		t.Errorf("in an image: %s", got)
	}
}

const japaneseText = "表示能力ソフト。日本語のページです。漢字かな交じり文で、カタカナも混ぜて、文字コードの判別に足りる長さにしてあります。"

// TestEncodings: in each encoding, text keeps its bytes, and links lead where they would in a
// browser.
func TestEncodings(t *testing.T) {
	page := func(href string) string {
		return `<html><body>` + japaneseText + `<a title="表" href="` + href + `">表</a><style>a{b:url(表.gif)} c{d:url("表")}</style></body></html>`
	}
	for _, c := range []struct {
		name, out string
		enc       encoding.Encoding
		query     string
	}{
		{"utf-8", "utf-8", encoding.Nop, "%E8%AA%9E"},
		{"euc-jp", "euc-jp", japanese.EUCJP, "%B8%EC"},
		{"shift_jis", "shift_jis", japanese.ShiftJIS, "%8C%EA"},
		{"iso-2022-jp", "utf-8", japanese.ISO2022JP, "%1B$B8l%1B(B"},
		{"utf-16le", "utf-8", unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), "%E8%AA%9E"},
		{"utf-16be", "utf-8", unicode.UTF16(unicode.BigEndian, unicode.UseBOM), "%E8%AA%9E"},
	} {
		body, err := c.enc.NewEncoder().String(page("表/x?q=語#語"))
		if err != nil {
			t.Fatal(err)
		}
		got, d := show(t, body, "text/html", "")
		if d.Encoding != c.out {
			t.Errorf("%s leaves as %s", c.name, d.Encoding)
		}
		text := got
		if c.out == c.name {
			if text, err = c.enc.NewDecoder().String(got); err != nil {
				t.Fatal(err)
			}
		}
		want := page(at + "d/%E8%A1%A8/x?q=" + c.query + "#%E8%AA%9E")
		want = strings.Replace(want, `url(表.gif)`, `url("`+at+`d/%E8%A1%A8.gif")`, 1)
		want = strings.Replace(want, `url("表")`, `url("`+at+`d/%E8%A1%A8")`, 1)
		if text != want {
			t.Errorf("%s:\n%s, want\n%s", c.name, text, want)
		}
		if c.out == c.name && !strings.Contains(got, body[len("<html><body>"):len("<html><body>")+30]) {
			t.Errorf("%s: the text's bytes are others", c.name)
		}
	}
}

// TestDamagedBytesStay: bytes that are invalid in the page's encoding do not change.
func TestDamagedBytesStay(t *testing.T) {
	sjis, err := japanese.ShiftJIS.NewEncoder().String(japaneseText)
	if err != nil {
		t.Fatal(err)
	}
	body := "<p>" + sjis + "\xff\x81<p>" + sjis
	if got, _ := show(t, body, "text/html; charset=shift_jis", ""); got != body {
		t.Errorf("%q, want %q", got, body)
	}
}

func TestStyleSheet(t *testing.T) {
	got, d := show(t, "@charset \"utf-8\";\n@import url(a.css);b{c:url(d.gif)}", "text/css", "[B]")
	want := "@charset \"utf-8\";\n@import url(\"" + at + "d/a.css\");b{c:url(\"" + at + "d/d.gif\")}"
	if got != want || d.ContentType() != "text/css; charset=utf-8" {
		t.Errorf("%s\n%s, want\n%s", d.ContentType(), got, want)
	}
}

// TestLargePages: a page larger than memory is rewritten to its end, and a page with a token that
// is too large is passed on.
func TestLargePages(t *testing.T) {
	body := strings.Repeat("<p>"+strings.Repeat("text ", 1000), 1000) + "<a href=x>"
	if got, _ := show(t, body, "text/html", ""); !strings.HasSuffix(got, `<a href="`+at+`d/x">`) || len(got) < len(body) {
		t.Errorf("%d bytes of %d, ending in %q", len(got), len(body), got[len(got)-50:])
	}
	body = "<a href=x><p title='" + strings.Repeat("long ", maxToken/4) + "'>" + strings.Repeat("<a href=y>", 1000)
	got, _ := show(t, body, "text/html", "")
	if want := `<a href="` + at + `d/x">` + body[len("<a href=x>"):]; got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

func TestLook(t *testing.T) {
	for in, want := range map[string]struct {
		frameset bool
		refresh  string
	}{
		`<frameset rows=1><frame>`:        {true, ""},
		`<body><frameset>`:                {false, ""},
		`<noframes><frameset></noframes>`: {false, ""},
		`<meta http-equiv=refresh content="3;url=n.html"><base href=/b/>`:          {false, "http://h/b/n.html"},
		`<meta http-equiv=refresh content="3"><meta http-equiv=x content="0;y">`:   {false, ""},
		`<script>"<meta http-equiv=refresh content='0;url=x'><frameset>"</script>`: {false, ""},
	} {
		if _, d := show(t, in, "text/html", ""); d.Frameset != want.frameset || d.Refresh != want.refresh {
			t.Errorf("%s: frameset %t, refresh %q", in, d.Frameset, d.Refresh)
		}
	}
}

// TestType: a page is one whatever its header says wrongly, and text stays text.
func TestType(t *testing.T) {
	t.Parallel()
	const page = `<title>t</title><a href=x>`
	for contentType, want := range map[string]Kind{
		"text/html charset=utf-8": HTML, "text/plain, text/html": HTML, "html": HTML, "": HTML, "*/*": HTML,
		"text/html;;charset=utf-8": HTML, "text/html, text/plain": Text, "text/css": CSS, "application/octet-stream": Other,
	} {
		got, d := show(t, page, contentType, "")
		if d.Kind != want || strings.Contains(got, at) != (want == HTML) || want == HTML && !strings.HasPrefix(d.ContentType(), "text/html; charset=") {
			t.Errorf("%q: kind %d, sent as %s: %s", contentType, d.Kind, d.ContentType(), got)
		}
	}
}

// TestXML: XML is rewritten as XML, and stays well-formed.
func TestXML(t *testing.T) {
	t.Parallel()
	const xhtml = "application/xhtml+xml"
	for name, c := range map[string]struct{ contentType, in, want string }{
		"empty elements": {xhtml, `<html><title/><script src="x"/><style/><iframe src="f"/><textarea/><a href="x">a</a></html>`,
			`<html><title/><style/><iframe src="/web/20261121030000if_/http://h/d/f"/><textarea/><a href="` + at + `d/x">a</a></html>`},
		"of SVG":      {"image/svg+xml", `<svg><title/><style/><a xlink:href="x"/></svg>`, `<svg><title/><style/><a xlink:href="` + at + `d/x"/></svg>`},
		"SVG in HTML": {"text/html", `<svg><title/><script/><style/><a xlink:href="x"/><script><g/></svg><a href=x>`, `<svg><title/><style/><a xlink:href="` + at + `d/x"/></svg><a href="` + at + `d/x">`},
		"scripts":     {xhtml, `<html><script><!-- f() --> g() <![CDATA[</script>]]></script>a<link rel="prefetch" href="x"></link></html>`, `<html>a</html>`},
		"prefixes":    {"text/xml", `<h:html><h:script>f()</h:script><h:a href="x"/></h:html>`, `<h:html><h:a href="` + at + `d/x"/></h:html>`},
		"style": {xhtml, `<html><style>a{b:url(c?d&amp;e)} a>b{}</style><style><![CDATA[a{b:url(c?d&e)}]]></style><style>a&gt;b{}</style></html>`,
			`<html><style>a{b:url("` + at + `d/c?d&amp;e")} a&gt;b{}</style><style><![CDATA[a{b:url("` + at + `d/c?d&e")}]]></style><style>a&gt;b{}</style></html>`},
		"base": {xhtml, `<html xml:base="/b/"><a href="x"/><p xml:base="c/"><a href="x"/></p><a href="x"/></html>`, `<html ><a href="` + at + `b/x"/><p ><a href="` + at + `b/c/x"/></p><a href="` + at + `b/x"/></html>`},
		"base and what is left out": {xhtml, `<html xml:base="/b/"><script><g><h/></g></script><link rel="prefetch"><g/></link><a href="x"/><p xml:base="c/"><script><g></g></script><a href="x"/></p><a href="x"/></html>`,
			`<html ><a href="` + at + `b/x"/><p ><a href="` + at + `b/c/x"/></p><a href="` + at + `b/x"/></html>`},
		"sheet":      {xhtml, `<?xml version="1.0"?><?xml-stylesheet type="text/css" href='/s.css?a&amp;b'?><html/>`, `<?xml version="1.0"?><?xml-stylesheet type="text/css" href="` + at + `s.css?a&amp;b" ?><html/>`},
		"sitemap":    {"text/xml", `<?xml-stylesheet href="/m.xsl" ?><urlset><loc>http://h/</loc><a href="x"/><script/></urlset>`, `<?xml-stylesheet href="` + at + `m.xsl" ?><urlset><loc>http://h/</loc><a href="x"/><script/></urlset>`},
		"XSLT":       {"text/xsl", `<xsl:stylesheet><xsl:include href="/i.xsl"/><a href="{loc}"/></xsl:stylesheet>`, `<xsl:stylesheet><xsl:include href="` + at + `i.xsl"/><a href="{loc}"/></xsl:stylesheet>`},
		"references": {"text/html", `<a href="?a&section=1&copy=2&region"><a href="?c&copy;=1">`, `<a href="` + at + `d/p.html?a&amp;section=1&amp;copy=2&amp;region"><a href="` + at + `d/p.html?c%A9=1">`},
	} {
		got, d := show(t, c.in, c.contentType, "")
		if got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
		if !strings.HasPrefix(d.ContentType(), c.contentType) {
			t.Errorf("%s is sent as %s", name, d.ContentType())
		}
	}
	if c, err := Read(strings.NewReader(`<html><title/><p>text</p></html>`), xhtml); err != nil || len(c.Blocks) != 1 || c.Blocks[0] != "text" {
		t.Errorf("text of XHTML: %+v, %v", c, err)
	}
}
