package media_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/media"
)

// TestOf: a header is read as browsers read it, however it is written.
func TestOf(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]media.Type{
		"":                            {},
		"TEXT/HTML":                   {Essence: "text/html"},
		" text/html ; Charset=UTF-8 ": {Essence: "text/html", Charset: "UTF-8"},
		"text/html;;charset=euc-jp":   {Essence: "text/html", Charset: "euc-jp"},
		"text/html;":                  {Essence: "text/html"},
		`text/html; a="b;charset=x"; charset="x-sjis"`: {Essence: "text/html", Charset: "x-sjis"},
		"text/html; charset=; charset=a; charset=b":    {Essence: "text/html", Charset: "a"},
		"text/html; charset =a":                        {Essence: "text/html"},
		"text/html charset=utf-8":                      {},
		"text/html(utf-8)":                             {},
		"html":                                         {},
		"text/":                                        {},
		"*/*":                                          {},
		"text/plain, text/html":                        {Essence: "text/html"},
		"text/html, text/html; charset=utf-8":          {Essence: "text/html", Charset: "utf-8"},
		"text/html; charset=utf-8, text/html":          {Essence: "text/html", Charset: "utf-8"},
		"text/html; charset=utf-8, text/css":           {Essence: "text/css"},
		"text/html; charset=utf-8, x, */*":             {Essence: "text/html", Charset: "utf-8"},
		`text/html; a="b, text/css"`:                   {Essence: "text/html"},
		"unk":                                          {},
	} {
		if got := media.TypeOf(in); got != want {
			t.Errorf("%q: %+v, want %+v", in, got, want)
		}
	}
	if got := media.ContentType(http.Header{"Content-Type": {"text/plain", "text/html"}}); media.TypeOf(got).Essence != "text/html" {
		t.Errorf("two fields: %q", got)
	}
}

// TestFamilies: pages, markup in XML and texts are told from other types.
func TestFamilies(t *testing.T) {
	t.Parallel()
	for essence, want := range map[string]string{
		"text/html": "page text", "application/xhtml+xml": "page markup text", "image/svg+xml": "markup text", "application/rss+xml": "text", "text/css": "text",
		"application/json": "text", "application/ld+json": "text", "application/x-javascript": "text", "application/octet-stream": "", "image/png": "", "": "", "unk": "",
	} {
		var got []string
		for name, is := range map[string]bool{"page": media.IsHTML(essence), "markup": media.IsXHTML(essence), "text": media.IsText(essence)} {
			if is {
				got = append(got, name)
			}
		}
		slices.SortFunc(got, func(a, b string) int {
			return strings.Index("page markup text", a) - strings.Index("page markup text", b)
		})
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", essence, got, want)
		}
	}
}

// TestSniff: the bytes decide only where there is no valid type, as in browsers.
func TestSniff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ contentType, body, want string }{
		{"", "<!-- by hand --><head>", "text/html"},
		{"", "\n\n<body bgcolor=white>", "text/html"},
		{"*/*", "<TITLE>t</TITLE>", "text/html"},
		{"unknown/unknown", "\xef\xbb\xbf<!doctype html>", "text/html"},
		{"application/unknown", "<p>a", "text/html"},
		{"html", "<?xml version='1.0'?><html>", "text/xml"},
		{"", "<phone>", "text/plain"},
		{"", "1997 <html>", "text/plain"},
		{"", "\x1b$B8l\x1b(B", "text/plain"},
		{"", "a\x00b", "application/octet-stream"},
		{"", "\x1f\x8b\x08", "application/x-gzip"},
		{"", "%PDF-1.4", "application/pdf"},
		{"text/plain", "<html>", "text/plain"},
		{"text/plain", "a\x00b", "application/octet-stream"},
		{"text/plain; charset=utf-8", "a\x00b", "text/plain"},
		{"application/octet-stream", "<html>", "application/octet-stream"},
		{"image/gif", "<html>", "image/gif"},
		{"text/html", "GIF89a", "text/html"},
	} {
		if got := media.Sniff(c.contentType, []byte(c.body)); got != c.want {
			t.Errorf("%q, %q: %s, want %s", c.contentType, c.body, got, c.want)
		}
	}
}

// No header and no body end what reads them.
func FuzzSniff(f *testing.F) {
	f.Add(`text/html; a="\`, []byte("<html"))
	f.Add(`a/b;charset="`, []byte("\xff\xfe"))
	f.Fuzz(func(t *testing.T, contentType string, head []byte) {
		if media.Sniff(contentType, head) == "" || media.TypeOf(contentType).Essence == "*/*" {
			t.Error("no type")
		}
	})
}
