package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive/naming"
	"sheaf/internal/testkit"
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

// TestImport: what wget has crawled into a WARC, however gzipped, is imported, published and
// fetched again; the same file is imported once; what is damaged is refused and says where.
func TestImport(t *testing.T) {
	url, host, pages := otherSite(t)
	dir := t.TempDir()
	wget := exec.CommandContext(t.Context(), testkit.Tool(t, "wget"), "-q", "-r", "-l", "3", "-e", "robots=off", "--compression=gzip",
		"--warc-file=crawl", "--delete-after", url+"/")
	wget.Dir = dir
	if out, err := wget.CombinedOutput(); err != nil && wget.ProcessState.ExitCode() != 8 { // 8: the server sent a 404
		t.Fatalf("wget: %v\n%s", err, out)
	}
	warc := filepath.Join(dir, "crawl.warc.gz")

	c := startService(t, map[string]any{"zone": "UTC"})
	imported := c.run([]string{"1 hosts, 4 pages"}, "archive", "import", warc)
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
	// What came out goes in again: as a WARC of ours, which has nothing that is left out but its
	// warcinfo.
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
	c.othersComeOut(url, host, data)
	cut := filepath.Join(dir, "cut.warc.gz")
	if err := os.WriteFile(cut, data[:len(data)*2/3], 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := c.try("archive", "import", cut); err == nil || !strings.Contains(err.Error(), "the file ends here") || !strings.Contains(err.Error(), "offset ") || !strings.Contains(err.Error(), "--lenient") {
		t.Errorf("%v %s", err, out)
	}
	c.run([]string{"1 hosts", "left out 1 damaged places", "offset ", "the file ends here"}, "archive", "import", "--lenient", cut)
	if out := c.run(nil, "archive", "import", "--lenient", "--json", cut); !strings.Contains(out, `"fresh": false`) || !strings.Contains(out, `"lost": 1`) {
		t.Errorf("the same file again: %s", out)
	}
}

// What others have crawled may lie in several files, with the requests in one of their own: that
// one is imported and published too, and operators get its records again.
func TestImportOfRequests(t *testing.T) {
	const block = "GET / HTTP/1.1\r\nHost: a.example.jp\r\n\r\n"
	request := fmt.Sprintf("WARC/1.0\r\nWARC-Type: request\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\n"+
		"WARC-Target-URI: http://a.example.jp/\r\nWARC-Date: 2009-03-01T12:00:00Z\r\n"+
		"Content-Type: application/http; msgtype=request\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", len(block), block)
	file := filepath.Join(t.TempDir(), "requests.warc")
	testkit.Must(t, os.WriteFile(file, []byte(request), 0o600))
	c := startService(t, map[string]any{"zone": "UTC"})
	imported := c.run([]string{"0 hosts, 0 pages", "1 records kept apart"}, "archive", "import", file)
	batch := strings.Fields(strings.SplitAfter(imported, "batch ")[1])[0]
	c.run([]string{"imported before as batch " + batch}, "archive", "import", file)
	c.until(batch, "post-split")
	c.run([]string{"published 1 batches"}, "batch", "publish")
	c.until(batch, "published")
	var report bytes.Buffer
	root := rootCommand()
	root.SetOut(&report)
	root.SetErr(&report)
	root.SetArgs([]string{"fsck", "--deep", "--data", c.data})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Errorf("fsck: %v\n%s", err, report.String())
	}
	z, err := gzip.NewReader(strings.NewReader(c.run(nil, "batch", "others", batch)))
	testkit.Must(t, err)
	if text, err := io.ReadAll(z); err != nil || string(text) != request {
		t.Errorf("beside the batch lies %q, %v", text, err)
	}
}

// othersComeOut looks whether a consumer gets every record of a file that was imported: those that
// are no answers beside the host's archive, byte for byte, and what is taken down nowhere.
func (c console) othersComeOut(url, host string, imported []byte) {
	c.Helper()
	records := func(packed []byte) (all []string) {
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			c.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			c.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(string(text), "\r\n\r\n"), "\r\n\r\nWARC/1.")[0:]
	}
	kind := func(record string) string {
		_, rest, _ := strings.Cut(record, "WARC-Type: ")
		kind, _, _ := strings.Cut(rest, "\r\n")
		return kind
	}
	var want []string
	kinds := make(map[string]bool)
	for _, r := range records(imported) {
		if kind(r) != "response" {
			want, kinds[kind(r)] = append(want, strings.TrimPrefix(r, "WARC/1.")), true
		}
	}
	if !kinds["request"] || !kinds["metadata"] || !kinds["warcinfo"] || !kinds["resource"] {
		c.Fatalf("wget wrote records of types %v", kinds)
	}
	path := "/" + naming.HostPath(host)
	listing := string(c.fetch("/pub" + path + "/"))
	edition, _, _ := strings.Cut(listing[strings.Index(listing, "others.warc.gz")-9:], ".")
	edition = strings.TrimLeft(edition, "\"/ >")
	for _, name := range []string{"/pub" + path + "/" + edition + ".others.warc.gz", "/a/" + host + "/all.others.warc.gz"} {
		var got []string
		for all := records(c.fetch(name)); len(all) > 0; all = all[1:] {
			if strings.Contains(all[0], "Content-Type: application/warc\r\n") { // and the header of a page's record
				all = all[1:]
				continue
			}
			got = append(got, strings.TrimPrefix(all[0], "WARC/1."))
		}
		if !slices.Equal(got, want) {
			c.Errorf("%s holds %d records, want the %d that are no answers", name, len(got), len(want))
		}
	}
	sums := string(c.fetch("/pub" + path + "/SHA256SUMS"))
	sum := sha256.Sum256(c.fetch("/pub" + path + "/" + edition + ".others.warc.gz"))
	if !strings.Contains(sums, hex.EncodeToString(sum[:])+"  "+edition+".others.warc.gz\n") {
		c.Errorf("its digest is not in\n%s", sums)
	}
	var report bytes.Buffer
	fsck := fsckCommand()
	fsck.SetOut(&report)
	fsck.SetArgs([]string{"--deep", "--data", c.data})
	if err := fsck.ExecuteContext(c.Context()); err != nil {
		c.Errorf("fsck: %v\n%s", err, &report)
	}
	c.run([]string{", as far as URLs begin with " + url + "/a.html,"}, "host", "takedown", host, "--url-prefix", url+"/a.html", "--reason", "a letter")
	left := strings.Join(records(c.fetch("/a/"+host+"/"+edition+".others.warc.gz")), "")
	if strings.Contains(left, "/a.html") || !strings.Contains(left, url+"/new") || !strings.Contains(left, "GET /new ") {
		c.Errorf("after the take-down of one URL there is\n%s", left)
	}
	c.run(nil, "host", "takedown", host, "--reason", "another letter")
	if status, _ := c.consume("/a/" + host + "/" + edition + ".others.warc.gz"); status != http.StatusNotFound {
		c.Errorf("after the take-down of the host: status %d", status)
	}
}

// until waits for a batch to come into a state.
func (c console) until(batch, state string) {
	c.Helper()
	testkit.Eventually(c, "the batch is "+state, func() error {
		if out := c.run(nil, "batch", "show", batch); !strings.Contains(out, state) {
			return errors.New(out)
		}
		return nil
	})
}

// fetch gets a path as a consumer of everything.
func (c console) fetch(path string) []byte {
	c.Helper()
	status, body := c.consume(path)
	if status != http.StatusOK {
		c.Fatalf("%s: status %d %.300s", path, status, body)
	}
	return body
}

// consume asks for a path as a new consumer of everything.
func (c console) consume(path string) (status int, body []byte) {
	c.Helper()
	name := fmt.Sprintf("reader%d", time.Now().UnixNano())
	made := c.run(nil, "account", "add", name, "--domain", "*", "--json")
	_, rest, _ := strings.Cut(made, `"password": "`)
	password, _, ok := strings.Cut(rest, `"`)
	if !ok {
		c.Fatalf("no password in %s", made)
	}
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, c.url+path, nil)
	if err != nil {
		c.Fatal(err)
	}
	req.SetBasicAuth(name, password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode, body
}
