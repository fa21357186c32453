package httpd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
)

var day = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

const host = "www.waseda.ac.jp"

// site is a service with the accounts jp (all of jp), keio and shut, whose window is never open.
type site struct {
	*servetest.Site
	url     string
	handler http.Handler
	look    *webpage.Site // may be changed before the first request
}

func newSite(t *testing.T) site {
	s := servetest.New(t, nil)
	s.Account("jp", "always", "jp")
	s.Account("keio", "always", "keio.ac.jp")
	s.Account("shut", "never", "jp")
	s.Publish("20261121", map[string][]*archive.Record{
		host: {
			servetest.Page("http://"+host+"/", "home", day),
			servetest.Page("http://"+host+"/big.html", noise(600_000), day),
			servetest.Answer("http://"+host+"/moved", 302, day),
		},
		"www.keio.ac.jp": {servetest.Page("http://www.keio.ac.jp/", "keio", day)},
	})
	router, look := mux.NewRouter(), &webpage.Site{Version: "test"}
	gate := func(_ operators.Role, _ audit.Act, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer operator" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	err := httpd.Register(router, httpd.Options{Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Gate: gate, Site: look})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	return site{s, server.URL, router, look}
}

// noise is text that does not compress well.
func noise(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(' ' + r.IntN(95))
	}
	return string(b)
}

// do makes a request as the account, whose password is its name.
func (s site) do(t *testing.T, method, account, path string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if account != "" {
		req.SetBasicAuth(account, account)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

const edition = "/pub/jp/ac/waseda/www/20261121"

func TestGet(t *testing.T) {
	s := newSite(t)
	resp, whole := s.do(t, "GET", "jp", edition+".tar.gz")
	h := resp.Header
	if resp.StatusCode != 200 || h.Get("Content-Type") != "application/gzip" || h.Get("ETag") == "" || h.Get("Last-Modified") == "" ||
		!strings.HasPrefix(h.Get("Repr-Digest"), "sha-256=:") || h.Get("Accept-Ranges") != "bytes" || resp.ContentLength != int64(len(whole)) {
		t.Fatalf("%s %v", resp.Status, h)
	}
	etag := h.Get("ETag")

	head, body := s.do(t, "HEAD", "jp", edition+".tar.gz")
	if len(body) != 0 || head.ContentLength != resp.ContentLength || head.Header.Get("ETag") != etag || head.Header.Get("Repr-Digest") != h.Get("Repr-Digest") {
		t.Errorf("HEAD: %v", head.Header)
	}
	for _, c := range []struct {
		name   string
		header []string
		status int
		body   []byte
	}{
		{"range", []string{"Range", "bytes=100-199"}, 206, whole[100:200]},
		{"suffix", []string{"Range", "bytes=-7"}, 206, whole[len(whole)-7:]},
		{"rest", []string{"Range", "bytes=1000-"}, 206, whole[1000:]},
		{"if-range fits", []string{"Range", "bytes=5-9", "If-Range", etag}, 206, whole[5:10]},
		{"if-range does not", []string{"Range", "bytes=5-9", "If-Range", `"other"`}, 200, whole},
		{"if-none-match", []string{"If-None-Match", etag}, 304, nil},
		{"if-match", []string{"If-Match", `"other"`}, 412, nil},
		{"too many ranges", []string{"Range", "bytes=" + strings.Repeat("0-0,", 100) + "1-1"}, 200, whole},
	} {
		resp, body := s.do(t, "GET", "jp", edition+".tar.gz", c.header...)
		if resp.StatusCode != c.status || !bytes.Equal(body, c.body) {
			t.Errorf("%s: %s, %d bytes", c.name, resp.Status, len(body))
		}
	}
	if resp, _ := s.do(t, "GET", "jp", edition+".tar.gz", "Range", "bytes=99999999-"); resp.StatusCode != 416 {
		t.Errorf("range past the end: %s", resp.Status)
	}

	// The stored segment is sent as a local file, and so are ranges of it.
	_, members := s.do(t, "GET", "jp", edition+".members.tar.gz")
	if _, part := s.do(t, "GET", "jp", edition+".members.tar.gz", "Range", "bytes=300-400099"); !bytes.Equal(part, members[300:400_100]) {
		t.Error("range of the members view")
	}

	resp, body = s.do(t, "GET", "jp", edition+".warc.gz", "Range", "bytes=0-9,20-29")
	boundary, ok := strings.CutPrefix(resp.Header.Get("Content-Type"), "multipart/byteranges; boundary=")
	if resp.StatusCode != 206 || !ok {
		t.Fatalf("two ranges: %s %v", resp.Status, resp.Header)
	}
	_, warc := s.do(t, "GET", "jp", edition+".warc.gz")
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for _, want := range [][]byte{warc[:10], warc[20:30]} {
		p, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(p); !bytes.Equal(got, want) {
			t.Errorf("part %v: %q", p.Header, got)
		}
	}
}

func TestShortAddresses(t *testing.T) {
	s := newSite(t)
	for path, c := range map[string]struct{ tree, name string }{
		"/a/" + host + ".tar.gz":                   {"current.tar.gz", host + ".tar.gz"},
		"/a/" + host + ".cdxj":                     {"current.cdxj", host + ".cdxj"},
		"/a/" + host + "/all.warc.gz":              {"all.warc.gz", host + "-all.warc.gz"},
		"/a/" + host + ".wacz":                     {"current.wacz", host + ".wacz"},
		"/a/" + host + "/20261101-20261130.tar.gz": {"20261101-20261130.tar.gz", host + "-20261101-20261130.tar.gz"},
		"/a/" + host + "/20261121.members.tar.gz":  {"20261121.members.tar.gz", host + "-20261121.members.tar.gz"},
	} {
		resp, body := s.do(t, "GET", "jp", path)
		_, want := s.do(t, "GET", "jp", "/pub/jp/ac/waseda/www/"+c.tree)
		if resp.StatusCode != 200 || !bytes.Equal(body, want) || resp.Header.Get("Content-Disposition") != "attachment; filename="+c.name {
			t.Errorf("%s: %s %v", path, resp.Status, resp.Header)
		}
	}
	for _, path := range []string{"/a/nobody.jp.tar.gz", "/a/" + host, "/a/" + host + "/MANIFEST", "/a/" + host + "/20261122.tar.gz"} {
		if resp, _ := s.do(t, "GET", "jp", path); resp.StatusCode != 404 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

// TestOtherSitesMayRead: the browser asks whether a player's script may read; then the script
// fetches a range with a password of its own.
func TestOtherSitesMayRead(t *testing.T) {
	s := newSite(t)
	resp, _ := s.do(t, "OPTIONS", "", "/a/"+host+".wacz", "Origin", "https://player.test",
		"Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "authorization,range")
	allowed := strings.ToLower(resp.Header.Get("Access-Control-Allow-Headers"))
	if resp.StatusCode != 204 || resp.Header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(allowed, "authorization") || !strings.Contains(allowed, "range") {
		t.Errorf("preflight: %s %v", resp.Status, resp.Header)
	}
	resp, body := s.do(t, "GET", "jp", "/a/"+host+".wacz", "Origin", "https://player.test", "Range", "bytes=0-3")
	if resp.StatusCode != 206 || string(body) != "PK\x03\x04" || resp.Header.Get("Access-Control-Allow-Origin") != "*" ||
		!strings.Contains(resp.Header.Get("Access-Control-Expose-Headers"), "Content-Range") {
		t.Errorf("range: %s %v %q", resp.Status, resp.Header, body)
	}
	if resp, _ := s.do(t, "GET", "", "/a/"+host+".wacz", "Origin", "https://player.test"); resp.StatusCode != 401 || resp.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("without a password: %s %v", resp.Status, resp.Header)
	}
	if resp, _ := s.do(t, "GET", "", "/v1/admin/accounts", "Origin", "https://player.test", "Authorization", "Bearer operator"); resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("operators' paths are open to other sites")
	}
}

func TestProblems(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		account, path, reason string
		status                int
	}{
		{"", "/pub/", "credentials", 401},
		{"nobody", "/pub/", "credentials", 401},
		{"jp", "/pub/jp/co/", "not_found", 404},
		{"keio", edition + ".tar.gz", "not_found", 404},
		{"shut", edition + ".tar.gz", "window_closed", 503},
		{"jp", "/v1/hosts?limit=0", "bad_query", 400},
		{"jp", "/v1/hosts?after=!", "cursor", 400},
	} {
		resp, body := s.do(t, "GET", c.account, c.path)
		var p wire.Problem
		err := json.Unmarshal(body, &p)
		if err != nil || resp.StatusCode != c.status || p.Status != c.status || p.Reason != c.reason || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s as %q: %s %v %s", c.path, c.account, resp.Status, resp.Header, body)
		}
		if c.status == 401 && resp.Header.Get("WWW-Authenticate") == "" {
			t.Error("401 without a challenge")
		}
	}
	next := testkit.NextMidnight()
	s.Account("later", next.In(testkit.Midday()).Format("Mon")+" 00:00-24:00 "+testkit.Midday().String(), "jp")
	resp, body := s.do(t, "GET", "later", edition+".tar.gz")
	if retry, err := http.ParseTime(resp.Header.Get("Retry-After")); err != nil || !retry.Equal(next) || !bytes.Contains(body, []byte(next.Format(time.RFC3339))) {
		t.Errorf("Retry-After %q, want %v: %s", resp.Header.Get("Retry-After"), next, body)
	}
	if resp, _ := s.do(t, "GET", "shut", "/pub/jp/ac/"); resp.StatusCode != 200 {
		t.Errorf("listing outside the window: %s", resp.Status)
	}
}

func TestListing(t *testing.T) {
	s := newSite(t)
	if resp, _ := s.do(t, "GET", "jp", "/pub/jp/ac"); resp.StatusCode != 301 || resp.Header.Get("Location") != "/pub/jp/ac/" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	_, body := s.do(t, "GET", "jp", "/pub/jp/ac/waseda/www/")
	_, sums := s.do(t, "GET", "jp", "/pub/jp/ac/waseda/www/SHA256SUMS")
	for _, want := range []string{`<a href="../">`, `<a href="20261121.tar.gz">`, `<a href="SHA256SUMS">`, fmt.Sprintf("%15d\n", len(sums))} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the listing lacks %q:\n%s", want, body)
		}
	}
}

func TestAPI(t *testing.T) {
	s := newSite(t)
	var list api.HostList
	var hosts []string
	for path := "/v1/hosts?prefix=jp,ac,&limit=1"; path != ""; {
		resp, body := s.do(t, "GET", "jp", path)
		list = api.HostList{}
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}
		for _, h := range list.Hosts {
			hosts = append(hosts, h.Host+" "+h.Path)
		}
		path, _, _ = strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
	}
	if want := "[www.keio.ac.jp /pub/jp/ac/keio/www/ www.waseda.ac.jp /pub/jp/ac/waseda/www/]"; fmt.Sprint(hosts) != want {
		t.Errorf("%v, want %s", hosts, want)
	}
	if _, body := s.do(t, "GET", "jp", "/v1/editions"); !strings.Contains(string(body), `"edition":"20261121"`) {
		t.Errorf("%s", body)
	}
	if _, body := s.do(t, "GET", "jp", "/v1/version"); strings.TrimSpace(string(body)) != `{"program":"test","catalog":1}` {
		t.Errorf("%s", body)
	}
}

func TestAdmin(t *testing.T) {
	s := newSite(t)
	call := func(method, path, body string) (int, []byte) {
		req, _ := http.NewRequest(method, s.url+path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer operator")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, answer
	}
	status, body := call("POST", api.PathAdminAccounts, `{"name":"kato","domains":["ac.jp"],"window":"Mon-Fri 02:00-08:00 Asia/Tokyo"}`)
	var made account.NewAccount
	if err := json.Unmarshal(body, &made); err != nil || status != 201 || made.Password == "" || made.Window.String() != "Mon-Fri 02:00-08:00 Asia/Tokyo" {
		t.Fatalf("%d %s %v", status, body, err)
	}
	if _, err := s.Accounts.Login(t.Context(), "kato", made.Password, ""); err != nil {
		t.Error(err)
	}
	if _, body := call("GET", api.PathAdminAccounts, ""); !strings.Contains(string(body), `"kato"`) || strings.Contains(string(body), "argon2") {
		t.Errorf("%s", body)
	}
	for body, want := range map[string]int{
		`{"name":"kato","domains":["jp"]}`:              409,
		`{"name":"sato","domains":[]}`:                  422,
		`{"name":"sato","domains":["jp"],"x":1}`:        400,
		`{"name":"sato","domains":["jp"],"window":"?"}`: 400,
	} {
		if status, answer := call("POST", api.PathAdminAccounts, body); status != want {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if status, _ := call("DELETE", api.PathAdminAccounts+"/kato", ""); status != 204 {
		t.Errorf("delete: %d", status)
	}
	if status, _ := call("DELETE", api.PathAdminAccounts+"/kato", ""); status != 404 {
		t.Errorf("delete again: %d", status)
	}
	if resp, _ := s.do(t, "GET", "jp", api.PathAdminAccounts); resp.StatusCode != 403 {
		t.Errorf("without being an operator: %s", resp.Status)
	}
}

func TestDownloadsAreRecorded(t *testing.T) {
	s := newSite(t)
	_, whole := s.do(t, "GET", "jp", edition+".tar.gz")
	s.do(t, "GET", "jp", edition+".tar.gz", "Range", "bytes=0-99")
	s.do(t, "HEAD", "jp", edition+".tar.gz")
	s.do(t, "GET", "jp", "/pub/")
	var list []transfers.Transfer
	testkit.Until(t, "two transfers are recorded", func() bool {
		var err error
		list, err = s.Log.List(t.Context(), transfers.Filter{Who: "jp"})
		testkit.Must(t, err)
		return len(list) == 2
	})
	if list[0].Bytes != 100 || list[1].Bytes != int64(len(whole)) || list[1].Outcome != transfers.OK || list[1].Name != "/jp/ac/waseda/www/20261121.tar.gz" {
		t.Errorf("%+v", list)
	}
}

// A publication while a client reads does not change what the client gets.
func TestPublishDuringDownload(t *testing.T) {
	s := newSite(t)
	_, want := s.do(t, "GET", "jp", "/a/"+host+"/all.tar.gz")
	req, _ := http.NewRequest("GET", s.url+"/a/"+host+"/all.tar.gz", nil)
	req.SetBasicAuth("jp", "jp")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make([]byte, 1000)
	if _, err := io.ReadFull(resp.Body, got); err != nil {
		t.Fatal(err)
	}
	s.Publish("20261122", map[string][]*archive.Record{host: {servetest.Page("http://"+host+"/", "new home", day.AddDate(0, 0, 1))}})
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(append(got, rest...), want) {
		t.Errorf("the download changed: %d bytes, want %d, %v", len(got)+len(rest), len(want), err)
	}
}

func TestCurlAndWgetResume(t *testing.T) {
	s := newSite(t)
	_, want := s.do(t, "GET", "jp", edition+".tar.gz")
	for tool, args := range map[string][]string{
		"curl": {"-sS", "-u", "jp:jp", "-C", "-", "-o", "20261121.tar.gz"},
		"wget": {"-q", "-c", "--user=jp", "--password=jp", "--auth-no-challenge"},
	} {
		t.Run(tool, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "20261121.tar.gz")
			if err := os.WriteFile(file, want[:len(want)/3], 0o644); err != nil {
				t.Fatal(err)
			}
			testkit.Run(t, dir, tool, append(args, s.url+edition+".tar.gz")...)
			if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, want %d, %v", len(got), len(want), err)
			}
			testkit.Run(t, dir, "tar", "xzf", file)
			if body, err := os.ReadFile(filepath.Join(dir, host, "index.html")); err != nil || string(body) != "home" {
				t.Errorf("index.html is %q, %v", body, err)
			}
			if body, err := os.ReadFile(filepath.Join(dir, host, "big.html")); err != nil || string(body) != noise(600_000) {
				t.Errorf("big.html has %d bytes, %v", len(body), err)
			}
		})
	}
}

func TestWgetMirrorsTheTree(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	testkit.Run(t, dir, "wget", "-q", "-r", "-np", "-nH", "--cut-dirs=1", "-e", "robots=off", "--user=jp", "--password=jp", "--auth-no-challenge", s.url+"/pub/")
	for n, err := range s.Library.Tree.List(t.Context(), &account.Account{Name: "jp", Domains: []string{"jp"}}, "/jp/ac/waseda/www") {
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, "jp/ac/waseda/www", n.Name))
		if err != nil || info.Size() != n.Size || !info.ModTime().Equal(n.Modified) {
			t.Errorf("%+v was mirrored as %+v, %v", n, info, err)
		}
	}
	testkit.Run(t, filepath.Join(dir, "jp/ac/waseda/www"), "sha256sum", "--quiet", "-c", "SHA256SUMS")
	testkit.Run(t, filepath.Join(dir, "editions/20261121"), "sha256sum", "--quiet", "-c", "SHA256SUMS")
}
