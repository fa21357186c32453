package httpd_test

import (
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/serve/records"
	"sheaf/serve/servetest"
)

// Queries find pages by their language, and the address of a page with txt_ has its text, until the
// page is taken down.
func TestLanguageAndText(t *testing.T) {
	t.Parallel()
	c := &crawl{Site: servetest.New(t, nil)}
	c.Account("all", "always", "*")
	// 題、日本語のページです。, in Shift_JIS.
	const japanese = "<title>\x91\xe8</title><p>\x93\xfa\x96{\x8c\xea\x82\xcc\x83y\x81[\x83W\x82\xc5\x82\xb7\x81B"
	c.Publish("20261101", map[string][]*archive.Record{"a.example.jp": {
		servetest.Page("http://a.example.jp/ja", japanese, day),
		servetest.Page("http://a.example.jp/en", "<p>This is a page in the language of many people.", day),
		answer(archive.Page, "http://a.example.jp/image", "HTTP/1.1 200 OK\nContent-Type: image/png", "\x89PNG\r\n\x1a\n", day),
	}})
	c.Publish("20261102", map[string][]*archive.Record{"a.example.jp": {servetest.Again("http://a.example.jp/ja", japanese, day, day.AddDate(0, 0, 1))}})
	c.Index()
	c.serve(t, records.Budget{})
	for query, want := range map[string]string{
		"language=ja": "ja Shift_JIS page\nja Shift_JIS revisit\n", "language=jpn&latest=true": "ja Shift_JIS revisit\n", "language=en": "en windows-1252 page\n",
		"filter=!language:ja&filter=mime:html": "en windows-1252 page\n", "filter==charset:Shift_JIS&limit=1": "ja Shift_JIS page\n",
	} {
		if _, got := c.do(t, "GET", "all", api.PathCDX+"?url=*.example.jp&output=text&fl=language,charset,kind&"+query, ""); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if resp, body := c.do(t, "GET", "all", api.PathCDX+"?language=klingonish", ""); resp.StatusCode != 400 || !strings.Contains(body, "want a language") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	path := "/web/" + day.UTC().Format("20060102150405") + "txt_/http://a.example.jp/"
	resp, body := c.do(t, "GET", "all", path+"ja", "")
	if h := resp.Header; body != "題\n日本語のページです。\n" || h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("Content-Language") != "ja" || h.Get("Memento-Datetime") == "" || h.Get("ETag") == "" {
		t.Errorf("%q with %v", body, h)
	}
	if resp, _ := c.do(t, "GET", "all", path+"ja", "", "If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != 304 {
		t.Errorf("the same again is answered with %d", resp.StatusCode)
	}
	if resp, _ := c.do(t, "GET", "all", path+"image", ""); resp.StatusCode != 404 {
		t.Errorf("a picture's text is answered with %d", resp.StatusCode)
	}
	c.takeDown(t, catalog.Tombstone{Host: "a.example.jp", URLPrefix: "http://a.example.jp/ja", Reason: "asked", By: "op"})
	if resp, body := c.do(t, "GET", "all", path+"ja", ""); resp.StatusCode != 404 || strings.Contains(body, "題") {
		t.Errorf("what is taken down is answered with %d %s", resp.StatusCode, body)
	}
}
