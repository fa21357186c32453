// Package interop has segments read by programs written by others. What they read must be, byte for
// byte, what was put in.
package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/naming"
	"sheaf/internal/testkit"
)

const host = "www.site.test:8080"

// fixture is one segment with all its views as files.
type fixture struct {
	dir                    string
	members, single, warcs string
	subset, joined         string            // tar.gz: some cells; the segment twice over, in one member
	files                  map[string][]byte // by tar name
	records                int
	index                  *archive.Index
}

func build(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir(), files: map[string][]byte{}}
	path := filepath.Join(f.dir, "segment")
	w, err := archive.Create(path, host, "interop", archive.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	appendRecords(t, w, f)
	x, err := w.Seal()
	if err != nil {
		t.Fatal(err)
	}
	f.index = x
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	part := archive.Part{Source: archive.FileSource(bytes.NewReader(data), 0), Index: x, Digest: hex.EncodeToString(sum[:])}
	some := part
	some.Cells = []int{0, len(x.Cells) - 1, 3}
	f.members = f.view(t, "members.tar.gz", archive.Members, part)
	f.single = f.view(t, "single.tar.gz", archive.Single, part)
	f.warcs = f.view(t, "records.warc.gz", archive.WARC, part)
	f.subset = f.view(t, "subset.tar.gz", archive.Members, some)
	f.joined = f.view(t, "joined.tar.gz", archive.Single, part, part)
	return f
}

func appendRecords(t *testing.T, w *archive.Writer, f *fixture) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 2, 3, 258, 259, 260, 508, 509, 510, 511, 512, 513, 5000, 65535, 65536, 65537, testkit.Size(2_000_000, 20_000_000)}
	for i, n := range sizes {
		body := make([]byte, n)
		if n < 1<<20 {
			for j := range body {
				body[j] = "abcdefgh <p>\n"[random.IntN(13)]
			}
		}
		typ, ext := "text/html; charset=EUC-JP", "html"
		if i%3 == 2 {
			typ, ext = "image/jpeg", "jpg"
		}
		f.add(t, w, &archive.Record{Kind: archive.Page, URL: fmt.Sprintf("http://%s/dir/%d.%s", host, n, ext),
			HTTP: []byte("HTTP/1.1 200 OK\r\nContent-Type: " + typ + "\r\n\r\n")}, body)
		f.add(t, w, &archive.Record{Kind: archive.Response, URL: fmt.Sprintf("http://%s/dir/%d", host, n),
			HTTP: []byte("HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n")}, []byte("moved"))
	}
	odd := []string{"/", "/index.html", "/a", "/a/b", "/A", "/con.html", "/?q=1&r=%E3%81%82", "/x/../y", "/" + strings.Repeat("long", 100) + ".html",
		"/" + strings.Repeat("deep/", 100), "/_meta/x.cdxj", "/..%2f..%2fetc/passwd", "/a~b/c.html", "/v1.0/c.html", "/x.html/y.html"}
	for _, path := range odd {
		f.add(t, w, &archive.Record{Kind: archive.Page, URL: "http://" + host + path, HTTP: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")}, []byte(path))
	}
	f.add(t, w, &archive.Record{Kind: archive.Revisit, URL: "http://" + host + "/dir/512.html", HTTP: []byte("HTTP/1.1 304 Not Modified\r\n\r\n"),
		RefersDate: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), Profile: archive.ServerNotModified, PayloadDigest: "sha256:" + strings.Repeat("A", 52) + "===="}, nil)
}

func (f *fixture) add(t *testing.T, w *archive.Writer, r *archive.Record, body []byte) {
	t.Helper()
	r.Time = time.Date(2026, 11, 21, 2, 0, f.records, 0, time.UTC)
	if r.Kind != archive.Revisit {
		r.Body = bytes.NewReader(body)
	}
	if _, err := w.Append(r); err != nil {
		t.Fatal(err)
	}
	f.records++
	if r.Kind == archive.Page {
		f.files[naming.FileName(host, r.URL)] = body
	}
}

func (f *fixture) view(t *testing.T, name string, kind archive.ViewKind, parts ...archive.Part) string {
	t.Helper()
	v, err := archive.NewView(kind, parts)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := v.OpenRange(context.Background(), 0, v.Size())
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a program, which must succeed and write nothing to its standard error.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(testkit.Tool(t, name), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s %s: %v\n%.2000s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// sameTree compares an unpacked directory with what was put in.
func (f *fixture) sameTree(t *testing.T, dir string) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".cdxj") && strings.Contains(path, "/_meta/") {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(path)
		want, ok := f.files[rel]
		if !ok || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d (put in: %t)", rel, len(got), len(want), ok)
		}
		seen++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen != len(f.files) {
		t.Errorf("%d files, want %d", seen, len(f.files))
	}
}

func TestTars(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	f := build(t)
	for tool, unpack := range map[string][]string{
		"tar":     {"-xzf", "FILE", "-C", "DIR"},
		"bsdtar":  {"-xzf", "FILE", "-C", "DIR"},
		"busybox": {"tar", "-xzf", "FILE", "-C", "DIR"},
	} {
		for _, file := range []string{f.members, f.single, f.joined} {
			t.Run(tool+" "+filepath.Base(file), func(t *testing.T) {
				dir := t.TempDir()
				args := strings.Split(strings.NewReplacer("FILE", file, "DIR", dir).Replace(strings.Join(unpack, "\n")), "\n")
				run(t, tool, args...)
				f.sameTree(t, dir)
			})
		}
	}
	t.Run("a subset", func(t *testing.T) {
		if out := run(t, "tar", "-tzf", f.subset); strings.Count(out, "\n") != 1 { // one of the three cells is a page
			t.Errorf("listing is %q", out)
		}
	})
}

func TestTarKeepsURLs(t *testing.T) {
	t.Parallel()
	f := build(t)
	out := run(t, "tar", "--xattrs", "--xattrs-include=*", "-tvvzf", f.single)
	if !strings.Contains(out, "user.xdg.origin.url") || !strings.Contains(out, "user.mime_type") {
		t.Errorf("extended attributes are not listed:\n%.500s", out)
	}
}

func TestGzip(t *testing.T) {
	t.Parallel()
	f := build(t)
	for _, file := range []string{f.members, f.single, f.warcs, f.subset, f.joined} {
		run(t, "gzip", "-t", file)
		run(t, "pigz", "-t", file)
	}
}

func TestPython(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	f := build(t)
	const script = `import hashlib, json, sys, tarfile
out = {}
with tarfile.open(sys.argv[1], sys.argv[2]) as t:
    for m in t:
        out[m.name] = hashlib.sha256(t.extractfile(m).read()).hexdigest()
json.dump(out, sys.stdout)`
	for _, c := range [][2]string{{f.members, "r:gz"}, {f.single, "r:gz"}, {f.single, "r|gz"}, {f.joined, "r|gz"}} {
		t.Run(filepath.Base(c[0])+" "+c[1], func(t *testing.T) {
			var got map[string]string
			if err := json.Unmarshal([]byte(run(t, "python3", "-c", script, c[0], c[1])), &got); err != nil {
				t.Fatal(err)
			}
			for name, body := range f.files {
				if sum := sha256.Sum256(body); got[name] != hex.EncodeToString(sum[:]) {
					t.Errorf("%s has SHA-256 %s", name, got[name])
				}
			}
			if len(got) != len(f.files)+1 {
				t.Errorf("%d entries, want %d and the index", len(got), len(f.files))
			}
		})
	}
}

func TestWarcio(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	f := build(t)
	node, dir := testkit.Tool(t, "node"), testkit.NPM(t, "warcio")
	const script = `import { WARCParser } from "warcio";
import fs from "node:fs";
import { createHash } from "node:crypto";
const out = [];
const parser = new WARCParser(fs.createReadStream(process.argv[2]));
for await (const record of parser) {
  const payload = await record.readFully(false);
  const h = record.warcHeaders.headers;
  out.push({ type: record.warcType, url: record.warcTargetURI, offset: parser.offset, length: parser.recordLength,
    digest: h.get("WARC-Payload-Digest"), status: record.httpHeaders?.statusCode ?? 0,
    sha256: createHash("sha256").update(payload).digest("hex"), size: payload.length });
}
console.log(JSON.stringify(out));`
	if err := os.WriteFile(filepath.Join(dir, "read.mjs"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "read.mjs", f.warcs)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("warcio: %v\n%s", err, stderr.String())
	}
	var got []struct {
		Type, URL, Digest, SHA256 string
		Status, Size              int
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != f.records+1 || got[0].Type != "warcinfo" {
		t.Fatalf("%d records, want warcinfo and %d", len(got), f.records)
	}
	for _, r := range got[1:] {
		body, ok := f.files[naming.FileName(host, r.URL)]
		if sum := sha256.Sum256(body); ok && r.Type == "response" && r.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: %d bytes differ from the %d put in", r.URL, r.Size, len(body))
		}
		if r.Status == 0 {
			t.Errorf("%s has no HTTP status", r.URL)
		}
	}
	f.sameIndex(t, exec.Command(filepath.Join(dir, "node_modules", ".bin", "warcio"), "cdx-index", f.warcs))
}

// sameIndex compares the index lines that warcio makes of the WARC view with the segment's own
// index.
func (f *fixture) sameIndex(t *testing.T, warcio *exec.Cmd) {
	t.Helper()
	out, err := warcio.Output()
	if err != nil {
		t.Fatal(err)
	}
	var own bytes.Buffer
	if err := archive.WriteCDXJ(t.Context(), &own, "records.warc.gz", []archive.Part{{Index: f.index}}); err != nil {
		t.Fatal(err)
	}
	theirs, ours := places(t, string(out)), places(t, own.String())
	if len(theirs) == 0 || len(theirs) > len(ours) {
		t.Fatalf("warcio made %d lines, the segment has %d", len(theirs), len(ours))
	}
	for offset, line := range theirs {
		if ours[offset] != line {
			t.Errorf("record at %s: warcio says %+v, the index %+v", offset, line, ours[offset])
		}
	}
}

// place is what an index line says of the record at an offset.
type place struct{ time, URL, Length, Status string }

func places(t *testing.T, cdxj string) map[string]place {
	t.Helper()
	out := map[string]place{}
	for line := range strings.Lines(cdxj) {
		fields := strings.SplitN(line, " ", 3)
		var l struct {
			URL, Length, Offset string
			Status              json.RawMessage
		}
		if err := json.Unmarshal([]byte(fields[2]), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out[l.Offset] = place{fields[1], l.URL, l.Length, strings.Trim(string(l.Status), `"`)}
	}
	return out
}
