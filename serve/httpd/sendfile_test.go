package httpd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/db"
	"sheaf/internal/stream"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// Archives, stored or put together while they are sent, and ranges of them are sent by sendfile:
// strace sees none of their bytes in a write.
func TestArchivesLeaveBySendfile(t *testing.T) {
	testkit.Slow(t)
	s := servetest.New(t, nil)
	var captures []*archive.Record
	for i := range 8 {
		captures = append(captures, servetest.Page(fmt.Sprintf("http://%s/%d", host, i), hex(uint64(i), 1<<20), day))
	}
	s.Publish("20261121", map[string][]*archive.Record{host: captures})
	p := serveInProcess(t, s.Dir)
	for _, form := range []string{".members.tar.gz", ".tar.gz", ".warc.gz", ".wacz"} {
		checkSendfile(t, p, edition+form)
	}
}

func checkSendfile(t *testing.T, p *servetest.Process, file string) {
	t.Helper()
	size := int(mirrorFile(t, p, file, t.TempDir()))
	for name, c := range map[string]struct {
		ranges string
		want   int
	}{"whole": {"", size}, "range": {fmt.Sprintf("bytes=1000-%d", size-1001), size - 2000}} {
		moved := p.Moved(t, []string{"sendfile", "write"}, func() {
			req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+p.Addr+file, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.ranges != "" {
				req.Header.Set("Range", c.ranges)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != int64(c.want) {
				t.Errorf("%s, %s: %d bytes, want %d, %v", file, name, n, c.want, err)
			}
			// The answer to the next request of the connection shows that the last call has
			// returned.
			next, err := http.Head("http://" + p.Addr + file)
			if err != nil {
				t.Fatal(err)
			}
			next.Body.Close()
		})
		// net/http writes the first half kibibyte together with the header; a cell's tar header and
		// trailer are no half percent.
		if moved["sendfile"] < c.want-c.want/200 || moved["write"] > c.want/10 {
			t.Errorf("%s, %s: of %d bytes sendfile moved %d, write %d", file, name, c.want, moved["sendfile"], moved["write"])
		}
	}
}

const serveStore = "SHEAF_TEST_HTTP_STORE"

// serveInProcess starts a process that serves the hosts of jp in a store to everybody.
func serveInProcess(t testing.TB, dir string) *servetest.Process {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestServeProcess$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), serveStore+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &servetest.Process{Addr: strings.TrimSpace(line), PIDs: []int{cmd.Process.Pid}}
}

// TestServeProcess is that process. It is no test of its own.
func TestServeProcess(t *testing.T) {
	dir := os.Getenv(serveStore)
	if dir == "" {
		return
	}
	st, err := store.OpenFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	cat, err := catalog.Open(t.Context(), st, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	database, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "sheaf.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	accounts, err := account.NewAccounts(database, &account.Account{Name: "anonymous", Domains: []string{"jp"}}, servetest.Cheap)
	if err != nil {
		t.Fatal(err)
	}
	library, err := reading.New(reading.Options{Catalog: cat, Store: st, Accounts: accounts})
	if err != nil {
		t.Fatal(err)
	}
	router := mux.NewRouter()
	if err := httpd.Register(router, httpd.Options{
		Library: library, Accounts: accounts, Recorder: transfers.New(database), Gate: operatorstest.Open,
	}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.Addr())
	server := &http.Server{Handler: router, ConnContext: stream.ConnContext} // as the service has it
	t.Error(server.Serve(stream.Listener(l)))
}
