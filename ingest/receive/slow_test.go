package receive_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/ftp"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"

	"github.com/gorilla/mux"
)

// trickle brings its bytes a few at a time.
type trickle struct {
	r     io.Reader
	n     int
	every time.Duration
}

func (r *trickle) Read(p []byte) (int, error) {
	time.Sleep(r.every)
	return r.r.Read(p[:min(r.n, len(p))])
}

// TestSlowSenders: who brings a byte a second is let go after five minutes, by either
// protocol, and all of it is kept to go on from; a line of 10 bytes a second, however
// uneven, is let through to the end.
func TestSlowSenders(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes int
		every time.Duration
		slow  bool
	}{
		{"a byte a second", 1, time.Second, true},
		{"9 bytes a second", 9, time.Second, true},
		{"10 bytes a second", 10, time.Second, false},
		{"600 bytes in 55 seconds", 600, 55 * time.Second, false},
	} {
		send := map[string]func(t *testing.T, h *house, b *batchtest.Batch) (kept int, err string){
			"http": func(t *testing.T, h *house, b *batchtest.Batch) (int, string) {
				router := mux.NewRouter()
				testkit.Must(t, h.rec.Register(router))
				do := func(method string, body io.Reader, header ...string) *httptest.ResponseRecorder {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel() // as a server does when the request is over
					req := httptest.NewRequestWithContext(ctx, method, wire.PathUploads+string(b.ID), body)
					if method == http.MethodPost {
						req.URL.Path = wire.PathUploads
					}
					req.SetBasicAuth(batchtest.Robot, batchtest.Secret)
					for i := 0; i < len(header); i += 2 {
						req.Header.Set(header[i], header[i+1])
					}
					w := httptest.NewRecorder()
					router.ServeHTTP(w, req)
					return w
				}
				do("POST", nil, tus("Upload-Length", strconv.Itoa(len(b.Data)), "Upload-Metadata", "batch "+base64Of(b.ID))...)
				w := do("PATCH", &trickle{bytes.NewReader(b.Data), c.bytes, c.every}, tus("Content-Type", "application/offset+octet-stream", "Upload-Offset", "0")...)
				text := ""
				if w.Code != http.StatusNoContent {
					text = w.Body.String()
					if w.Code != http.StatusRequestTimeout || w.Header().Get("Connection") != "close" || !strings.Contains(text, "too_slow") {
						t.Errorf("%d %v %s", w.Code, w.Header(), text)
					}
				}
				kept, err := strconv.Atoi(do("HEAD", nil, tus()...).Header().Get("Upload-Offset"))
				testkit.Must(t, err)
				return kept, text
			},
			"ftp": func(t *testing.T, h *house, b *batchtest.Batch) (int, string) {
				session, err := h.rec.FTP().Login(t.Context(), batchtest.Robot, batchtest.Secret, &net.TCPAddr{})
				testkit.Must(t, err)
				up, err := session.Create(t.Context(), "/"+string(b.ID)+".tar.gz", 0)
				testkit.Must(t, err)
				text := ""
				if _, err := io.Copy(struct{ io.Writer }{up}, &trickle{bytes.NewReader(b.Data), c.bytes, c.every}); err != nil {
					up.Abort(err)
					text = err.Error()
					if fe, ok := err.(*ftp.Error); !ok || fe.Code != 426 {
						t.Errorf("%v", err)
					}
				} else {
					testkit.Must(t, up.Commit())
				}
				e, err := session.Stat(t.Context(), "/"+string(b.ID)+".tar.gz")
				testkit.Must(t, err)
				return int(e.Size), text
			},
		}
		for protocol, send := range send {
			t.Run(c.name+" by "+protocol, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newBare(t, time.Hour)
					h.opt.Least = 10
					h.openOnly()
					b := batchtest.Make(t, h.robots, 1, batchtest.Site("a.example.jp", 12))
					if len(b.Data) < 9*300+100 {
						t.Fatalf("a batch of %d bytes is over before anyone is slow", len(b.Data))
					}
					kept, text := send(t, h, b)
					want, took := len(b.Data), 300*c.bytes
					if c.slow {
						want = took
					}
					time.Sleep(time.Minute) // tusd lingers on its requests
					if kept != want || (text != "") != c.slow {
						t.Errorf("%d bytes of %d are kept, want %d: %q", kept, len(b.Data), want, text)
					}
				})
			})
		}
	}
}
