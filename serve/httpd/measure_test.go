package httpd_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/internal/peer"
	"sheaf/internal/stream"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// Downloads are measured by what their clients acknowledge. The tests share one site, because
// publishing it takes long.
func TestDownloadsAreMeasured(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := servetest.New(t, nil)
	s.Account("jp", "always", "jp") // each of its downloads has a row of its own
	var captures []*archive.Record
	for i := range 2 {
		captures = append(captures, servetest.Page(fmt.Sprintf("http://%s/%d", host, i), hex(uint64(i), 2<<20), day))
	}
	s.Publish("20261121", map[string][]*archive.Record{host: captures})
	for name, test := range map[string]func(*testing.T, *servetest.Site){
		"until it is acknowledged": testUntilAcknowledged, "broken off": testBrokenOff, "proxied": testProxied,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// serveMeasured serves a site to everybody, with connections like those of the service.
func serveMeasured(t *testing.T, s *servetest.Site, proxies peer.Proxies) (addr string) {
	router := mux.NewRouter()
	testkit.Must(t, httpd.Register(router, httpd.Options{
		Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Running: s.Running,
		Gate: operatorstest.Open, Log: slog.New(slog.DiscardHandler),
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	server := &http.Server{Handler: proxies.Handler(router), ConnContext: stream.ConnContext}
	go server.Serve(stream.Listener(l))
	t.Cleanup(func() { server.Close() })
	return l.Addr().String()
}

// begin requests a file on a connection with a small receive buffer, and reads the header of the
// answer.
func begin(t *testing.T, addr, request string) (net.Conn, *http.Response) {
	t.Helper()
	c := testkit.DialSmall(t, addr)
	fmt.Fprint(c, request)
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 4096), nil)
	testkit.Must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	return c, resp
}

const (
	membersFile = "/pub/jp/ac/waseda/www/20261121.members.tar.gz"
	login       = "Host: x\r\nAuthorization: Basic anA6anA=\r\n"
	again       = "GET /v1/version HTTP/1.1\r\n" + login + "\r\n"
)

// The time of a download ends when its client has the last byte, also if the server closes the
// connection first. Other requests of the connection do not wait for that.
func testUntilAcknowledged(t *testing.T, s *servetest.Site) {
	for name, request := range map[string]string{
		"keep-alive": "GET " + membersFile + " HTTP/1.1\r\n" + login + "\r\n" + again,
		"closed":     "GET " + membersFile + " HTTP/1.0\r\n" + login + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			addr, before := serveMeasured(t, s, nil), len(s.Downloads(transfers.Filter{}))
			begun := time.Now().Truncate(time.Millisecond) // as a note's beginning
			_, resp := begin(t, addr, request)
			size := resp.ContentLength
			const last = 4 * testkit.SmallBuffer // more than can be acknowledged before it is read
			read := testkit.ReadSlowly(t, resp.Body, size-last, 300*time.Millisecond)
			testkit.Eventually(t, "as much is under way as the client has read", func() error {
				running := s.Running.List(transfers.Filter{})
				if len(running) != 1 || !running[0].Acknowledged || running[0].Bytes < read-testkit.SmallBuffer || running[0].Bytes > read+2*testkit.SmallBuffer {
					return fmt.Errorf("%+v; the client has read %d", running, read)
				}
				return nil
			})
			unread := time.Now().Truncate(time.Millisecond)
			read += testkit.ReadSlowly(t, resp.Body, last, 0)
			list := s.Downloads(transfers.Filter{})
			seen := time.Now()
			if len(list) != before+1 || read != size {
				t.Fatalf("%d downloads; the client read %d of %d", len(list)-before, read, size)
			}
			n := list[0]
			if end := n.At.Add(n.Took + time.Millisecond); n.Bytes != size || n.Outcome != transfers.OK || !n.Acknowledged || n.At.Before(begun) || end.Before(unread) || n.At.Add(n.Took).After(seen) {
				t.Errorf("noted %+v; the client began at %v, read the last bytes from %v on, and the note was there at %v", n, begun, unread, seen)
			}
		})
	}
}

// Of an aborted download only the bytes count that the client has acknowledged, even if the service
// had written all of them.
func testBrokenOff(t *testing.T, s *servetest.Site) {
	addr := serveMeasured(t, s, nil)
	for name, ranges := range map[string]string{"while it is written": "", "when all is written": "Range: bytes=0-1299999\r\n"} {
		before := len(s.Downloads(transfers.Filter{}))
		c := testkit.DialSmall(t, addr)
		fmt.Fprint(c, "GET "+membersFile+" HTTP/1.1\r\n"+login+ranges+"\r\n")
		const part = 800 << 10
		testkit.ReadSlowly(t, c, part, 0)
		c.Close()
		list := s.Downloads(transfers.Filter{})
		if len(list) != before+1 {
			t.Fatalf("%s: %d downloads are noted", name, len(list)-before)
		}
		if n := list[0]; n.Bytes < part-testkit.SmallBuffer || n.Bytes > part+testkit.SmallBuffer || n.Outcome != transfers.Aborted {
			t.Errorf("%s: noted %+v; the client read %d", name, n, part)
		}
	}
}

// A download through a proxy is measured by what the service writes. Its record says so, and has
// the client's address.
func testProxied(t *testing.T, s *servetest.Site) {
	proxies, err := peer.ParseProxies([]string{"127.0.0.1"})
	testkit.Must(t, err)
	addr, before := serveMeasured(t, s, proxies), len(s.Downloads(transfers.Filter{}))
	_, resp := begin(t, addr, "GET "+membersFile+" HTTP/1.1\r\n"+login+"X-Forwarded-For: 192.0.2.7\r\n\r\n")
	size, err := io.Copy(io.Discard, resp.Body)
	testkit.Must(t, err)
	list := s.Downloads(transfers.Filter{})
	if len(list) != before+1 || list[0].Acknowledged || list[0].Bytes != size || list[0].Remote != "192.0.2.7:0" {
		t.Errorf("noted %+v", list)
	}
}
