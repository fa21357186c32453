package format

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/naming"
	"sheaf/internal/testkit"
)

// site is what is put into the segment of a host, in order.
type site struct {
	host    string
	records []entry
}

// entry makes the record again each time, because a body can be read only once.
type entry struct {
	archive.Record
	body []byte
}

func (e *entry) record() *archive.Record {
	r := e.Record
	if r.Kind != archive.Revisit {
		r.Body = bytes.NewReader(e.body)
	}
	return &r
}

var firstNight = time.Date(2026, 11, 20, 23, 59, 58, 123456789, time.UTC)

func (s *site) add(kind archive.Kind, url, http string, body []byte) *entry {
	if !strings.Contains(url, "://") {
		url = "http://" + s.host + url
	}
	s.records = append(s.records, entry{archive.Record{
		Kind: kind, URL: url, HTTP: []byte(http), IP: "192.0.2.1", Time: firstNight.Add(time.Duration(len(s.records)) * 1234567890),
	}, body})
	return &s.records[len(s.records)-1]
}

func (s *site) page(url, mimeType string, body []byte) *entry {
	return s.add(archive.Page, url, "HTTP/1.1 200 OK\r\nContent-Type: "+mimeType+"\r\n\r\n", body)
}

// noise makes n bytes that do not compress.
func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	var key [32]byte
	key[0] = byte(seed)
	io.ReadFull(rand.NewChaCha8(key), b) // cannot fail
	return b
}

// awkwardSite returns bodies, headers and names at which archives go wrong. largest is the size of
// its largest body.
func awkwardSite(largest int) *site {
	s := &site{host: "www.site.test:8080"}
	s.page("/", "text/html; charset=Shift_JIS", []byte("<title>\x83\x65\x83\x58\x83\x67</title>"))
	for _, n := range []int{0, 1, 2, 3, 254, 255, 256, 257, 258, 259, 260, 508, 509, 510, 511, 512, 513, 1024, 65535, 65536, 65537} {
		s.page(fmt.Sprintf("/text/%d.html", n), "text/html", testkit.Text(n, uint64(n)))
		s.page(fmt.Sprintf("/noise/%d.html", n), "text/html; charset=\"UTF-8\"", noise(n, uint64(n)))
		s.page(fmt.Sprintf("/stored/%d.jpg", n), "image/jpeg", noise(n, uint64(n)))
		s.page(fmt.Sprintf("/zeros/%d.bin", n), "", make([]byte, n))
	}
	s.page("/noise/3000000", "application/octet-stream", noise(3_000_000, 9))
	s.page("/zeros/large", "application/octet-stream", make([]byte, largest))
	s.addNames()
	s.addHeaders()
	s.add(archive.Response, "/moved", "HTTP/1.1 301 Moved Permanently\r\nLocation: /\r\n\r\n", nil)
	s.add(archive.Response, "/lost", "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n", noise(100_000, 4))
	// Pages of 30 to 120 KB just fit, or just do not.
	for n := 30_000; n <= 120_000; n += 10_000 {
		s.add(archive.Response, fmt.Sprintf("/lost/%d", n), "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n", testkit.Text(n, uint64(n)))
	}
	s.add(archive.Response, "/small", "HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\n\r\n", []byte("oops\r\n\r\nWARC/1.1\r\n"))
	same := s.add(archive.Revisit, "/text/512.html", "HTTP/1.1 304 Not Modified\r\n\r\n", nil)
	same.PayloadDigest, same.Profile = "sha256:"+strings.Repeat("A", 52)+"====", archive.ServerNotModified
	again := s.add(archive.Revisit, "/text/513.html", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", nil)
	again.PayloadDigest, again.RefersDate = same.PayloadDigest, firstNight.AddDate(0, 0, -1)
	cut := s.page("/cut.html", "text/html", []byte("<p>half of a"))
	cut.Truncated = "disconnect"
	tarball := s.page("/x.tar", "application/x-tar", []byte("stands in for a tar"))
	tarball.IP, tarball.Time = "2001:db8::1", firstNight.Truncate(time.Second)
	s.page("/last.html", "text/html", []byte("last"))
	return s
}

// addNames adds URLs whose names must not clash or mislead.
func (s *site) addNames() {
	for _, path := range []string{
		"/index.html", "/INDEX.HTML", "/Index.html", "/a", "/a/", "/a/b", "/A", "/A/b", "/a.html", "/A.html", "/a.HTML", "/a.html/b.html",
		"/?", "/?q=1", "/?q=1&r=%E3%81%82", "/a.html?x=1", "/a.html?X=1", "/a%3Fx=1.html", "/%E6%97%A5%E6%9C%AC%E8%AA%9E.html", "/%e6%97%a5%e6%9c%ac%e8%aa%9e.html",
		"/%93%FA%96%7B.html", "/x/../y", "/..", "/.", "/../../etc/passwd", "/..%2f..%2fetc/passwd", "//double//slash", "/a//b.html", "/con.html", "/aux/x.html", "/nul", "/com1.txt",
		"/a~b/c.html", "/~user/", "/~user/x.html", "/v1.0/c.html", "/dir./x.html", "/.hidden", "/.well-known/x.html", "/_meta/x.cdxj", "/_long/x.html",
		"/a:b.html", "/a;v=1.html", "/a%00b.html", "/a%0Ab.html", "/a|b.html", "/$(id).html", "/'q'.html", "/a\\b.html", "/x.tar.gz", "/x.html~", "/a,b=c+d@e.html",
		"/" + strings.Repeat("n", 300) + ".html", "/" + strings.Repeat("N", 300), "/" + strings.Repeat("d/", 150) + "x.html", "/" + strings.Repeat("p", 75) + ".html",
		"/" + strings.Repeat("q", 80) + "/" + strings.Repeat("r", 80) + "/" + strings.Repeat("s", 40) + ".html",
	} {
		s.page(path, "text/html", []byte(path))
	}
	s.page("http://"+strings.ToUpper(s.host)+"/upper.html", "text/html", []byte("upper"))
	s.page("https://"+s.host+"/a.html", "text/html", []byte("https"))
	s.page("https://"+s.host+"/", "text/html", []byte("https /"))
	longest := "http://" + s.host + "/?"
	s.page(longest+strings.Repeat("u", naming.MaxURL-len(longest)), "text/html", []byte("longest URL"))
}

// addHeaders adds HTTP headers around the size that WP holds: 15,872 bytes, deflated.
func (s *site) addHeaders() {
	for _, n := range []int{5000, 15_000, 17_000, 17_200, 17_400, 17_500, 17_600, 17_700, 17_800, 17_900, 18_000, 19_000, 40_000} {
		var http strings.Builder
		http.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n")
		value := base64.StdEncoding.EncodeToString(noise(n*3/4, 5))
		for i := 0; i < len(value); i += 50 {
			fmt.Fprintf(&http, "X-%d: %s\r\n", i, value[i:min(i+50, len(value))])
		}
		s.page(fmt.Sprintf("/headers/%d.html", n), "text/html", []byte("big headers")).HTTP = []byte(http.String() + "\r\n")
	}
	long := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + strings.Repeat("X-Padding: "+strings.Repeat("x", 100)+"\r\n", 2000) + "\r\n"
	s.page("/headers/repeated.html", "text/html", []byte("repeated headers")).HTTP = []byte(long)
	odd := "HTTP/1.0 200\r\nserver:x\r\n folded\r\nContent-Type:  TEXT/HTML ; charset=x\r\nbad line\r\nX: \xe3\x81\x82\r\n\r\n"
	s.page("/headers/odd.html", "text/html", []byte("odd headers")).HTTP = []byte(odd)
}

// otherSites returns small hosts with awkward names.
func otherSites() []*site {
	var out []*site
	for _, host := range []string{"xn--wgv71a119e.jp", "localhost", "192.0.2.1:81", "[2001:db8::1]:81", "under_score.test", "_batch", "con"} {
		s := &site{host: host}
		s.page("/", "text/html", []byte("home of "+host))
		s.page("/%E5%A4%A7%E5%AD%A6/", "text/html", []byte("below home"))
		s.add(archive.Response, "/old", "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", []byte("moved"))
		out = append(out, s)
	}
	gone := &site{host: "gone.test"} // nothing that a tar could show
	gone.add(archive.Response, "/", "HTTP/1.1 410 Gone\r\n\r\n", []byte("gone"))
	return append(out, gone, &site{host: "silent.test"})
}

// largeSite returns a host with bodies of n bytes, and one that is larger and is cut.
func largeSite(n int) *site {
	s := &site{host: "large.test"}
	s.page("/noise.html", "text/html", noise(n, 7))
	s.page("/text.html", "text/html", bytes.Repeat(testkit.Text(1<<20, 8), n>>20))
	s.page("/over.iso", "application/zip", noise(n+1, 9))
	s.page("/after.html", "text/html", []byte("after"))
	return s
}

// manySite returns a host with n cells of every kind.
func manySite(n int) *site {
	s := &site{host: "many.test"}
	for i := range n {
		switch path := fmt.Sprintf("/d%d/%d.html", i/1000, i); i % 10 {
		case 8:
			s.add(archive.Response, path, "HTTP/1.1 404 Not Found\r\n\r\n", []byte("no"))
		case 9:
			s.add(archive.Revisit, path, "HTTP/1.1 304 Not Modified\r\n\r\n", nil).PayloadDigest = "sha256:" + strings.Repeat("A", 52) + "===="
		default:
			s.page(path, "text/html", fmt.Appendf(nil, "<p>page %d", i))
		}
	}
	return s
}
