package ingest_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"sheaf/ingest"
	"sheaf/ingest/accept"
	"sheaf/ingest/foreign"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/operatorstest"
)

// asked blocks those who ask for the generation, as every import does, until their context ends.
type asked struct {
	ingest.Robots
	asks, left chan struct{}
}

func (a *asked) CurrentGeneration(ctx context.Context) (int64, error) {
	close(a.asks)
	<-ctx.Done()
	close(a.left)
	return 0, ctx.Err()
}

// smallTree is a tar with two pages.
func smallTree(t *testing.T) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"www.example.jp/1.html", "www.example.jp/2.html"} {
		testkit.Must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: 4}))
		_, err := io.WriteString(w, "<p>a")
		testkit.Must(t, err)
	}
	testkit.Must(t, w.Close())
	return b.Bytes()
}

// postImport sends a file as the command does.
func postImport(ctx context.Context, t *testing.T, h *installation, file []byte, fields ...string) (*http.Response, error) {
	router := mux.NewRouter()
	h.in.Register(router, operatorstest.Open)
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for n := 0; n < len(fields); n += 2 {
		testkit.Must(t, form.WriteField(fields[n], fields[n+1]))
	}
	part, err := form.CreateFormFile("file", "foreign.tar")
	testkit.Must(t, err)
	_, err = part.Write(file)
	testkit.Must(t, err)
	testkit.Must(t, form.Close())
	body.Write(make([]byte, 16<<10)) // nobody has to read it, like the end of a chunked body
	req, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/admin/imports", &body)
	testkit.Must(t, err)
	req.Header.Set("Content-Type", form.FormDataContentType())
	return http.DefaultClient.Do(req)
}

// converting lists the temporary files of conversions.
func (h *installation) converting() (names []string) {
	entries, err := os.ReadDir(filepath.Join(h.opt.Dir, "converting"))
	testkit.Must(h.t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// An import ends when the client leaves, and no file of it is left.
func TestImportEndsWithClient(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	robots := &asked{h.opt.Robots, make(chan struct{}), make(chan struct{})}
	h.opt.Robots = robots
	h.open()
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-robots.asks; leave() }()
	if _, err := postImport(ctx, t, h, smallTree(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the client has left", err)
	}
	testkit.Receive(t, "the service notices that the client has left", robots.left)
	testkit.Until(t, "nothing is left of the import", func() bool { return len(h.converting()) == 0 })
}

// An operator who asks for it gets what is right of a damaged file, and the list of what is not.
// An import ends when the service stops, and its client is told to come again.
func TestImportEndsWithService(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	robots := &asked{h.opt.Robots, make(chan struct{}), make(chan struct{})}
	stopping := make(chan struct{})
	h.opt.Robots, h.opt.Stopping = robots, stopping
	h.open()
	go func() { <-robots.asks; close(stopping) }()
	resp, err := postImport(t.Context(), t, h, smallTree(t))
	testkit.Must(t, err)
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, errors.Join(err, resp.Body.Close()))
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "import the file again") {
		t.Errorf("the answer is %s %s", resp.Status, body)
	}
	testkit.Until(t, "nothing is left of the import", func() bool { return len(h.converting()) == 0 })
}

// A service that stops does not wait for the rest of a file that is being sent.
func TestFileOfImportEndsWithService(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	stopping := make(chan struct{})
	h.opt.Stopping = stopping
	h.open()
	router := mux.NewRouter()
	h.in.Register(router, operatorstest.Open)
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	body, sender := io.Pipe()
	defer sender.Close()
	form := multipart.NewWriter(sender)
	go func() {
		if part, err := form.CreateFormFile("file", "foreign.tar"); err == nil {
			part.Write(make([]byte, 1<<20))
		}
		testkit.Until(t, "some of the file has come", func() bool { return len(h.converting()) > 0 })
		close(stopping)
	}()
	req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/v1/admin/imports", body)
	testkit.Must(t, err)
	req.Header.Set("Content-Type", form.FormDataContentType())
	if resp, err := http.DefaultClient.Do(req); err == nil { // the connection may break off before the client has read why
		text, err := io.ReadAll(resp.Body)
		testkit.Must(t, errors.Join(err, resp.Body.Close()))
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "import the file again") {
			t.Errorf("the answer is %s %s", resp.Status, text)
		}
	}
	testkit.Until(t, "nothing is left of the import", func() bool { return len(h.converting()) == 0 })
}

func TestLenientImport(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	h.open()
	record := func(n int, digest string) string {
		return fmt.Sprintf("WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: http://a.example.jp/%d\r\nWARC-Date: 2009-03-01T12:00:00Z\r\n"+
			"Content-Type: text/html\r\n%sContent-Length: 4\r\n\r\n<p>a\r\n\r\n", n, digest)
	}
	damaged := []byte(record(1, "") + record(2, "WARC-Block-Digest: md5:AAAA\r\n") + record(3, ""))
	for _, c := range []struct {
		lenient string
		status  int
		says    string
	}{
		{"perhaps", http.StatusBadRequest, `lenient is \"perhaps\"`},
		{"false", http.StatusUnprocessableEntity, "--lenient"},
		{"true", http.StatusOK, `"lost":1,"losses":[{"offset":158,"url":"http://a.example.jp/2","reason":"sha_mismatch"`},
	} {
		resp, err := postImport(t.Context(), t, h, damaged, "lenient", c.lenient)
		testkit.Must(t, err)
		text, err := io.ReadAll(resp.Body)
		testkit.Must(t, errors.Join(err, resp.Body.Close()))
		if resp.StatusCode != c.status || !strings.Contains(string(text), c.says) {
			t.Errorf("lenient=%s: %d %s, want %d …%s…", c.lenient, resp.StatusCode, text, c.status, c.says)
		}
	}
}

// The limits of foreign files hold for imports and for files that robots upload by FTP.
func TestForeignLimits(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	h.opt.ForeignLimits = foreign.Limits{Entries: 1}
	h.open()
	resp, err := postImport(t.Context(), t, h, smallTree(t))
	testkit.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	if resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(text), "import.max_entries") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	path := filepath.Join(h.opt.Dir, "dropped")
	testkit.Must(t, os.WriteFile(path, smallTree(t), 0o600))
	_, err = h.in.Acceptor.Infer(t.Context(), accept.Upload{Robot: "waseda", Protocol: "ftp", Path: path})
	wantRefusal(t, err, wire.ReasonBombRatio)
	if left := h.converting(); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}
