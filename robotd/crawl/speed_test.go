package crawl

import (
	"net/http"
	"testing"

	"sheaf/robotd/fetch"
)

// The speed of a server is measured by its pages, also by those that have not changed.
func TestPagesBesideFiles(t *testing.T) {
	for _, c := range []struct {
		status     int
		url, media string
		want       bool
	}{
		{200, "/", "text/html; charset=utf-8", true},
		{200, "/a", "application/xhtml+xml", true},
		{200, "/a.gif", "image/gif", false},
		{200, "/a.pdf", "application/pdf", false},
		{200, "/a.css", "text/css", false},
		{200, "/a", "", true},
		{200, "/a.cgi", "text/html charset=utf-8", true},
		{200, "/a", "image/gif, text/html", true},
		{304, "/a.html", "", true},
		{304, "/list?of=a.gif", "", true},
		{304, "/a.gif", "", false},
		{404, "/a.html", "text/html", false},
	} {
		resp := &fetch.Response{Status: c.status, Header: http.Header{}}
		if c.media != "" {
			resp.Header.Set("Content-Type", c.media)
		}
		if got := isPage(resp, "http://www.a.test"+c.url); got != c.want {
			t.Errorf("%d %s %q: %t", c.status, c.url, c.media, got)
		}
	}
}
