package guard

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes, so that a synctest bubble holds both ends.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// TestBodiesThatStop: reading a body that stops or trickles fails within minutes. A slow body that
// goes on is read to its end, and an answer after a long search still arrives.
func TestBodiesThatStop(t *testing.T) {
	const size = 2 * stallChunk
	for name, c := range map[string]struct {
		piece int           // bytes
		every time.Duration // between two pieces
		whole bool
	}{
		"trickle": {1, time.Second, false},
		"slow":    {stallChunk / 4, 25 * time.Second, true},
		"stop":    {stallChunk, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := make(pipes)
				ended := make(chan error, 1)
				server := &http.Server{Handler: unstall(StallTime, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, err := io.Copy(io.Discard, r.Body)
					ended <- err
					if err != nil {
						return
					}
					time.Sleep(2 * StallTime) // as a long search does
					if err := r.Context().Err(); c.whole && err != nil {
						t.Errorf("the request was given up while it was answered: %v", err)
					}
					io.WriteString(w, "ok")
				}))}
				go server.Serve(listener)
				client, conn := net.Pipe()
				listener <- conn
				begun := time.Now()
				go func() {
					io.WriteString(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 524288\r\n\r\n")
					for sent := 0; sent < size; sent += c.piece {
						if _, err := client.Write(make([]byte, c.piece)); err != nil {
							return
						}
						time.Sleep(c.every)
					}
				}()
				err := <-ended
				switch took := time.Since(begun); {
				case c.whole && err != nil:
					t.Errorf("after %v: %v", took, err)
				case !c.whole && (!errors.Is(err, os.ErrDeadlineExceeded) || took > 2*StallTime):
					t.Errorf("given up after %v: %v", took, err)
				}
				if c.whole {
					resp, err := http.ReadResponse(bufio.NewReader(client), nil)
					if err != nil {
						t.Fatal(err)
					}
					if body, err := io.ReadAll(resp.Body); err != nil || strings.TrimSpace(string(body)) != "ok" {
						t.Errorf("%q, %v", body, err)
					}
				}
				server.Close()
				client.Close()
				time.Sleep(2 * time.Hour) // until the sender is awake
			})
		})
	}
}
