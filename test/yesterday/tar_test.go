package yesterday

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// pack makes a tar.gz of a directory, without anything of the machine: all files are root's, and of
// one time.
func pack(dir string) (_ []byte, err error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		place, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: filepath.ToSlash(place), Mode: int64(info.Mode().Perm()), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		switch {
		case d.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
			return t.WriteHeader(h)
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is no file and no directory", place)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err = t.Write(data)
		return err
	})
	if err = errors.Join(err, t.Close(), z.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// unpack unpacks a fixture's data directory and its robots' folders into a directory of the test's
// own.
func unpack(t testing.TB, name string) (dir string) {
	t.Helper()
	f, err := os.Open(name)
	testkit.Must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	testkit.Must(t, err)
	dir = t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		testkit.Must(t, err)
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			testkit.Must(t, os.Mkdir(to, h.FileInfo().Mode().Perm()))
			continue
		}
		data, err := io.ReadAll(r)
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(to, data, h.FileInfo().Mode().Perm()))
	}
}

var touched = regexp.MustCompile(`"touched":"[^"]*"`)

// touch makes the interrupted uploads look recent. Uploads that stand still for two weeks are
// deleted, and a fixture is usually older.
func touch(t testing.TB, dir string) {
	t.Helper()
	notes, err := filepath.Glob(filepath.Join(dir, "service", "buffers", "receive", "*.info"))
	testkit.Must(t, err)
	if len(notes) == 0 {
		t.Error("the fixture has no upload that was begun")
	}
	for _, name := range notes {
		note, err := os.ReadFile(name)
		testkit.Must(t, err)
		now := touched.ReplaceAll(note, []byte(`"touched":"`+time.Now().UTC().Format(time.RFC3339)+`"`))
		if bytes.Equal(now, note) {
			t.Errorf("%s says nothing of when it was touched: %s", name, note)
		}
		testkit.Must(t, os.WriteFile(name, now, 0o640))
	}
}
