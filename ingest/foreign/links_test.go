package foreign

import (
	"archive/tar"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding/japanese"

	pages "sheaf/internal/page"
	"sheaf/internal/testkit"
)

// TestLinks: imported pages have the links that a robot would have found on them, with texts in
// UTF-8 from the encodings of 1999.
func TestLinks(t *testing.T) {
	const text = "<title>日本語のページです。漢字かな交じり文です。</title><a href=b.html rel=Next>次の　頁</a><a href=/><img src=i.gif alt=表紙></a>"
	sjis, err := japanese.ShiftJIS.NewEncoder().String(text)
	testkit.Must(t, err)
	jis, err := japanese.ISO2022JP.NewEncoder().String(text)
	testkit.Must(t, err)
	want := func(host string) string {
		return strings.NewReplacer("~", "http://"+host+"/", "|", "\t").Replace("~a.html|~b.html|a|next|次の 頁\n~a.html|~|a||表紙\n~a.html|~i.gif|img||\n")
	}
	for name, body := range map[string]string{"shift_jis": sjis, "iso-2022-jp": jis} {
		c, err := convert(t, tree(t, tar.FormatGNU, map[string]string{"www.example.jp/a.html": body, "www.example.jp/i.gif": "GIF89a<a href=no>"}, "www.example.jp/a.html", "www.example.jp/i.gif"), nil)
		testkit.Must(t, err)
		if got := c.links; got != want("www.example.jp") {
			t.Errorf("of a tree in %s:\n%s\nwant\n%s", name, got, want("www.example.jp"))
		}
		if c.pages["http://www.example.jp/a.html"] != body {
			t.Errorf("a page in %s was changed", name)
		}
	}

	answer := "Content-Type: application/http; msgtype=response\r\n"
	warc := strings.Join([]string{
		rec("1.0", "response", "http://a.example.jp/a.html", answer, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=x-sjis\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks(sjis)),
		rec("1.0", "response", "http://a.example.jp/old", answer, "HTTP/1.1 301 Moved\r\nLocation: a.html#x\r\nContent-Length: 0\r\n\r\n"),
		rec("1.0", "response", "http://a.example.jp/gone", answer, "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n<a href=no>no</a>"),
		rec("1.0", "response", "http://a.example.jp/f.css", answer, "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nLink: <next>; rel=next\r\n\r\nb{background:url(i.gif)}"),
		rec("1.0", "response", "http://a.example.jp/bad", answer, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<a href='javascript:x()'>x</a><a href='data:text/html,x'>x</a><a href='http://[bad/'>x</a>"),
	}, "")
	c, err := convert(t, warc, nil)
	testkit.Must(t, err)
	all := want("a.example.jp") + "http://a.example.jp/old\thttp://a.example.jp/a.html\tredirect\t\t\n" +
		"http://a.example.jp/f.css\thttp://a.example.jp/next\theader\tnext\t\nhttp://a.example.jp/f.css\thttp://a.example.jp/i.gif\tcss\t\t\n"
	if c.links != all {
		t.Errorf("of a WARC:\n%s\nwant\n%s", c.links, all)
	}
}

// TestManyLinks: of a page with very many links as many are kept as of a robot's.
func TestManyLinks(t *testing.T) {
	var many strings.Builder
	for i := range 100 * pages.MaxRecorded {
		fmt.Fprintf(&many, "<a href=%d>", i)
	}
	body := many.String()
	c, err := convert(t, tree(t, tar.FormatGNU, map[string]string{"www.example.jp/a.html": body}, "www.example.jp/a.html"), nil)
	testkit.Must(t, err)
	if n := strings.Count(c.links, "\n"); n != pages.MaxRecorded {
		t.Errorf("%d links, want %d", n, pages.MaxRecorded)
	}
	if c.pages["http://www.example.jp/a.html"] != body {
		t.Error("the page was changed")
	}
}
