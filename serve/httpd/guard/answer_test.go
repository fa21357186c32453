package guard

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
)

// TestStandstill: a client that reads nothing is disconnected, whether the bytes come from memory
// or the kernel sends them. A client that goes on reading gets everything, however long it takes.
func TestStandstill(t *testing.T) {
	testkit.Slow(t)
	const size = 64 << 20 // more than the kernel takes in for a reader
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, send := range map[string]func(*staller) error{
		"memory": func(s *staller) error {
			_, err := s.Write(make([]byte, size))
			return err
		},
		"file": func(s *staller) error {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = s.ReadFrom(io.LimitReader(f, size))
			return err
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			failed := make(chan error, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				failed <- send(&staller{ResponseWriter: w, deadline: http.NewResponseController(w), patience: time.Second})
			}))
			defer server.Close()
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-failed:
				if err == nil {
					t.Error("all was sent to who took nothing")
				}
			case <-time.After(time.Minute):
				t.Error("who takes nothing is waited for")
			}
			resp, err := http.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			if err := <-failed; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUnstallKeepsConnections: the deadline of an answer's body does not end the connection for the
// next one.
func TestUnstallKeepsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes)
		server := &http.Server{Handler: unstall(StallTime, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/body" {
				w.Write([]byte("ok"))
				return
			}
			w.WriteHeader(http.StatusNotModified)
		}))}
		go server.Serve(listener)
		defer server.Close()
		client, conn := net.Pipe()
		defer client.Close()
		listener <- conn
		replies := bufio.NewReader(client)
		for _, path := range []string{"/body", "/none"} {
			_, err := io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n")
			testkit.Must(t, err)
			resp, err := http.ReadResponse(replies, nil)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			time.Sleep(3 * StallTime)
		}
	})
}
