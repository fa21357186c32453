package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
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

// tarFile writes a tar of pages, each of which is its own name.
func tarFile(t *testing.T, names ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		testkit.Must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(name)), ModTime: time.Unix(1e9, 0)}))
		_, err := io.WriteString(w, name)
		testkit.Must(t, err)
	}
	testkit.Must(t, w.Close())
	path := filepath.Join(t.TempDir(), "tree.tar")
	testkit.Must(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

// The commands take what import -o writes, and what was fetched of several hosts.
func TestArchiveOfSeveralHosts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	imported := filepath.Join(dir, "imported.tar.gz")
	_, err := archiveRun(t, "import", "-o", imported, tarFile(t, "a.test/1.html", "b.test/2.html"))
	testkit.Must(t, err)

	chosen := filepath.Join(dir, "chosen.members.tar.gz") // as GET /v1/pages.members.tar.gz gives it
	testkit.Must(t, withParts(t.Context(), []string{imported}, func(parts []archive.Part) error {
		for i := range parts {
			parts[i].Cells = []int{0}
		}
		view, err := archive.NewView(archive.Members, parts)
		testkit.Must(t, err)
		var b bytes.Buffer
		testkit.Must(t, copyAll(t.Context(), &b, view))
		return os.WriteFile(chosen, b.Bytes(), 0o600)
	}))

	for _, file := range []string{imported, chosen} {
		for _, c := range []struct {
			args []string
			want []string
		}{
			{[]string{"ls", file}, []string{"http://a.test/1.html", "http://b.test/2.html"}},
			{[]string{"verify", file}, []string{"a.test ", "b.test ", "1 records, 1 files"}},
			{[]string{"cat", "http://b.test/2.html", file}, []string{"b.test/2.html"}},
			{[]string{"cdx", file}, []string{"test,a)/1.html", "test,b)/2.html"}},
			{[]string{"warc", file}, []string{"\x1f\x8b\x08"}},
			{[]string{"wacz", file}, []string{"archive/data.warc.gz"}},
			{[]string{"extract", "-C", dir, file}, nil},
		} {
			out, err := archiveRun(t, c.args...)
			if err != nil {
				t.Errorf("%v: %v", c.args, err)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%v: no %q in %.500q", c.args, want, out)
				}
			}
		}
		if got, err := os.ReadFile(filepath.Join(dir, "b.test", "2.html")); err != nil || string(got) != "b.test/2.html" {
			t.Errorf("extracted %q, %v", got, err)
		}
		data, err := os.ReadFile(file)
		testkit.Must(t, err)
		data[len(data)/2] ^= 1
		testkit.Must(t, os.WriteFile(file, data, 0o600))
		if out, err := archiveRun(t, "verify", file); err == nil {
			t.Errorf("nothing is found wrong with a damaged file:\n%s", out)
		}
	}
}

// What a file says cannot command the terminal of who looks into it.
func TestArchiveKeepsControlsOut(t *testing.T) {
	t.Parallel()
	const escape = "\x1b[2J\u009b"
	file := filepath.Join(t.TempDir(), "segment"+escape+".tar.gz")
	w, err := archive.Create(file, "h.test", "s1", archive.WriterOptions{})
	testkit.Must(t, err)
	_, err = w.Append(&archive.Record{Kind: archive.Page, URL: "http://h.test/", Time: time.Unix(1e9, 0), Body: strings.NewReader("page"),
		HTTP: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/%shtml\r\n\r\n", escape)})
	testkit.Must(t, err)
	_, err = w.Seal()
	testkit.Must(t, err)
	wrong := tarFile(t, "nohost/"+escape)
	for _, args := range [][]string{{"ls", file}, {"verify", file}, {"cdx", file}, {"links", file}, {"import", "-o", file + ".out", wrong}} {
		out, err := archiveRun(t, args...)
		if args[0] == "import" {
			if err == nil {
				t.Error("a tree without host is taken")
				continue
			}
			out += err.Error()
		}
		if strings.ContainsAny(out, escape[:1]+"\u009b") {
			t.Errorf("%v: %q", args, out)
		}
	}
}
