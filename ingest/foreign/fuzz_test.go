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

// FuzzConvert: whatever comes, it becomes a batch that is right to the last byte or a fault with a
// reason. A file that is whole gives the same batch if it is read leniently.
func FuzzConvert(f *testing.F) {
	f.Add([]byte(strings.Join(crawl("1.0"), "")))
	f.Add([]byte(gz(crawl("1.1")...)))
	f.Add([]byte(tree(f, tar.FormatGNU, map[string]string{"www.example.jp/a": "a"}, "www.example.jp/a")))
	f.Add([]byte(gz(arcFile(true)...)))
	f.Add([]byte(waczOf(f, "archive/1.warc.gz", gz(crawl("1.1")...), "archive/2.warc*", numbered(1)[0])))
	f.Add([]byte(skippable(string(dictionary(f))) + zst(f, dictionary(f), crawl("1.1")...)))
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
		strict := fuzzed(t, file, Options{Robot: "import", Dir: dir})
		lenient := fuzzed(t, file, Options{Robot: "import", Dir: dir, Lenient: true})
		if strict != nil && !bytes.Equal(strict, lenient) {
			t.Fatal("another batch if it is read leniently")
		}
	})
}

// fuzzed returns the batch that a file is converted to, or nil if the file is refused with a
// reason.
func fuzzed(t *testing.T, file *os.File, opt Options) []byte {
	var out bytes.Buffer
	_, err := Convert(context.Background(), file, &out, opt)
	var fault *Error
	if err != nil {
		if !errors.As(err, &fault) || fault.Reason == "" {
			t.Fatalf("an error without reason: %v", err)
		}
		return nil
	}
	_, err = archive.VerifyBatch(bytes.NewReader(out.Bytes()), archive.VerifyOptions{MaxRatio: 1 << 20}, func(*archive.Summary) error { return nil })
	if err != nil {
		t.Fatalf("no batch: %v", err)
	}
	return out.Bytes()
}
