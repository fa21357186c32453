package service

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/jlaffaye/ftp"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/client"
)

// warcOf is an archive of one page.
func warcOf(page string) string {
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>" + page
	return "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: " + page + "\r\nWARC-Date: 2026-11-20T03:00:00Z\r\n" +
		"WARC-Record-ID: <urn:uuid:5c0ef7a0-4c3b-4d22-9f7a-000000000001>\r\nContent-Type: application/http; msgtype=response\r\n" +
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s\r\n\r\n", len(answer), answer)
}

// publishPage runs a service and publishes a page, as an operator does who imports it.
func publishPage(t *testing.T, s *Service, page string) {
	t.Helper()
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	t.Cleanup(func() {
		stop()
		testkit.Must(t, <-ended)
	})
	operator := importFile(t, s, warcOf(page))
	testkit.Eventually(t, "the page is published", func() error {
		var done struct{ Edition string }
		if err := operator.Do(t.Context(), http.MethodPost, api.PathAdminPublish, nil, &done); err != nil {
			return err
		}
		if done.Edition == "" {
			return fmt.Errorf("nothing is split yet")
		}
		return nil
	})
}

// importFile has a running service import an archive file, and returns the client of the operator.
func importFile(t *testing.T, s *Service, text string) *client.Client {
	t.Helper()
	operator, err := client.Operator(s.Addresses().HTTP, s.OperatorToken())
	testkit.Must(t, err)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "page.warc")
	testkit.Must(t, err)
	_, err = io.WriteString(file, text)
	testkit.Must(t, err)
	testkit.Must(t, form.Close())
	testkit.Must(t, operator.Send(t.Context(), http.MethodPost, api.PathAdminImports, form.FormDataContentType(), &body, nil))
	return operator
}

// While the database hangs, every page ends within seconds. It is shown if it needs no database;
// otherwise browsers get a page with the error and programs a problem. Downloads go on.
func TestPagesWhileTheDatabaseHangs(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	cfg := testConfig(t, map[string]any{"data": t.TempDir(), "access.anonymous": []string{"jp"}, "stop": "1s", "download.listen": "127.0.0.1:0"})
	cfg.Slower = 1
	s, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	publishPage(t, s, "http://www.example.jp/")
	addAccount(t, s, "reader", "reader's password")
	cookie := logIn(t, s, "reader", "reader's password", "/account", "/account")
	asked := askRemoval(t, s)

	s.state.db.SetMaxOpenConns(1) // and the one is taken: whoever asks the database waits for it
	taken, err := s.state.db.Conn(context.Background())
	testkit.Must(t, err)
	defer taken.Close() // before the service stops

	type ask struct {
		method, path, user, password string
		header                       []string
		status                       int
	}
	asks := []ask{
		{path: "/", status: 200}, {path: "/browse/jp/", status: 200}, {path: "/find?q=www.example.jp", status: 303},
		{path: "/webmasters", status: 200}, {path: "/removal", status: 200}, {path: "/login", status: 200},
		{path: "/web/*/http://www.example.jp/", status: 200}, {path: "/pub/jp/example/www/current.tar.gz", status: 200},
		{path: "/browse/jp/example/www/", status: 200}, {path: "/web/20261120030000/http://www.example.jp/", status: 200},
		{path: "/web/20261120030000mp_/http://www.example.jp/", status: 200}, {path: "/web/20261120030000id_/http://www.example.jp/", status: 200},
		{path: "/diff/20261120030000/20261120030000/http://www.example.jp/", status: 200},
		{path: "/v1/cdx?url=http://www.example.jp/", status: 200}, {path: "/v1/coverage?url=http://www.example.jp/", status: 200},
		{path: asked.Header().Get("Location"), status: 503},
		{path: "/account", header: []string{"Cookie", cookie}, status: 503},
		{path: "/pub/jp/example/www/current.tar.gz", header: []string{"Cookie", cookie}, status: 503},
		{path: "/watches", user: "reader", password: "reader's password", status: 503},
		{path: "/board/", user: "ops", password: s.OperatorToken(), status: 503},
		{path: "/board/batches", header: []string{"Cookie", cookie}, status: 503},
		{method: http.MethodPost, path: "/login", status: 503}, {method: http.MethodPost, path: "/watches", user: "reader", password: "reader's password", status: 503},
		{method: http.MethodPost, path: "/removal", status: 503},
		{method: http.MethodPost, path: "/board/batches", user: "ops", password: s.OperatorToken(), status: 503},
		{path: "/account", header: []string{"Cookie", cookie, "Accept", "application/json"}, status: 503},
		{path: api.PathAdminRobots, header: []string{"Accept", "*/*"}, user: "keeper", password: "a wrong password", status: 503},
	}
	patient, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	var all sync.WaitGroup // at once: they only wait
	for _, a := range asks {
		if a.method == "" {
			a.method = http.MethodGet
		}
		all.Go(func() {
			r, err := http.NewRequestWithContext(patient, a.method, s.Addresses().HTTP+a.path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Accept", "text/html")
			if a.user != "" {
				r.SetBasicAuth(a.user, a.password)
			}
			for i := 0; i+1 < len(a.header); i += 2 {
				r.Header.Set(a.header[i], a.header[i+1])
			}
			resp, err := http.DefaultClient.Transport.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != a.status {
				t.Errorf("%s %s: %d, want %d: %v: %.300s", a.method, a.path, resp.StatusCode, a.status, err, body)
			}
			want := "text/html"
			if r.Header.Get("Accept") != want {
				want = "application/problem+json"
			}
			if kind := resp.Header.Get("Content-Type"); a.status == 503 && !strings.HasPrefix(kind, want) {
				t.Errorf("%s %s: the answer is %s, want %s", a.method, a.path, kind, want)
			}
		})
	}
	defer all.Wait()
	c, err := ftp.Dial(s.Addresses().Download, ftp.DialWithTimeout(testkit.Patience))
	testkit.Must(t, err)
	defer c.Quit()
	testkit.Must(t, c.Login("anonymous", "someone@mail.example"))
	file, err := c.Retr("/jp/example/www/current.tar.gz")
	testkit.Must(t, err)
	data, err := io.ReadAll(file)
	testkit.Must(t, err)
	testkit.Must(t, file.Close())
	if len(data) == 0 {
		t.Error("the file is empty")
	}
}
