package whole

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/archive/store/storetest"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/internal/window"
	"sheaf/serve/account"
	"sheaf/serve/client"
	"sheaf/test/servicetest"
)

// redirecting is a service that sends clients to its object store for files from 1 KiB on.
type redirecting struct {
	*servicetest.Service
	t        *testing.T
	public   string // host of the store, for clients
	password string // of alice
	edition  string
}

// startRedirecting starts the service and publishes an import whose pages and others are each a
// whole object in the store.
func startRedirecting(t *testing.T) *redirecting {
	t.Helper()
	o := storetest.StartVersity(t).Options(t)
	at, err := url.Parse(o.Endpoint)
	testkit.Must(t, err)
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { // passes the client's Host on
		r.Out.URL.Scheme, r.Out.URL.Host = at.Scheme, at.Host
	}})
	t.Cleanup(front.Close)
	settings := servicetest.Quiet()
	for key, value := range map[string]any{
		"store.kind": "s3", "store.endpoint": o.Endpoint, "store.bucket": o.Bucket, "store.access_key": o.AccessKey, "store.secret_key": o.SecretKey,
		"store.public": front.URL, "http.redirect.at": "1KiB", "publish.window": "always",
	} {
		settings[key] = value
	}
	s := &redirecting{Service: servicetest.Start(t, settings), t: t, public: strings.TrimPrefix(front.URL, "http://")}
	s.password = s.Consumer("alice")
	s.load()
	testkit.Eventually(t, "the import is published", func() error {
		var list api.EditionList
		resp, body := s.ask(http.MethodGet, api.PathEditions, "alice", s.password)
		if err := json.Unmarshal(body, &list); err != nil {
			return fmt.Errorf("%s: %w", resp.Status, err)
		}
		if len(list.Editions) == 0 {
			return fmt.Errorf("no edition yet")
		}
		s.edition = list.Editions[0].Name
		return nil
	})
	return s
}

// load imports a crawl: a page and the request for it, each of 64 KiB that do not deflate.
func (s *redirecting) load() {
	s.t.Helper()
	var warc bytes.Buffer
	for n, kind := range []string{"response", "request"} {
		noise := make([]byte, 64<<10)
		_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(noise) // never fails
		head := map[string]string{"response": "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n", "request": "POST / HTTP/1.1\r\nHost: large.example.jp\r\n\r\n"}[kind]
		fmt.Fprintf(&warc, "WARC/1.0\r\nWARC-Type: %s\r\nWARC-Target-URI: http://large.example.jp/\r\nWARC-Date: 2026-11-20T03:00:00Z\r\n"+
			"WARC-Record-ID: <urn:uuid:5c0ef7a0-4c3b-4d22-9f7a-00000000000%d>\r\nContent-Type: application/http; msgtype=%s\r\nContent-Length: %d\r\n\r\n%s%s\r\n\r\n",
			kind, n, kind, len(head)+len(noise), head, noise)
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "crawl.warc")
	testkit.Must(s.t, err)
	_, err = file.Write(warc.Bytes())
	testkit.Must(s.t, err)
	testkit.Must(s.t, form.Close())
	testkit.Must(s.t, s.Send(s.t.Context(), http.MethodPost, "/v1/admin/imports", form.FormDataContentType(), &body, nil))
}

// ask sends a request as an account and follows no redirect.
func (s *redirecting) ask(method, path, user, password string, header ...string) (*http.Response, []byte) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.At.HTTP+path, nil)
	testkit.Must(s.t, err)
	req.SetBasicAuth(user, password)
	for n := 0; n < len(header); n += 2 {
		req.Header.Set(header[n], header[n+1])
	}
	alone := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := alone.Do(req)
	testkit.Must(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(s.t, err)
	return resp, body
}

// file returns the path of the host's file of a form.
func (s *redirecting) file(form string) string { return "/pub/jp/example/large/" + s.edition + form }

// table has a job make a table of the host's records, and returns the path of its file.
func (s *redirecting) table() string {
	s.t.Helper()
	resp, body := s.ask(http.MethodPost, "/v1/tables/records.parquet?url=large.example.jp/*", "alice", s.password)
	if resp.StatusCode != http.StatusAccepted {
		s.t.Fatalf("job: %s %s", resp.Status, body)
	}
	var status api.JobStatus
	testkit.Eventually(s.t, "the job is done", func() error {
		if _, body = s.ask(http.MethodGet, resp.Header.Get("Location"), "alice", s.password); json.Unmarshal(body, &status) != nil || status.State != api.JobDone {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
	return status.Result
}

// served returns a file as the service itself sends it, to a request for a range.
func (s *redirecting) served(path string) []byte {
	s.t.Helper()
	resp, body := s.ask(http.MethodGet, path, "alice", s.password, "Range", "bytes=0-")
	if resp.StatusCode != http.StatusPartialContent {
		s.t.Fatalf("range of %s: %s %s", path, resp.Status, body)
	}
	return body
}

// A large file that is one whole object comes from the object store, by a URL that the service
// signs for the client. Everything else comes from the service as before.
func TestRedirectToStore(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := startRedirecting(t)
	for _, path := range []string{s.file(".members.tar.gz"), s.file(".others.warc.gz"), s.table()} {
		want := s.served(path)
		sum := sha256.Sum256(want)
		digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
		resp, body := s.ask(http.MethodGet, path, "alice", s.password)
		to, err := resp.Location()
		if resp.StatusCode != http.StatusTemporaryRedirect || err != nil || len(body) > 0 {
			t.Fatalf("%s: %s, %v, %d bytes", path, resp.Status, err, len(body))
		}
		if to.Host != s.public || to.Query().Get("X-Amz-Expires") != "600" || resp.Header.Get("Repr-Digest") != digest ||
			resp.Header.Get("ETag") == "" || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s leads to %s, with %v", path, to, resp.Header)
		}
		got := filepath.Join(t.TempDir(), "got")
		curl := testkit.Tool(t, "curl")
		out, err := exec.Command(curl, "-sSfL", "--user", "alice:"+s.password, "-o", got, s.At.HTTP+path).CombinedOutput()
		testkit.Must(t, err)
		if data, err := os.ReadFile(got); err != nil || !bytes.Equal(data, want) {
			t.Errorf("curl -L of %s: %d bytes of %d, %v %s", path, len(data), len(want), err, out)
		}
		etag := resp.Header.Get("ETag")
		for _, c := range []struct {
			method string
			header []string
			status int
		}{
			{http.MethodHead, nil, 200}, {http.MethodGet, []string{"Range", "bytes=1-2"}, 206}, {http.MethodGet, []string{"If-None-Match", etag}, 304},
			{http.MethodGet, []string{"If-Match", `"other"`}, 412}, {http.MethodGet, []string{"Origin", "https://player.example.jp"}, 200},
			{http.MethodGet, []string{"Sec-Fetch-Mode", "same-origin"}, 200}, {http.MethodGet, []string{"Sec-Fetch-Mode", "navigate"}, 307},
		} {
			if resp, _ := s.ask(c.method, path, "alice", s.password, c.header...); resp.StatusCode != c.status {
				t.Errorf("%s of %s with %q: %s, want %d", c.method, path, c.header, resp.Status, c.status)
			}
		}
	}
	for _, form := range []string{".tar.gz", ".warc.gz"} { // computed of ranges
		if resp, _ := s.ask(http.MethodGet, s.file(form), "alice", s.password); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", form, resp.Status)
		}
	}
}

// An account gets the URL of an object only when it might have the file itself, and the file counts
// in full.
func TestRedirectKeepsLimits(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := startRedirecting(t)
	size := int64(len(s.served(s.file(".members.tar.gz"))))
	never, err := window.Parse("never")
	testkit.Must(t, err)
	slow, err := account.ParseRates("1GiB")
	testkit.Must(t, err)
	redirects := 0
	for _, c := range []struct {
		account  account.Account
		statuses []int // of one request after the other
	}{
		{account.Account{Name: "closed", Window: never}, []int{503}},
		{account.Account{Name: "slow", Rate: slow}, []int{200}},
		{account.Account{Name: "little", Quota: size / 3}, []int{200}},      // more than twice the quota: sent, and broken off
		{account.Account{Name: "enough", Quota: size - 1}, []int{307, 429}}, // the first goes above the quota, as any download may
		{account.Account{Name: "more", Quota: size + size/2}, []int{307, 307, 429}},
		{account.Account{Name: "elsewhere", Domains: []string{"com"}}, []int{404}},
	} {
		made := account.NewAccount{Account: c.account}
		if made.Domains == nil {
			made.Domains = []string{"jp"}
		}
		s.Operate(http.MethodPost, api.PathAdminAccounts, made, &made)
		for _, status := range c.statuses {
			resp, _ := s.askCut(s.file(".members.tar.gz"), c.account.Name, made.Password)
			if resp.StatusCode != status || (status == 307) != (resp.Header.Get("Location") != "") {
				t.Errorf("%s: %s, Location %q, want %d", c.account.Name, resp.Status, resp.Header.Get("Location"), status)
			}
			if status == 307 {
				redirects++
			}
		}
	}
	if resp, _ := s.ask(http.MethodGet, s.file(".members.tar.gz"), "alice", "wrong"); resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("Location") != "" {
		t.Errorf("without the password: %s", resp.Status)
	}
	testkit.Eventually(t, "the redirects are in the log of transfers", func() error {
		if found := s.redirects("", size); found != redirects {
			return fmt.Errorf("%d redirects of %d bytes, want %d", found, size, redirects)
		}
		return nil
	})
}

// redirects returns how many redirected downloads of so many bytes an account, or any, has had.
func (s *redirecting) redirects(who string, size int64) (n int) {
	s.t.Helper()
	var list transfers.Document
	s.Operate(http.MethodGet, api.PathTransfers+"?who="+who, nil, &list)
	for _, l := range list.Transfers {
		if l.Protocol == transfers.Redirect && l.Bytes == size*max(l.Count, 1) { // a row for all of a minute
			n += int(max(l.Count, 1))
		}
	}
	return n
}

// askCut is ask for a file that may be broken off.
func (s *redirecting) askCut(path, user, password string) (*http.Response, error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.At.HTTP+path, nil)
	testkit.Must(s.t, err)
	req.SetBasicAuth(user, password)
	resp, err := http.DefaultClient.Transport.RoundTrip(req)
	testkit.Must(s.t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

// What the project's client opens comes from the store, under the service's ETag, so that it can be
// resumed at either.
func TestClientFollowsToStore(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := startRedirecting(t)
	at, err := url.Parse(s.At.HTTP)
	testkit.Must(t, err)
	path := "/jp/example/large/" + s.edition + ".others.warc.gz"
	consumer := &client.Client{URL: at, User: "alice", Password: s.password, HTTP: http.DefaultClient}
	f, err := consumer.Open(t.Context(), path, 0, "")
	testkit.Must(t, err)
	defer f.Body.Close()
	want := s.served("/pub" + path)
	begin := make([]byte, 100)
	_, err = io.ReadFull(f.Body, begin)
	testkit.Must(t, err)
	rest, err := consumer.Open(t.Context(), path, 100, f.ETag)
	testkit.Must(t, err)
	defer rest.Body.Close()
	end, err := io.ReadAll(rest.Body)
	testkit.Must(t, err)
	if got := append(begin, end...); rest.From != 100 || f.Size != int64(len(want)) || !bytes.Equal(got, want) {
		t.Errorf("%d bytes in two parts, the second from %d on; want %d", len(got), rest.From, len(want))
	}
	testkit.Eventually(t, "the first part came from the store", func() error {
		if n := s.redirects("alice", int64(len(want))); n != 1 {
			return fmt.Errorf("%d redirects", n)
		}
		return nil
	})
}
