package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/client"
)

// answering returns a client of a server with a handler.
func answering(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return of(t, server.URL)
}

// raw returns a client of a server that answers with exactly these bytes and closes the connection.
func raw(t *testing.T, answer string) *client.Client {
	return answering(t, func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(c, answer)
		c.Close()
	})
}

// TestBrokenFiles: an answer that has fewer, more or other bytes than requested is an error.
func TestBrokenFiles(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		opens  bool // only reading the body fails
	}{
		"cut":                          {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", true},
		"cut between chunks":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n", true},
		"chunks without sense":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nshort\r\n", true},
		"two lengths":                  {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nshort!", false},
		"a length below nothing":       {"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nshort", false},
		"nothing":                      {"", false},
		"no HTTP":                      {"220 ready\r\n", false},
		"another part":                 {"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/100\r\nContent-Length: 5\r\n\r\nshort", false},
		"a part of another length":     {"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 10-99/100\r\nContent-Length: 5\r\n\r\nshort", false},
		"a part behind the end":        {"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 10-14/12\r\nContent-Length: 5\r\n\r\nshort", false},
		"a part from back to front":    {"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 10-2/12\r\nContent-Length: 5\r\n\r\nshort", false},
		"a part of nobody knows where": {"HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\r\nshort", false},
		"several parts":                {"HTTP/1.1 206 Partial Content\r\nContent-Type: multipart/byteranges; boundary=x\r\nContent-Length: 5\r\n\r\nshort", false},
		"lines instead of bytes":       {"HTTP/1.1 206 Partial Content\r\nContent-Range: lines 10-14/100\r\nContent-Length: 5\r\n\r\nshort", false},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := raw(t, c.answer).Open(t.Context(), "/f", 10, `"x"`)
			if (err == nil) != c.opens {
				t.Fatalf("%+v, %v", f, err)
			}
			if err != nil {
				return
			}
			defer f.Body.Close()
			if data, err := io.ReadAll(f.Body); err == nil {
				t.Errorf("%q was accepted as the whole file", data)
			}
		})
	}
	f, err := raw(t, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 10-14/*\r\nContent-Length: 5\r\n\r\nshort").Open(t.Context(), "/f", 10, `"x"`)
	if err != nil || f.From != 10 || f.Size != -1 {
		t.Errorf("a part of a file of unknown size: %+v, %v", f, err)
	}
}

// TestBrokenChanges: an answer that is not a page of changes is an error, and an endless one is not
// read for ever.
func TestBrokenChanges(t *testing.T) {
	testkit.Slow(t)
	for name, answer := range map[string]string{
		"cut":     "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"events\":[",
		"HTML":    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
		"nothing": "HTTP/1.1 204 No Content\r\n\r\n",
		"numbers": "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"events\":\"none\"",
	} {
		if page, err := raw(t, answer).Changes(t.Context(), api.Cursor{}, api.Selection{}, 1, 0); err == nil {
			t.Errorf("%s: %+v", name, page)
		}
	}
	endless := answering(t, func(w http.ResponseWriter, r *http.Request) {
		for blank := bytes.Repeat([]byte(" "), 1<<20); ; {
			if _, err := w.Write(blank); err != nil {
				return
			}
		}
	})
	if _, err := endless.Changes(t.Context(), api.Cursor{}, api.Selection{}, 1, 0); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("endless answer: %v", err)
	}
}

// TestProblems checks the errors for answers that report problems.
func TestProblems(t *testing.T) {
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	for name, c := range map[string]struct {
		status              int
		kind, body, retry   string
		title, detail, code string
		wait                time.Duration // minimum; 0: the service does not say
	}{
		"too many":          {429, "application/problem+json", `{"title":"Busy","status":429,"detail":"later","reason":"quota"}`, "120", "Busy", "later", "quota", 2 * time.Minute},
		"not now":           {503, "application/problem+json; charset=utf-8", `{"title":"Shut","status":503}`, soon.UTC().Format(http.TimeFormat), "Shut", "", "", 59 * time.Minute},
		"of another":        {503, "text/html", `<title>{"title":"Shut"}`, "", "Service Unavailable", "", "", 0},
		"cut":               {500, "application/problem+json", `{"title":"Sh`, "", "Internal Server Error", "", "", 0},
		"another status":    {404, "application/problem+json", `{"title":"Fine","status":200}`, "", "Fine", "", "", 0},
		"huge":              {400, "application/problem+json", `{"title":"` + strings.Repeat("x", 2<<20) + `"}`, "", "Bad Request", "", "", 0},
		"never":             {503, "", "", "99999999999999", "Service Unavailable", "", "", 100 * 365 * 24 * time.Hour},
		"no time":           {503, "", "", "soon", "Service Unavailable", "", "", 0},
		"before":            {503, "", "", "-5", "Service Unavailable", "", "", 0},
		"nowhere":           {302, "", "", "", "Found", "", "", 0},
		"not asked whether": {304, "", "", "", "Not Modified", "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			_, err := answering(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				if c.retry != "" {
					w.Header().Set("Retry-After", c.retry)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			}).Open(t.Context(), "/f", 0, "")
			if c.status == 302 { // a redirect without a location
				if err == nil {
					t.Error("a redirect without a location was followed")
				}
				return
			}
			var e *client.Error
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			if e.Status != c.status || e.Title != c.title || e.Detail != c.detail || e.Reason != c.code {
				t.Errorf("%+v", e)
			}
			if e.Retry.IsZero() != (c.wait == 0) || c.wait > 0 && e.Retry.Sub(begun) < c.wait {
				t.Errorf("to be asked again at %v", e.Retry)
			}
		})
	}
}

// TestPasswordStays redirects a client repeatedly: the account's password is only sent to the
// service itself. Another port is another service.
func TestPasswordStays(t *testing.T) {
	var mu sync.Mutex // guards told
	told := map[string]bool{}
	note := func(who string, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _, known := r.BasicAuth()
		told[who+" "+r.Method] = known
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note("other", r)
		io.WriteString(w, "from elsewhere")
	}))
	defer other.Close()
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		note("service", r)
		switch r.URL.Path {
		case "/pub/inside":
			http.Redirect(w, r, "/pub/there", http.StatusFound)
		case "/pub/there":
			io.WriteString(w, "from here")
		case "/pub/round":
			http.Redirect(w, r, "/pub/round", http.StatusFound)
		default:
			http.Redirect(w, r, other.URL+"/", http.StatusTemporaryRedirect)
		}
	})
	for name, want := range map[string]string{"/inside": "from here", "/outside": "from elsewhere"} {
		f, err := c.Open(t.Context(), name, 0, "")
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(f.Body); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		f.Body.Close()
	}
	if _, err := c.Open(t.Context(), "/round", 0, ""); err == nil {
		t.Error("an endless redirect was followed")
	}
	err := c.Do(t.Context(), http.MethodPost, "/v1/watches", map[string]string{"secret": "s"}, nil)
	if client.Status(err) != http.StatusTemporaryRedirect {
		t.Errorf("a body was redirected to another service: %v", err)
	}
	want := fmt.Sprint(map[string]bool{"service GET": true, "other GET": false, "service POST": true})
	if fmt.Sprint(told) != want {
		t.Errorf("the password was sent to: %v, want %s", told, want)
	}
}

// TestAsItIs: a file's bytes are not changed, whatever a proxy on the way does.
func TestAsItIs(t *testing.T) {
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			io.WriteString(z, "content")
			return
		}
		io.WriteString(w, "content")
	})
	f, err := c.Open(t.Context(), "/f", 0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Body.Close()
	if data, err := io.ReadAll(f.Body); err != nil || f.Size != 7 || string(data) != "content" {
		t.Errorf("%d: %q, %v", f.Size, data, err)
	}
}

// TestSlow: a caller can stop waiting before the answer and in the middle of it.
func TestSlow(t *testing.T) {
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pub/begins" {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "begin")
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	})
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := c.Open(ctx, "/silent", 0, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	ctx, cut := context.WithCancel(t.Context())
	f, err := c.Open(ctx, "/begins", 0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Body.Close()
	if _, err := io.ReadFull(f.Body, make([]byte, 5)); err != nil {
		t.Error(err)
	}
	cut()
	if _, err := io.ReadAll(f.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
