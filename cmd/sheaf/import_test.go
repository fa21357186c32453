package main

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testneed"
)

// otherSite is a site that another's program has crawled.
func otherSite(t *testing.T) (url, host string, pages map[string]string) {
	pages = map[string]string{
		"/":       `<a href="/a.html">a</a> <a href="/gone">gone</a> <a href="/moved">moved</a> <a href="/zip">zip</a>`,
		"/a.html": "<p>\xc6\xfc\xcb\xdc", "/new": "<p>moved here", "/zip": strings.Repeat("<p>compressed ", 500),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		switch {
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/new", http.StatusMovedPermanently)
			return
		case !ok:
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/zip" && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, body)
			z.Close()
			return
		}
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL, strings.TrimPrefix(server.URL, "http://"), pages
}

// TestImport: what wget has crawled into a WARC, however gzipped, is imported, published and fetched again;
// the same file is imported once; what is damaged is refused and says where.
func TestImport(t *testing.T) {
	url, host, pages := otherSite(t)
	dir := t.TempDir()
	wget := exec.CommandContext(t.Context(), testneed.Tool(t, "wget"), "-q", "-r", "-l", "3", "-e", "robots=off", "--compression=gzip",
		"--warc-file=crawl", "--delete-after", url+"/")
	wget.Dir = dir
	if out, err := wget.CombinedOutput(); err != nil && wget.ProcessState.ExitCode() != 8 { // 8: the server sent a 404
		t.Fatalf("wget: %v\n%s", err, out)
	}
	warc := filepath.Join(dir, "crawl.warc.gz")

	c := startService(t, map[string]any{"zone": "UTC"})
	imported := c.run([]string{"is received", "1 hosts, 4 pages"}, "archive", "import", warc)
	batch := strings.Fields(strings.SplitAfter(imported, "batch ")[1])[0]
	c.run([]string{"imported before as batch " + batch}, "archive", "import", warc)
	c.until(batch, "post-split")
	c.run([]string{"published 1 batches"}, "batch", "publish")
	if others := c.run(nil, "batch", "others", batch); !strings.HasPrefix(others, "\x1f\x8b") {
		t.Errorf("beside the batch lies %.20q", others)
	}

	file := filepath.Join(dir, "export.tar.gz")
	if err := os.WriteFile(file, c.fetch("/a/"+host+"/all.members.tar.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, body := range pages {
		if got, err := archiveRun(t, "cat", url+path, file); err != nil || got != body {
			t.Errorf("%s: %.60q, %v; want %.60q", path, got, err, body)
		}
	}
	if out, err := archiveRun(t, "ls", file); err != nil || !strings.Contains(out, "301") || !strings.Contains(out, "404") {
		t.Errorf("%v\n%s", err, out)
	}
	// What came out goes in again: as a WARC of ours, which has nothing that is left out but its warcinfo.
	again := filepath.Join(dir, "again.warc.gz")
	if err := os.WriteFile(again, c.fetch("/a/"+host+"/all.warc.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := archiveRun(t, "import", "-o", filepath.Join(dir, "again.tar.gz"), again); err != nil || !strings.Contains(out, "1 hosts, 4 pages") || !strings.Contains(out, "1 records left out") {
		t.Errorf("%v %s", err, out)
	}

	data, err := os.ReadFile(warc)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut.warc.gz")
	if err := os.WriteFile(cut, data[:len(data)*2/3], 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := c.try("archive", "import", cut); err == nil || !strings.Contains(err.Error(), "the file ends here") || !strings.Contains(err.Error(), "offset ") {
		t.Errorf("%v %s", err, out)
	}
}

// until waits for a batch to come into a state.
func (c console) until(batch, state string) {
	c.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out := c.run(nil, "batch", "show", batch)
		if strings.Contains(out, state) {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("not %s within a minute:\n%s", state, out)
		}
	}
}

// fetch gets a path as a consumer of everything.
func (c console) fetch(path string) []byte {
	c.Helper()
	made := c.run(nil, "account", "add", "reader"+strings.Map(letters, path), "--domain", "*", "--json")
	_, rest, _ := strings.Cut(made, `"password": "`)
	password, _, ok := strings.Cut(rest, `"`)
	if !ok {
		c.Fatalf("no password in %s", made)
	}
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, c.url+path, nil)
	if err != nil {
		c.Fatal(err)
	}
	req.SetBasicAuth("reader"+strings.Map(letters, path), password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.Fatalf("%s: %s %v %.300s", path, resp.Status, err, body)
	}
	return body
}

func letters(c rune) rune {
	if 'a' <= c && c <= 'z' {
		return c
	}
	return -1
}
