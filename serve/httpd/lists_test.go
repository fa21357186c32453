package httpd_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/httpd"
	"sheaf/test/operatorstest"
)

// longList returns a list with as many pages as one query may have, of a thousand hosts.
func longList() string {
	var list strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&list, "http://www.example%d.ac.jp/dir/page%d.html?x=%d\n", i%1000, i, i)
	}
	return list.String()
}

// used returns the CPU time of this process.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	testkit.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The longest list of one query costs about 0.7 s of CPU time, and no more than a slow machine
// makes of that. Thirty at once do not need thirty times the memory of one: most are refused before
// they are read.
func TestLongLists(t *testing.T) {
	testkit.Slow(t)
	s := newSite(t)
	list := longList()
	for _, path := range []string{"/v1/cdx", "/v1/coverage"} {
		begun := used(t)
		resp, body := s.ask(t, "POST", path, "jp", "jp", list, "Content-Type", "text/plain")
		took := used(t) - begun
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %.200s", path, resp.Status, body)
		}
		if took > 3*time.Second && !raced {
			t.Errorf("%s took %v of CPU", path, took)
		}
		t.Logf("%s took %v of CPU", path, took)
	}

	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	statuses := make(chan int)
	for range 30 {
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", s.url+"/v1/cdx", strings.NewReader(list))
			req.SetBasicAuth("jp", "jp")
			resp, err := http.DefaultClient.Do(req)
			if err != nil { // it was turned away while it was still sending
				statuses <- http.StatusTooManyRequests
				return
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "" {
				t.Error("429 says no time")
			}
			statuses <- resp.StatusCode
		}()
	}
	count := map[int]int{}
	for range 30 {
		count[testkit.Receive(t, "an answer", statuses)]++
	}
	runtime.ReadMemStats(&now)
	if more := int64(now.HeapSys-before.HeapSys) >> 20; more > 150 || count[200]+count[429] != 30 || count[200] == 0 {
		t.Errorf("thirty at once took %d MiB more of the system, answers %v", more, count)
	}
}

// A long list for which there is no place is refused before all of it is read.
func TestListsAreRefusedUnread(t *testing.T) {
	testkit.Slow(t)
	s, _ := watchSite(t)
	const header = "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Basic anA6anA=\r\nContent-Length: 1000000\r\n\r\n"
	long := strings.Repeat("http://www.waseda.ac.jp/\n", 12<<10) // what fits in memory, and more
	begin := func(path string) net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		testkit.Must(t, err)
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, header, path)
		go io.WriteString(c, long)
		return c
	}
	refused := make(chan *http.Response, 5)
	ask := func(path string) {
		c := begin(path)
		go func() {
			if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				refused <- resp
			}
		}()
	}
	for range 5 { // none of which ever sends the rest: four are read, and one is refused
		ask("/v1/cdx")
	}
	testkit.Receive(t, "one of five is refused", refused)
	for _, path := range []string{"/v1/cdx", "/v1/coverage", api.PathPages + ".tar.gz"} {
		ask(path)
		resp := testkit.Receive(t, path+" is refused", refused)
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %s, %v", path, resp.Status, resp.Header)
		}
	}
}

// A list that breaks off is refused with the reason, at the paths that take one.
func TestBrokenListsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	router := mux.NewRouter()
	testkit.Must(t, httpd.Register(router, httpd.Options{Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Gate: operatorstest.Shut}))
	for _, path := range []string{api.PathCDX, api.PathCoverage} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, iotest.ErrReader(io.ErrUnexpectedEOF))
		r.SetBasicAuth("jp", "jp")
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "the body breaks off") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
