package robotd

import (
	"bufio"
	"compress/gzip"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// A consumer reads every record of a crawl as a warc.gz, while another one that takes
// nothing does not hold it up.
func TestTap(t *testing.T) {
	testkit.Slow(t)
	t.Parallel() // the robot's end waits a second for the consumer that takes nothing
	const pages = 200
	site := newSite(t, "127.0.0.71")
	site.tree("www.a.test", pages)
	s := newService(t, "http://www.a.test/")
	cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr})
	dir, err := os.MkdirTemp("", "tap") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg.Tap.Socket, cfg.Interval = filepath.Join(dir, "s"), 0
	r, err := New(cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	for _, reads := range []bool{true, false} {
		conn, err := net.Dial("unix", cfg.Tap.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		z, err := gzip.NewReader(bufio.NewReader(conn)) // the start: it is connected now
		if err != nil {
			t.Fatal(err)
		}
		if reads {
			go func() {
				all, err := io.ReadAll(z)
				if err != nil {
					t.Error(err)
				}
				read <- string(all)
			}()
		}
	}
	if err := r.Cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	warc := <-read
	if !strings.HasPrefix(warc, "WARC/1.1\r\nWARC-Type: warcinfo\r\n") {
		t.Errorf("the stream begins with %.200q", warc)
	}
	if n := strings.Count(warc, "WARC-Type: response\r\n"); n != pages || !strings.Contains(warc, "\r\n\r\n<title>0</title>") {
		t.Errorf("%d records were read, want %d", n, pages)
	}
}
