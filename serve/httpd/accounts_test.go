package httpd_test

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
)

// A client that begins requests by HTTP/2 and takes them back at once, again and again, has no more
// of them under way than it may have streams, and keeps no place: others are answered meanwhile,
// and so is its account afterwards.
func TestRapidReset(t *testing.T) {
	s := newSite(t)
	var now, most atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		s.handler.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	path := api.PathCDX + "?url=" + host + "&matchType=host"

	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	testkit.Must(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte(http2.ClientPreface))
	testkit.Must(t, err)
	frames := http2.NewFramer(conn, conn)
	testkit.Must(t, frames.WriteSettings())
	answered := make(chan struct{})
	go func() { // what the server says is read, so that it waits for nothing
		defer close(answered)
		for {
			if _, err := frames.ReadFrame(); err != nil {
				return
			}
		}
	}()
	login, err := http.NewRequest("GET", "/", nil)
	testkit.Must(t, err)
	login.SetBasicAuth("jp", "jp")
	sent := 0
	for stream := uint32(1); stream < 20_000; stream += 2 {
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", path}, {"authorization", login.Header.Get("Authorization")}} {
			testkit.Must(t, encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
		}
		if frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true}) != nil ||
			frames.WriteRSTStream(stream, http2.ErrCodeCancel) != nil {
			break // the server has had enough
		}
		sent++
		if sent == 500 {
			if resp, _ := s.do(t, "GET", "keio", path); resp.StatusCode != http.StatusOK {
				t.Errorf("another account meanwhile: %s", resp.Status)
			}
		}
	}
	conn.Close()
	<-answered
	t.Logf("%d requests were taken back; %d at most were under way at once", sent, most.Load())
	if most.Load() > 250 {
		t.Errorf("%d requests were under way at once", most.Load())
	}
	testkit.Until(t, "no request is under way", func() bool { return now.Load() == 0 })
	if resp, body := s.do(t, "GET", "jp", path); resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "waseda") {
		t.Errorf("the account afterwards: %s %s", resp.Status, body)
	}
}
