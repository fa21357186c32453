package robotd

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
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
		"moved":   "HTTP/1.1 301 Moved Permanently\r\nLoca",
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

// TestAnswerThatBreaksOff: a page that breaks off is asked for again in the same night. If it does
// so each time, what came is kept, marked. What is known of the whole page stays.
func TestAnswerThatBreaksOff(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80"})
	cfg.Interval, cfg.Window = 20*time.Second, "02:00-08:00 UTC"
	text := strings.Repeat("a long page, ", 4000) + "<a href=/after.html>x</a>"
	var mu sync.Mutex
	day, asked, known := 0, make(map[string]int), false
	nights(t, cfg, 3, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.Path]++
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		switch r.URL.Path {
		case "/once.html":
			if asked[r.URL.Path] == 1 {
				io.WriteString(w, text[:9000])
				return
			}
		case "/second.html":
			w.Header().Set("ETag", `"second"`)
			if day == 1 {
				io.WriteString(w, text[:9000])
				return
			}
			if known = r.Header.Get("If-None-Match") == `"second"`; known {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		case "/":
			w.Header().Del("Content-Length")
			fmt.Fprint(w, "<a href=/once.html>x</a><a href=/second.html>x</a>")
			return
		case "/robots.txt":
			w.Header().Del("Content-Length")
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, text)
	}, func(r *Robot, _ int) {
		mu.Lock()
		defer mu.Unlock()
		got := spooledCoverage(t, r, "www.a.test")
		if n := asked["/once.html"]; n != 2 || asked["/after.html"] != 1 {
			t.Errorf("night %d: the page that broke off once was asked for %d times: %v", day+1, n, asked)
		}
		wantAsked, wantCut := 1, int64(0)
		if day == 1 {
			wantAsked, wantCut = 3, 1
		}
		if n := asked["/second.html"]; n != wantAsked || got.Truncated["disconnect"] != wantCut {
			t.Errorf("night %d: the other was asked for %d times, and %d pages are cut; want %d and %d", day+1, n, got.Truncated["disconnect"], wantAsked, wantCut)
		}
		clear(asked)
		day++
	})
	if !known {
		t.Error("in the third night nothing is known of the page that was whole in the first")
	}
}

// TestLongFileIsKnown: a file longer than page.max_bytes, and a page whose checksum is wrong, are
// as known as any other: an unchanged one is not taken and stored again.
func TestLongFileIsKnown(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80"})
	cfg.Interval, cfg.Window, cfg.Page.MaxBytes = 20*time.Second, "02:00-08:00 UTC", 64<<10
	var damaged bytes.Buffer
	z := gzip.NewWriter(&damaged)
	io.WriteString(z, "<p>a page")
	testkit.Must(t, z.Close())
	copy(damaged.Bytes()[damaged.Len()-8:], "12345678")
	long := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	var mu sync.Mutex
	day, sent := 0, make(map[string]bool)
	nights(t, cfg, 2, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if tag, ok := strings.CutPrefix(r.URL.Path, "/tagged"); ok {
			w.Header().Set("ETag", `"`+tag+`"`)
			if day == 1 {
				sent[tag] = r.Header.Get("If-None-Match") == `"`+tag+`"`
			}
		}
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case r.URL.Path == "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<a href=/tagged1.bin>x</a><a href=/2.bin>x</a><a href=/tagged3.html>x</a><a href=/4.html>x</a>")
		case strings.HasSuffix(r.URL.Path, ".bin"):
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Write(long)
		default:
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(damaged.Bytes())
		}
	}, func(r *Robot, _ int) {
		mu.Lock()
		defer mu.Unlock()
		got := spooledCoverage(t, r, "www.a.test")
		if day == 0 && got.Truncated["length"] != 2 || day == 1 && (got.Unchanged != 5 || got.Collected != 0) {
			t.Errorf("night %d: %+v", day+1, got)
		}
		day++
	})
	if !sent["1.bin"] || !sent["3.html"] {
		t.Errorf("the second night asks whether a file has changed: %v", sent)
	}
}

// What becomes of a host by what its robots.txt answers, redirects included.
func TestRobotsAnswers(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	w := newWeb(t, "127.43.0.1", 3, 9, 2)
	redirect := func(to string) *answer { return &answer{http.StatusFound, http.Header{"Location": {to}}, nil} }
	text := func(body string) *answer {
		return &answer{http.StatusOK, http.Header{"Content-Type": {"text/plain"}}, []byte(body)}
	}
	const deny = "User-agent: *\nDisallow: /\n"
	w.tell(func(host, uri string, hit int) *answer {
		switch host + uri {
		case "h0.web.test/robots.txt":
			return &answer{http.StatusNotFound, nil, nil}
		case "h1.web.test/robots.txt":
			return &answer{http.StatusInternalServerError, nil, nil}
		case "h2.web.test/robots.txt":
			return redirect("http://nowhere.test:" + w.port + "/robots.txt")
		case "h3.web.test/robots.txt":
			return redirect("/robots.txt")
		case "h4.web.test/robots.txt":
			return redirect(w.url("h5.web.test", "/robots.txt"))
		case "h5.web.test/robots.txt":
			return text(deny)
		case "h6.web.test/robots.txt":
			return text(strings.Repeat("# filler\n", 60_000) + deny)
		case "h7.web.test/robots.txt":
			return &answer{http.StatusForbidden, nil, nil}
		case "h8.web.test/robots.txt":
			return text("User-agent: otherbot\nDisallow: /\nUser-agent: Sheaf-RobotD/9\nDisallow: /1.html\n")
		}
		return nil
	})
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Interval = 300 * time.Microsecond // a host that fails is given up after some thousand of them
	cfg.Network.Resolver = w.names.LocalAddr().String()
	if err := Run(t.Context(), cfg, testLog(t)); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"h0": 1, "h1": 0, "h2": 0, "h3": 1, "h4": 0, "h5": 0, "h6": 1, "h7": 1, "h8": 0} {
		if n := w.fetched(host+".web.test", "/1.html"); n != want {
			t.Errorf("%s: /1.html was fetched %d times, want %d", host, n, want)
		}
	}
	if n := w.fetched("h8.web.test", "/"); n != 1 {
		t.Errorf("h8: the page that is not forbidden was fetched %d times", n)
	}
	if n := w.fetched("h3.web.test", "/robots.txt"); n != 1+5 {
		t.Errorf("h3: robots.txt was asked for %d times, want one and five redirects", n)
	}
	w.check(cfg.Interval)
}

// zeros is endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestZerosDoNotCostABatch: a site answers with more zeros than the service lets a host's part of a
// batch decode to. The page is cut and counted, the batch is verified as ingest does it, other
// pages come whole, and the page is not taken for one that is known.
func TestZerosDoNotCostABatch(t *testing.T) {
	testkit.Long(t) // it stores and verifies some 320 MiB
	t.Parallel()
	const size, host = wire.Grace + 80<<20, "www.zeros.test"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			linkTo(w, 3)
		case "/0.html":
			w.Header().Set("ETag", `"zeros"`)
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = io.CopyN(w, zeros{}, size)
		case "/robots.txt":
			http.NotFound(w, r)
		default:
			_, _ = io.WriteString(w, "page "+r.URL.Path)
		}
	}))
	t.Cleanup(web.Close)
	s := newService(t, "http://"+host+"/")
	cfg := testConfig(t, s, map[string]string{host: web.Listener.Addr().String()})
	cfg.Page.MaxBytes, cfg.Batch.Level = wire.MaxBody, 1 // zeros deflate best by this level
	r, err := New(cfg, testLog(t))
	testkit.Must(t, err)
	defer r.Close()
	testkit.Must(t, r.Cycle(t.Context()))
	front, err := r.records.Frontier.Host(host)
	testkit.Must(t, err)
	if v, known, err := front.Visit("http://" + host + "/0.html"); err != nil || known && (v.ETag != "" || v.Digest != "") {
		t.Errorf("the page that was cut is known as %+v, %v", v, err)
	}
	testkit.Must(t, r.Drain(t.Context())) // the service verifies it
	cells := s.cells(0, host)
	zero := cells["http://"+host+"/0.html"]
	if zero.Kind != archive.Page || zero.Truncated != "length" || zero.BodyLen < wire.Grace/2 || zero.BodyLen >= size || len(cells) != 4 {
		t.Errorf("%d pages; %d bytes of %d were kept, truncated %q", len(cells), zero.BodyLen, int64(size), zero.Truncated)
	}
	for _, c := range s.batches[0].manifest.Coverage {
		if c.Host == host && (c.Truncated["length"] != 1 || c.Collected != 4) {
			t.Errorf("%+v", c)
		}
	}
}
