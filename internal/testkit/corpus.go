package testkit

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// Corpus unpacks the shared corpus of real pages into the test's own folder. The corpus's DATA.md
// describes it. args are tar's: the parts to unpack, such as "./derived", if not all, and
// "--exclude=" options. For a test that only reads files, CorpusFiles is faster.
func Corpus(t testing.TB, args ...string) (dir string) {
	t.Helper()
	archive := corpusArchive(t)
	program := Tool(t, "tar")
	dir = t.TempDir()
	if out, err := exec.Command(program, append([]string{"-xJf", archive, "-C", dir}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("tar -xJf %s %q: %v\n%s", archive, args, err, out)
	}
	return dir
}

// CorpusFiles yields the files of the shared corpus for which wanted returns true, by names such as
// "sites/www.lv.jp.test/index.html", in the archive's order. Call it from the test's own goroutine.
func CorpusFiles(t testing.TB, wanted func(name string) bool) iter.Seq2[string, []byte] {
	t.Helper()
	xz := exec.Command(Tool(t, "xz"), "-dc", corpusArchive(t))
	return func(yield func(string, []byte) bool) {
		t.Helper()
		out, err := xz.StdoutPipe()
		Must(t, err)
		Must(t, xz.Start())
		defer func() {
			_ = xz.Process.Kill() // it may have ended
			_ = xz.Wait()         // it was killed, or the archive has ended
		}()
		for files := tar.NewReader(out); ; {
			file, err := files.Next()
			if err == io.EOF {
				return
			}
			Must(t, err)
			name := path.Clean(file.Name)
			if file.Typeflag != tar.TypeReg || !wanted(name) {
				continue
			}
			content, err := io.ReadAll(files)
			Must(t, err)
			if !yield(name, content) {
				return
			}
		}
	}
}

func corpusArchive(t testing.TB) string {
	t.Helper()
	Tool(t, "xz") // tar needs it, too
	return filepath.Join(Shared(t), "corpus", "dev.tar.xz")
}

// Text returns n bytes that deflate about as well as pages. The same seed gives the same bytes.
func Text(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "<p>%d %s</p>\n", r.IntN(1000), strings.Repeat("word ", r.IntN(4)))
	}
	return b.Bytes()[:n]
}
