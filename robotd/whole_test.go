package robotd

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// TestRobotsTxtThatBreaksOff: what a robots.txt that did not come whole forbids further down is not
// fetched, nor is anything else of the host (RFC 9309, 2.3.1.4). It is asked for again.
func TestRobotsTxtThatBreaksOff(t *testing.T) {
	t.Parallel()
	text := "User-agent: other\nDisallow: /\n\n#" + strings.Repeat("x", 3000) + "\nUser-agent: *\nDisallow: /private/\n"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(text))
	testkit.Must(t, z.Close())
	cut := text[:1500]
	length := func(n int, more ...string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n", n, strings.Join(more, ""))
	}
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, answer := range map[string]string{
		"whole":   length(len(text)) + text,
		"length":  length(len(text)) + cut,
		"chunk":   fmt.Sprintf("%s%x\r\n%s", chunked, len(text), cut),
		"chunks":  fmt.Sprintf("%s%x\r\n%s\r\n", chunked, len(cut), cut),
		"gzip":    length(packed.Len()-20, "Content-Encoding: gzip\r\n") + packed.String()[:packed.Len()-20],
		"sum":     length(packed.Len(), "Content-Encoding: gzip\r\n") + packed.String()[:packed.Len()-8] + "12345678",
		"br":      length(len(text), "Content-Encoding: br\r\n") + text,
		"zstd":    length(len(text), "Content-Encoding: zstd\r\n") + text,
		"deflate": length(len(text), "Content-Encoding: deflate\r\n") + text,
		"part":    strings.Replace(length(len(cut))+cut, "200 OK", "206 Partial Content", 1),
		"none":    "HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nnot",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80"})
			cfg.Interval, cfg.Window = 20*time.Second, "02:00-08:00 UTC"
			var mu sync.Mutex
			asked := make(map[string]int)
			night(t, cfg, func(_, path string, n int) string {
				mu.Lock()
				defer mu.Unlock()
				asked[path]++
				if path == "/robots.txt" {
					return answer
				}
				return length(60, "Content-Type: text/html\r\n") + "<a href=/private/a.html>a</a> <a href=/open.html>open</a>      "
			}, nil)
			whole := name == "whole" || name == "none"
			if open := asked["/open.html"]; open != 1 == whole {
				t.Errorf("%d visits to an open page", open)
			}
			if private := asked["/private/a.html"]; private > 0 && name != "none" {
				t.Errorf("%d visits to what is forbidden", private)
			}
			if n := asked["/robots.txt"]; n > 1 == whole || n == 0 {
				t.Errorf("%d visits to robots.txt", n)
			}
		})
	}
}

// TestSitemapsByPath: a robots.txt names sitemaps also by their path, which is that of its host.
func TestSitemapsByPath(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80"})
	cfg.Interval, cfg.Window = 20*time.Second, "02:00-08:00 UTC"
	answers := map[string]string{
		"/robots.txt": "User-agent: *\nDisallow: /x\nSitemap: /maps/a.xml\nsitemap: maps/b.xml\nSitemap: //www.a.test/c.xml\n" +
			"Sitemap: http://www.a.test/d.xml\nSitemap: http://elsewhere.test/e.xml\nSitemap: ::\n",
		"/": "<p>top",
	}
	var mu sync.Mutex
	asked := make(map[string]bool)
	night(t, cfg, func(_, path string, n int) string {
		mu.Lock()
		defer mu.Unlock()
		asked[path] = true
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answers[path]), answers[path])
	}, nil)
	for _, path := range []string{"/maps/a.xml", "/maps/b.xml", "/c.xml", "/d.xml"} {
		if !asked[path] {
			t.Errorf("the sitemap %s was not fetched", path)
		}
	}
}
