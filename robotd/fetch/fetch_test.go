package fetch

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

const agent = "sheaf-test/1 (+http://example.jp/robot)"

// raw serves one canned answer per connection and returns its address. A nil
// answer hangs.
func raw(t *testing.T, answer func(w io.Writer)) (addr string, requests chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	requests = make(chan string, 16)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				var head strings.Builder
				for {
					line, err := r.ReadString('\n')
					head.WriteString(line)
					if err != nil || line == "\r\n" {
						break
					}
				}
				requests <- head.String()
				answer(c)
			}()
		}
	}()
	return l.Addr().String(), requests
}

func text(s string) func(io.Writer) { return func(w io.Writer) { io.WriteString(w, s) } }

// fetcher returns a fetcher for which www.example.jp lies at addr.
func fetcher(t *testing.T, addr string, change func(*Options)) *Fetcher {
	opt := Options{
		UserAgent: agent, AllowPrivate: true, TempDir: t.TempDir(),
		Overrides: map[string]string{"www.example.jp": addr},
	}
	if change != nil {
		change(&opt)
	}
	return New(opt)
}

func get(t *testing.T, f *Fetcher, url string) *Response {
	t.Helper()
	resp, err := f.Get(t.Context(), Request{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := resp.Close(); err != nil {
			t.Error(err)
		}
	})
	return resp
}

func body(t *testing.T, r *Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body())
	if err != nil || int64(len(b)) != r.Size {
		t.Fatalf("read %d bytes of %d: %v", len(b), r.Size, err)
	}
	sum := sha256.Sum256(b)
	if want := "sha256:" + base32.StdEncoding.EncodeToString(sum[:]); r.Digest != want {
		t.Errorf("digest %s, want %s", r.Digest, want)
	}
	return string(b)
}

func TestHeaderAsItCame(t *testing.T) {
	addr, requests := raw(t, text("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"+
		"HTTP/1.1 200 Fine\r\nx-ODD: 1\r\nServer:\tolder\r\nno field\r\nFolded: a\r\n b\r\nTransfer-Encoding: chunked\r\n"+
		"Sp ace: no\r\nLatin: \xe9\x00\r\n\r\n4\r\nwiki\r\n0\r\n\r\n"))
	r := get(t, fetcher(t, addr, nil), "http://www.example.jp/%zz|^?a=%")
	want := "HTTP/1.1 200 Fine\r\nx-ODD: 1\r\nServer: older\r\nFolded: a b\r\nX-Crawler-Transfer-Encoding: chunked\r\n" +
		"Latin: \xe9\r\nContent-Length: 4\r\n\r\n"
	if string(r.HTTP) != want {
		t.Errorf("stored header\n%q, want\n%q", r.HTTP, want)
	}
	if got := body(t, r); got != "wiki" || r.Status != 200 || r.Header.Get("X-Odd") != "1" {
		t.Errorf("%d %q %v", r.Status, got, r.Header)
	}
	req := <-requests
	if !strings.HasPrefix(req, "GET /%zz|^?a=% HTTP/1.1\r\nHost: www.example.jp\r\n") || !strings.Contains(req, "User-Agent: "+agent+"\r\n") {
		t.Errorf("request\n%s", req)
	}
	if int(r.RequestBytes) != len(req) || r.ResponseBytes < 170 || r.IP != netip.MustParseAddr("127.0.0.1") || r.Took <= 0 {
		t.Errorf("request %d bytes of %d, response %d from %v in %v", r.RequestBytes, len(req), r.ResponseBytes, r.IP, r.Took)
	}
}

func TestContentCodings(t *testing.T) {
	const page = "こんにちは, a page"
	pack := func(make func(io.Writer) io.WriteCloser, s string) string {
		var b bytes.Buffer
		w := make(&b)
		io.WriteString(w, s)
		w.Close()
		return b.String()
	}
	gz := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	br := func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) }
	zs := func(w io.Writer) io.WriteCloser { e, _ := zstd.NewWriter(w); return e }
	zl := func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
	fl := func(w io.Writer) io.WriteCloser { e, _ := flate.NewWriter(w, 6); return e }
	for _, tt := range []struct{ name, coding, sent, want string }{
		{"gzip", "gzip", pack(gz, page), page},
		{"x-gzip", "X-GZIP", pack(gz, page), page},
		{"members", "gzip", pack(gz, page) + pack(gz, page), page + page},
		{"garbage after gzip", "gzip", pack(gz, page) + "\r\ngarbage", page},
		{"not gzip at all", "gzip", page, page},
		{"br", "br", pack(br, page), page},
		{"zstd", "zstd", pack(zs, page), page},
		{"zlib", "deflate", pack(zl, page), page},
		{"raw deflate", "deflate", pack(fl, page), page},
		{"two", "gzip, br", pack(br, pack(gz, page)), page},
		{"identity", "identity", page, page},
		{"unknown", "sdch", page, page},
		{"empty", "gzip", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr, _ := raw(t, text(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", tt.coding, len(tt.sent), tt.sent)))
			r := get(t, fetcher(t, addr, nil), "http://www.example.jp/")
			if got := body(t, r); got != tt.want || r.Truncated != "" {
				t.Errorf("body %q (%s), want %q", got, r.Truncated, tt.want)
			}
			if !strings.Contains(string(r.HTTP), fmt.Sprintf("Content-Length: %d\r\n", len(tt.want))) {
				t.Errorf("stored header\n%s", r.HTTP)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	w.Write(make([]byte, 8<<20))
	w.Close()
	var member bytes.Buffer
	w.Reset(&member)
	w.Close()
	hollow := func(w io.Writer) { // members without a byte
		io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
		for many := bytes.Repeat(member.Bytes(), 1000); ; {
			if _, err := w.Write(many); err != nil {
				return
			}
		}
	}
	named := func(w io.Writer) { // a member with a name that does not end
		io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x00")
		for many := bytes.Repeat([]byte("x"), 64<<10); ; {
			if _, err := w.Write(many); err != nil {
				return
			}
		}
	}
	trickle := func(w io.Writer) {
		io.WriteString(w, "HTTP/1.1 200 OK\r\n\r\n")
		testkit.Trickle(w, make([]byte, 1<<20), 10*time.Millisecond)
	}
	slow := func(o *Options) { o.RateWindow, o.MinRate = 50*time.Millisecond, 10_000 }
	for _, tt := range []struct {
		name      string
		answer    func(io.Writer)
		change    func(*Options)
		truncated string
		max       int64
	}{
		{"size", text("HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 1000)), func(o *Options) { o.MaxBody = 999 }, "length", 999},
		{"just the size", text("HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 1000)), func(o *Options) { o.MaxBody = 1000 }, "", 1000},
		{"ratio", text("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + bomb.String()), nil, "length", 2 << 20},
		{"empty members without end", hollow, func(o *Options) { o.MaxBody = 1000 }, "length", 0},
		{"a name without end", named, func(o *Options) { o.MaxBody = 1000 }, "length", 1000},
		{"rate", trickle, slow, "time", 50},
		{"time", trickle, func(o *Options) { o.Timeout = 100 * time.Millisecond }, "time", 50},
		{"length that lies", text("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"), nil, "disconnect", 5},
		{"chunk broken off", text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nshort"), nil, "disconnect", 5},
		{"gzip broken off", text("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + bomb.String()[:30]), nil, "disconnect", 64 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr, _ := raw(t, tt.answer)
			r := get(t, fetcher(t, addr, tt.change), "http://www.example.jp/")
			body(t, r)
			if r.Truncated != tt.truncated || r.Size > tt.max {
				t.Errorf("truncated %q at %d, want %q at no more than %d", r.Truncated, r.Size, tt.truncated, tt.max)
			}
		})
	}
}

// A name that led to a public address may lead into a private network a moment later. The robot
// goes to the address that it has judged, or judges the new one, and each connection's address is
// judged too.
func TestRebinding(t *testing.T) {
	var dialed []string
	names := map[string]string{"www.example.jp": "8.8.8.8"}
	f := New(Options{UserAgent: agent, TempDir: t.TempDir(), Overrides: names, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		dialed = append(dialed, address)
		return nil, errors.New("no packet leaves this test")
	}})
	judged, err := f.Resolve(t.Context(), "www.example.jp")
	if err != nil {
		t.Fatal(err)
	}
	names["www.example.jp"] = "127.0.0.1"
	if _, err := f.Resolve(t.Context(), "www.example.jp"); KindOf(err) != Refused {
		t.Errorf("looked up again: %v", err)
	}
	if _, err := f.Get(t.Context(), Request{URL: "http://www.example.jp/"}); KindOf(err) != Refused || len(dialed) > 0 {
		t.Errorf("looked up for the request: %v, dialed %v", err, dialed)
	}
	if _, err := f.Get(t.Context(), Request{URL: "http://www.example.jp/", Addr: judged}); KindOf(err) != Connect || len(dialed) != 1 || dialed[0] != "8.8.8.8:80" {
		t.Errorf("at the address that was judged: %v, dialed %v", err, dialed)
	}
	for address, ok := range map[string]bool{"8.8.8.8:80": true, "127.0.0.1:80": false, "[::ffff:10.0.0.1]:80": false, "169.254.169.254:80": false, "www.example.jp:80": false} {
		if err := f.control("tcp", address, nil); (err == nil) != ok {
			t.Errorf("a connection to %s: %v", address, err)
		}
	}
}

func TestErrors(t *testing.T) {
	hang := func(w io.Writer) { io.Copy(io.Discard, w.(io.Reader)) } // until the client is gone
	for _, tt := range []struct {
		name   string
		url    string
		answer func(io.Writer)
		change func(*Options)
		want   Kind
	}{
		{"hangs", "", hang, func(o *Options) { o.Timeout = 50 * time.Millisecond }, Timeout},
		{"too slow", "", hang, func(o *Options) { o.RateWindow = 50 * time.Millisecond }, TooSlow},
		{"hangs up", "", text(""), nil, Silent},
		{"no HTTP", "", text("\x16\x03\x01\x00\x02"), nil, Protocol},
		{"long header", "", text("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1000) + "\r\n\r\n"), func(o *Options) { o.MaxHeader = 900 }, Protocol},
		{"many fields", "", text("HTTP/1.1 200 OK\r\n" + strings.Repeat("X:\n", 5001) + "\r\n"), nil, Protocol},
		{"endless interim", "", text(strings.Repeat("HTTP/1.1 100 Go\r\n\r\n", 1000)), func(o *Options) { o.MaxHeader = 900 }, Protocol},
		{"private", "", text(""), func(o *Options) { o.AllowPrivate = false }, Refused},
		{"private literal", "http://169.254.169.254/", text(""), func(o *Options) { o.AllowPrivate = false }, Refused},
		{"scheme", "ftp://www.example.jp/", text(""), nil, Local},
		{"URL", "http://a b/", text(""), nil, Local},
		{"no agent", "", text(""), func(o *Options) { o.UserAgent = "" }, Local},
		{"bad override", "", text(""), func(o *Options) { o.Overrides["www.example.jp"] = "nowhere" }, Local},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr, _ := raw(t, tt.answer)
			if tt.url == "" {
				tt.url = "http://www.example.jp/"
			}
			r, err := fetcher(t, addr, tt.change).Get(t.Context(), Request{URL: tt.url})
			if KindOf(err) != tt.want {
				t.Errorf("%v, %v; want an error of kind %s", r, err, tt.want)
			}
		})
	}
	f := fetcher(t, "127.0.0.1:1", nil)
	if _, err := f.Get(t.Context(), Request{URL: "http://www.example.jp/"}); KindOf(err) != Connect {
		t.Errorf("a closed port: %v", err)
	}
	f = fetcher(t, "192.0.2.1", func(o *Options) {
		o.Connect = time.Millisecond
		o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	if _, err := f.Get(t.Context(), Request{URL: "http://www.example.jp/"}); KindOf(err) != Connect {
		t.Errorf("an address that does not answer: %v", err)
	}
	for _, scheme := range []string{"http", "socks5"} {
		f = fetcher(t, "192.0.2.1", func(o *Options) { o.Proxy = &url.URL{Scheme: scheme, Host: "127.0.0.1:1"} })
		if _, err := f.Get(t.Context(), Request{URL: "http://www.example.jp/"}); KindOf(err) != Proxy {
			t.Errorf("no %s proxy: %v", scheme, err)
		}
	}
	f = fetcher(t, "", func(o *Options) {
		o.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, os.ErrPermission }}
	})
	if _, err := f.Resolve(t.Context(), "elsewhere.example"); KindOf(err) != DNS {
		t.Errorf("no name server: %v", err)
	}
	addr, requests := raw(t, hang)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-requests; cancel() }()
	if _, err := fetcher(t, addr, nil).Get(ctx, Request{URL: "http://www.example.jp/"}); KindOf(err) != Canceled {
		t.Errorf("canceled: %v", err)
	}
}

// A server that hangs up between two pages of a run has not seen the request for the second one,
// which may be made again. One that hangs has seen it: that is a failure.
func TestKeptConnection(t *testing.T) {
	for name, tt := range map[string]struct {
		hangs  bool
		change func(*Options)
		want   Kind
	}{
		"hangs up":         {want: Over},
		"hangs":            {true, func(o *Options) { o.Timeout = 100 * time.Millisecond }, Timeout},
		"hangs, by a rate": {true, func(o *Options) { o.RateWindow = 100 * time.Millisecond }, TooSlow},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			defer close(ended)
			addr, _ := raw(t, func(w io.Writer) {
				io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
				if tt.hangs {
					<-ended
				}
			})
			run := fetcher(t, addr, tt.change).Run()
			defer run.Close()
			r, err := run.Get(t.Context(), Request{URL: "http://www.example.jp/1"})
			if err != nil || !run.Live() {
				t.Fatalf("the first page: %v", err)
			}
			defer r.Close()
			if r, err := run.Get(t.Context(), Request{URL: "http://www.example.jp/2"}); KindOf(err) != tt.want {
				t.Errorf("the second page: %v, %v; want an error of kind %s", r, err, tt.want)
			}
		})
	}
}

func TestConditionalAndRedirect(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/new", http.StatusMovedPermanently)
		case r.Header.Get("If-None-Match") == `"v1"` && r.Header.Get("If-Modified-Since") == "yesterday" && r.Referer() == "http://r/":
			w.Header().Set("ETag", `"v1"`)
			w.WriteHeader(http.StatusNotModified)
		}
	}))
	defer s.Close()
	f := fetcher(t, s.Listener.Addr().String(), nil)
	if r := get(t, f, "http://www.example.jp/moved"); r.Status != 301 || r.Header.Get("Location") != "/new" {
		t.Errorf("%d to %s", r.Status, r.Header.Get("Location"))
	}
	r, err := f.Get(t.Context(), Request{URL: "http://www.example.jp/", ETag: `"v1"`, LastModified: "yesterday", Header: http.Header{"Referer": {"http://r/"}}})
	if err != nil || r.Status != 304 || r.Size != 0 || strings.Contains(string(r.HTTP), "Content-Length") {
		t.Errorf("%v, %v", r, err)
	}
}

func TestTLSAndHTTP2(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s %s", r.Proto, r.Host, r.RequestURI)
		}))
		s.EnableHTTP2 = h2
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		defer s.Close()
		roots := x509.NewCertPool()
		roots.AddCert(s.Certificate())
		at := func(o *Options) { o.Overrides = map[string]string{"example.com": s.Listener.Addr().String()} }
		f := fetcher(t, "", func(o *Options) { at(o); o.RootCAs = roots })
		proto := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[h2]
		r := get(t, f, "https://example.com/a?b")
		if got, want := body(t, r), proto+" example.com /a?b"; got != want || !bytes.HasPrefix(r.HTTP, []byte("HTTP/1.1 200 OK\r\n")) || r.ResponseBytes < 500 {
			t.Errorf("%q over %d bytes, want %q\n%s", got, r.ResponseBytes, want, r.HTTP)
		}
		if _, err := fetcher(t, "", at).Get(t.Context(), Request{URL: "https://example.com/"}); KindOf(err) != TLS {
			t.Errorf("unknown authority: %v", err)
		}
		if r := get(t, fetcher(t, "", func(o *Options) { at(o); o.AnyCertificate = true }), "https://example.com/"); r.Status != 200 {
			t.Errorf("any certificate: %d", r.Status)
		}
	}
}

func TestSpoolsLargeBodies(t *testing.T) {
	addr, _ := raw(t, text("http/1.0  200 OK\r\n\r\n"+strings.Repeat("0123456789", 50_000)))
	var dir string
	f := fetcher(t, addr, func(o *Options) { dir = o.TempDir })
	r, err := f.Get(t.Context(), Request{URL: "http://www.example.jp/"})
	if err != nil {
		t.Fatal(err)
	}
	files := func() int { e, _ := os.ReadDir(dir); return len(e) }
	once, again := body(t, r), body(t, r)
	if len(once) != 500_000 || len(again) != 500_000 || files() != 1 || !bytes.HasPrefix(r.HTTP, []byte("HTTP/1.0 200 OK\r\n")) {
		t.Errorf("%d bytes in %d files by\n%s", r.Size, files(), r.HTTP)
	}
	if b, err := r.Bytes(12); err != nil || string(b) != "012345678901" {
		t.Errorf("%q, %v", b, err)
	}
	if err := r.Close(); err != nil || files() != 0 {
		t.Errorf("%v, and %d files are left", err, files())
	}
}

func TestHTTPProxy(t *testing.T) {
	addr, requests := raw(t, text("HTTP/1.1 200 OK\r\n\r\nvia"))
	p := &url.URL{Scheme: "http", Host: addr, User: url.UserPassword("u", "p")}
	f := fetcher(t, "127.0.0.9", func(o *Options) { o.Proxy = p })
	r := get(t, f, "http://www.example.jp/x")
	req := <-requests
	if body(t, r) != "via" || !strings.HasPrefix(req, "GET http://www.example.jp/x HTTP/1.1\r\n") || !strings.Contains(req, "Proxy-Authorization: Basic dTpw\r\n") {
		t.Errorf("request\n%s", req)
	}
	if _, err := f.Get(t.Context(), Request{URL: "https://www.example.jp/x"}); KindOf(err) != TLS {
		t.Errorf("no TLS behind the proxy: %v", err)
	}
	if req := <-requests; !strings.HasPrefix(req, "CONNECT www.example.jp:443 HTTP/1.1\r\n") {
		t.Errorf("request\n%s", req)
	}
}

func TestResolve(t *testing.T) {
	f := New(Options{Overrides: map[string]string{"a.jp": "8.8.8.8", "b.jp": "8.8.4.4:8080", "c.jp:81": "1.1.1.1", "d.jp": "[2620:fe::fe]:80 9.9.9.9 8.8.8.8"}})
	for host, want := range map[string]string{
		"a.jp": "8.8.8.8:0", "a.jp:80": "8.8.8.8:0", "b.jp": "8.8.4.4:8080", "c.jp:81": "1.1.1.1:0",
		"d.jp": "8.8.8.8:0", "9.9.9.9": "9.9.9.9:0", "9.9.9.9:8080": "9.9.9.9:8080", "[2620:fe::fe]": "[2620:fe::fe]:0", "[2620:fe::fe]:81": "[2620:fe::fe]:81",
	} {
		if got, err := f.Resolve(t.Context(), host); err != nil || got.String() != want {
			t.Errorf("Resolve(%s) = %v, %v; want %s", host, got, err, want)
		}
	}
	ip := netip.MustParseAddr
	for _, tt := range []struct {
		had  netip.Addr
		dead []netip.Addr
		want string
	}{
		{ip("9.9.9.9"), nil, "9.9.9.9:0"},
		{ip("1.1.1.1"), nil, "8.8.8.8:0"},
		{ip("8.8.8.8"), []netip.Addr{ip("8.8.8.8")}, "9.9.9.9:0"},
		{ip("8.8.8.8"), []netip.Addr{ip("9.9.9.9"), ip("8.8.8.8")}, "[2620:fe::fe]:80"},
		{ip("9.9.9.9"), []netip.Addr{ip("9.9.9.9"), ip("2620:fe::fe"), ip("8.8.8.8")}, "9.9.9.9:0"},
	} {
		if got, err := f.ResolveAgain(t.Context(), "d.jp", tt.had, tt.dead...); err != nil || got.String() != tt.want {
			t.Errorf("after %v, with %v dead: %v, %v; want %s", tt.had, tt.dead, got, err, tt.want)
		}
	}
	if _, err := f.Resolve(t.Context(), "10.0.0.1"); KindOf(err) != Refused {
		t.Errorf("10.0.0.1: %v", err)
	}
}

func FuzzReadHeader(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHeader(bufio.NewReader(bytes.NewReader(b)), 1000)
		if err != nil {
			return
		}
		again, err := readHeader(bufio.NewReader(bytes.NewReader(h.bytes())), 10_000)
		if err != nil || !bytes.Equal(again.bytes(), h.bytes()) {
			t.Fatalf("%q became %q, then %q, %v", b, h.bytes(), again.bytes(), err)
		}
	})
}
