package foreign

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/archive"
)

// FuzzConvert: whatever comes, it becomes a batch that is right to the last byte or a fault with a reason.
func FuzzConvert(f *testing.F) {
	f.Add([]byte(strings.Join(crawl("1.0"), "")))
	f.Add([]byte(gz(crawl("1.1")...)))
	f.Add([]byte(tree(f, tar.FormatGNU, map[string]string{"www.example.jp/a": "a"}, "www.example.jp/a")))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(dir, "foreign")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var out bytes.Buffer
		_, err = Convert(context.Background(), file, &out, Options{Robot: "import", Dir: dir})
		var fault *Error
		if err != nil {
			if !errors.As(err, &fault) || fault.Reason == "" {
				t.Fatalf("an error without reason: %v", err)
			}
			return
		}
		_, err = archive.VerifyBatch(&out, archive.VerifyOptions{MaxRatio: 1 << 20}, func(*archive.Summary) error { return nil })
		if err != nil {
			t.Fatalf("no batch: %v", err)
		}
	})
}
