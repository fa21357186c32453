package testkit

import (
	"archive/tar"
	"io"
	"iter"
	"os/exec"
	"path"
	"path/filepath"
	"testing"
)

// Corpus unpacks the shared corpus of real pages into a folder of the test's own. Its DATA.md says
// what is there. The arguments are tar's: the parts to unpack, such as "./derived", where it is not
// to be all, and "--exclude=" options. A test that only reads files has them sooner by CorpusFiles.
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

// CorpusFiles returns the files of the shared corpus that wanted wants, by names such as
// "sites/www.lv.jp.test/index.html", in the archive's order. It is for the test's own goroutine.
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
			_ = xz.Wait()         // it was killed, or the archive's end was met
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
	Tool(t, "xz") // tar runs it too
	return filepath.Join(Shared(t), "corpus", "dev.tar.xz")
}
