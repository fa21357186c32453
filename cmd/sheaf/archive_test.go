package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
)

// archiveRun runs "sheaf archive" with args.
func archiveRun(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := archiveCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(context.Background())
	return out.String(), err
}

func TestArchiveCommands(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "20261121.tar.gz")
	w, err := archive.Create(file, "h.test", "s1", archive.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{"/": "root", "/a.html": "<p>page"} {
		_, err := w.Append(&archive.Record{Kind: archive.Page, URL: "http://h.test" + path, Time: time.Unix(1e9, 0),
			HTTP: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: strings.NewReader(body)})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"ls", file}, "http://h.test/a.html"},
		{[]string{"cat", "http://h.test/a.html", file}, "<p>page"},
		{[]string{"cat", "--gzip", "http://h.test/a.html", file}, "\x1f\x8b\x08"},
		{[]string{"verify", file}, "2 records, 2 files"},
		{[]string{"cdx", file}, `"filename":"20261121.warc.gz"`},
		{[]string{"warc", file, file}, "\x1f\x8b\x08"},
		{[]string{"wacz", file}, "archive/data.warc.gz"},
		{[]string{"extract", "-C", dir, file}, ""},
	} {
		if out, err := archiveRun(t, c.args...); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%v: %v\n%.500q", c.args, err, out)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "h.test", "a.html")); err != nil || string(got) != "<p>page" {
		t.Errorf("extracted %q, %v", got, err)
	}
	if err := os.Truncate(file, 300); err != nil {
		t.Fatal(err)
	}
	if out, err := archiveRun(t, "verify", file); err == nil || !strings.Contains(out, "truncated") {
		t.Errorf("a cut file: %v\n%s", err, out)
	}
}
