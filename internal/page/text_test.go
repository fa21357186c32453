package page

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
)

// anchors writes a page's links one a line: URL, rel and anchor.
func anchors(p *Page) string {
	var b strings.Builder
	for _, l := range p.Links {
		fmt.Fprintf(&b, "%s|%s|%s\n", strings.TrimPrefix(l.URL, "http://h/"), l.Rel, l.Anchor)
	}
	return b.String()
}

// TestAnchors: an index of words finds a page by what others call it.
func TestAnchors(t *testing.T) {
	for _, tt := range []struct{ name, contentType, body, want string }{
		{"text", "text/html", `<a href=a rel="Next  UGC">The <b>next</b>page</a> after<a href=b></a><a name=c>no</a>`, "a|next ugc|The nextpage\nb||\n"},
		{"blanks", "text/html", "<a href=a>\n one\u3000\u3000two&nbsp;\tthree\x00four<br>five<p>six </a>", "a||one two three four five six\n"},
		{"images", "text/html", `<a href=a><img src=i alt=" A  B "></a><a href=b><img src=j alt=no>text<img src=j></a><a href=c><img src=k alt=one><img src=l alt=two></a>`,
			"a||A B\ni||\nb||text\nj||\nc||one two\nk||\nl||\n"},
		{"map", "text/html", `<map><area href=a alt="the  south"></map>`, "a||the south\n"},
		{"the first with a text", "text/html", `<a href=a><img src=i></a><a href=a rel=x>name</a><a href=a>other</a>`, "a||name\ni||\n"},
		{"no end", "text/html", `<a href=a>one<a href=b>two`, "a||one\nb||two\n"},
		{"nested", "text/html", `<a href=a>one<a>two</a>three</a>`, "a||one\n"},
		{"no text", "text/html", `<a href=a><script>no()</script><style>no{}</style><!-- no -->yes</a>`, "a||yes\n"},
		{"noscript", "text/html", `<a href=a><noscript><img src=i alt=yes></noscript></a>`, "a||yes\ni||\n"},
		{"entities", "text/html", `<a href=a>A &amp; &#x8a9e;</a>`, "a||A & 語\n"},
		{"XHTML", "application/xhtml+xml", `<html xmlns:h="x"><a href="a"/>no<h:a href="b">yes</h:a>no</html>`, "a||\nb||yes\n"},
		{"SVG", "image/svg+xml", `<svg><a xlink:href="a"><title>no</title><text>yes</text></a></svg>`, "a||yes\n"},
		{"no pages", "text/html", `<a href="javascript:x()">no</a><a href="data:text/html,x">no</a><a href="mailto:a@b">no</a><a href=a>yes</a>`, "a||yes\n"},
		{"feed", "application/rss+xml", `<rss><item><title>no</title><link>/a</link><description>&lt;a href="/b"&gt;no&lt;/a&gt;</description></item></rss>`, "a||\nb||\n"},
		{"rel", "text/html", `<link rel="  Alternate  stylesheet " href=a><a href=b rel="` + strings.Repeat("word ", 100) + `">x</a>`, "a|alternate stylesheet|\nb|" + strings.TrimSpace(strings.Repeat("word ", 20)) + "|x\n"},
	} {
		p, err := Links([]byte(tt.body), tt.contentType, "http://h/")
		if err != nil {
			t.Fatal(err)
		}
		if got := anchors(p); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// TestAnchorsInOldEncodings: they are UTF-8, however the page is written and whatever it declares.
func TestAnchorsInOldEncodings(t *testing.T) {
	for name, enc := range map[string]encoding.Encoding{"euc-jp": japanese.EUCJP, "shift_jis": japanese.ShiftJIS, "iso-2022-jp": japanese.ISO2022JP} {
		body, err := enc.NewEncoder().String("<title>" + prose + "</title><a href=a rel=前>表示　ソース</a><a href=b><img src=i alt='能力'></a>")
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range []string{"text/html", "text/html; charset=utf-8"} {
			p, err := Links([]byte(body), declared, "http://h/")
			if err != nil {
				t.Fatal(err)
			}
			if got, want := anchors(p), "a|前|表示 ソース\nb||能力\ni||\n"; got != want {
				t.Errorf("%s as %s:\n%s\nwant\n%s", name, declared, got, want)
			}
		}
	}
}

// TestAnchorsAreBounded: neither one long text nor very many make a page's links large.
func TestAnchorsAreBounded(t *testing.T) {
	p, err := Links([]byte("<a href=a>"+strings.Repeat("語", 400<<10)+"<a href=b>"+strings.Repeat("b ", 1<<20)+"<a href=c><img alt='"+strings.Repeat("c", 1<<20)+"'>"), "text/html", "http://h/")
	if err != nil || len(p.Links) != 3 {
		t.Fatalf("%d links, %v", len(p.Links), err)
	}
	for _, l := range p.Links {
		if n := utf8.RuneCountInString(l.Anchor); n < MaxAnchor-1 || n > MaxAnchor {
			t.Errorf("%s has an anchor of %d characters", l.URL, n)
		}
	}
	var many strings.Builder
	for i := range MaxLinks {
		fmt.Fprintf(&many, "<a href=%d>%s</a>", i, strings.Repeat("x", MaxAnchor))
	}
	if p, err = Links([]byte(many.String()), "text/html", "http://h/"); err != nil || len(p.Links) != MaxLinks {
		t.Fatalf("%d links, %v", len(p.Links), err)
	}
	all := 0
	for _, l := range p.Links {
		all += len(l.Anchor)
	}
	if all != MaxAnchors || p.Links[MaxRecorded-1].Anchor == "" {
		t.Errorf("%d bytes of anchors; the last that is recorded has %q", all, p.Links[MaxRecorded-1].Anchor)
	}
	deep := "<a href=a>" + strings.Repeat("<b>", 1_000_000) + "x"
	if p, err = Links([]byte(deep), "text/html", "http://h/"); err != nil || anchors(p) != "a||x\n" {
		t.Errorf("of a million nested elements: %s, %v", anchors(p), err)
	}
}
