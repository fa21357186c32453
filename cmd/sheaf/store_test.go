package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/archive/catalog"
	"sheaf/archive/store/storecheck"
	"sheaf/archive/store/storetest"
	"sheaf/internal/testkit"
)

// checkStore runs the command and returns the promises that it prints.
func checkStore(t *testing.T, args ...string) []storecheck.Promise {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetArgs(append([]string{"store", "check", "--json"}, args...))
	testkit.Must(t, root.ExecuteContext(t.Context()))
	var found []storecheck.Promise
	testkit.Must(t, json.Unmarshal(out.Bytes(), &found))
	return found
}

func wantNoFiles(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("the check left %v (%v)", left, err)
	}
}

func TestStoreCheckDirectory(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, "store")
	testkit.Must(t, os.Mkdir(dir, 0o755))
	for _, args := range [][]string{{dir}, {"--data", data}} {
		if found := checkStore(t, args...); len(found) != 9 {
			t.Errorf("%q: %+v, want 9 promises", args, found)
		}
		wantNoFiles(t, dir)
	}
}

func TestStoreCheckBucket(t *testing.T) {
	testkit.Slow(t)
	g := storetest.StartVersity(t)
	o := g.Options(t)
	t.Setenv("AWS_ACCESS_KEY_ID", o.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", o.SecretKey)
	if found := checkStore(t, o.Endpoint+"/"+o.Bucket+"/some/prefix"); len(found) != 10 {
		t.Errorf("%+v, want 10 promises", found)
	}
}

// A store is moved by copying its objects with rclone, from a directory into a bucket and back:
// fsck finds all of it in each, and a copy that was broken off is completed by another run.
func TestStoreMovesByRclone(t *testing.T) {
	testkit.Slow(t)
	rclone := testkit.Tool(t, "rclone")
	var crawl strings.Builder
	for n := range 3 {
		http := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>host %d", n)
		fmt.Fprintf(&crawl, "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://www%d.example.jp/\r\nWARC-Date: 2026-11-01T00:00:00Z\r\n"+
			"WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-00000000000%d>\r\nContent-Type: application/http; msgtype=response\r\n"+
			"Content-Length: %d\r\n\r\n%s\r\n\r\n", n, n, len(http), http)
	}
	warc := filepath.Join(t.TempDir(), "crawl.warc")
	testkit.Must(t, os.WriteFile(warc, []byte(crawl.String()), 0o600))
	c := startService(t, map[string]any{"zone": "UTC"})
	imported := c.run(nil, "archive", "import", warc)
	c.until(strings.Fields(strings.SplitAfter(imported, "batch ")[1])[0], "post-split")
	c.run([]string{"published 1 batches"}, "batch", "publish")

	g := storetest.StartVersity(t)
	o := g.Options(t)
	from, to, back := filepath.Join(c.data, "store"), "bucket:"+o.Bucket+"/moved", t.TempDir()
	copied := func(from, to string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), rclone, "--config", "/dev/null", "copy", "--exclude", "/.tmp/**", from, to)
		cmd.Env = []string{ // nothing of this machine's
			"HOME=" + t.TempDir(), "RCLONE_CONFIG_BUCKET_TYPE=s3", "RCLONE_CONFIG_BUCKET_PROVIDER=Other", "RCLONE_CONFIG_BUCKET_ENDPOINT=" + o.Endpoint,
			"RCLONE_CONFIG_BUCKET_ACCESS_KEY_ID=" + o.AccessKey, "RCLONE_CONFIG_BUCKET_SECRET_ACCESS_KEY=" + o.SecretKey,
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("rclone: %v\n%s", err, out)
		}
	}
	fsck := func(data string, set ...string) (report catalog.Report, err error) {
		t.Helper()
		var out bytes.Buffer
		root := rootCommand()
		root.SetOut(&out)
		root.SetErr(io.Discard)
		args := []string{"fsck", "--deep", "--json", "--data", data}
		for _, s := range set {
			args = append(args, "--set", s)
		}
		root.SetArgs(args)
		err = root.ExecuteContext(t.Context())
		testkit.Must(t, json.Unmarshal(out.Bytes(), &report))
		return report, err
	}
	copied(from, to)
	bucket := []string{"store.kind=s3", "store.endpoint=" + o.Endpoint, "store.bucket=" + o.Bucket, "store.prefix=moved", "store.access_key=" + o.AccessKey, "store.secret_key=" + o.SecretKey}
	report, err := fsck(t.TempDir(), bucket...)
	if err != nil || report.Segments == 0 || report.Verified != report.Segments {
		t.Errorf("in the bucket: %+v, %v", report, err)
	}
	copied(to, filepath.Join(back, "store"))
	testkit.Must(t, filepath.WalkDir(back, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(path, "/segments/") {
			return os.Remove(path)
		}
		return err
	}))
	if report, err := fsck(back); err == nil || report.Found == 0 {
		t.Errorf("without a segment fsck finds nothing: %+v", report)
	}
	copied(to, filepath.Join(back, "store"))
	if report, err := fsck(back); err != nil || report.Verified != report.Segments {
		t.Errorf("in a directory again: %+v, %v", report, err)
	}
}
