package format

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/internal/testkit"
)

// TestForeignReaders lets every reader read every file. With SHEAF_TEST_FULL=1, as in CI, with the
// largest bodies and the most cells that the format must bear. Otherwise the slow readers read one
// file of each kind.
func TestForeignReaders(t *testing.T) {
	full := testkit.Full()
	files := fixture(t, full)
	slow := []string{"python", "java", "node", "reader.py"}
	enough := []string{"awkward.members.tar.gz", "some.single.tar.gz", "joined.warc.gz", "batch.tar.gz"}
	classes := t.TempDir()
	for _, reader := range []struct {
		name  string
		check func(*testing.T, *file)
	}{
		{"tar", unpacks("tar", "-xzf", "FILE", "-C", "DIR")},
		{"bsdtar", unpacks("bsdtar", "-xzf", "FILE", "-C", "DIR")},
		{"busybox", unpacks("busybox", "tar", "-xzf", "FILE", "-C", "DIR")},
		{"7z", sevenZip},
		{"gzip", decodes("gzip", "-dc")},
		{"pigz", decodes("pigz", "-dc")},
		{"python", python},
		{"java", java(classes)},
		{"node", node},
		{"node warc", nodeWARC},
		{"reader.py", ownReader},
	} {
		t.Run(reader.name, func(t *testing.T) {
			if !slices.Contains([]string{"tar", "gzip", "reader.py"}, reader.name) {
				testkit.Slow(t)
			}
			t.Parallel()
			for _, f := range files {
				name := filepath.Base(f.path)
				if !full && slices.Contains(slow, reader.name) && !slices.Contains(enough, name) {
					continue
				}
				t.Run(name, func(t *testing.T) { reader.check(t, f) })
			}
		})
	}
}

// command is a program that must succeed and write nothing to its standard error.
type command struct {
	*exec.Cmd
	stderr bytes.Buffer
}

func program(t *testing.T, name string, args ...string) *command {
	t.Helper()
	c := &command{Cmd: exec.CommandContext(t.Context(), testkit.Tool(t, name), args...)}
	c.Stderr = &c.stderr
	return c
}

func (c *command) check(t *testing.T, err error) {
	t.Helper()
	if err != nil || c.stderr.Len() > 0 {
		t.Fatalf("%s: %v\n%.2000s", strings.Join(c.Args, " "), err, c.stderr.String())
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	c := program(t, name, args...)
	out, err := c.Output()
	c.check(t, err)
	return string(out)
}

// unpacks checks a program that unpacks FILE into DIR. Files with too many entries for that are
// only listed.
func unpacks(name string, args ...string) func(*testing.T, *file) {
	return func(t *testing.T, f *file) {
		if f.tar == nil {
			t.Skip("not a tar")
		}
		dir := t.TempDir()
		args := strings.Split(strings.NewReplacer("FILE", f.path, "DIR", dir).Replace(strings.Join(args, "\n")), "\n")
		if f.many {
			args = args[:len(args)-2] // without -C DIR
			args[len(args)-2] = "-tzf"
			names := map[string]member{}
			for line := range strings.Lines(run(t, name, args...)) {
				m := f.tar[strings.TrimSuffix(line, "\n")]
				m.Name = strings.TrimSuffix(line, "\n")
				names[m.Name] = m
			}
			f.same(t, names, false)
			return
		}
		run(t, name, args...)
		f.sameTree(t, dir)
	}
}

// sameTree compares an unpacked directory, with the times of the files.
func (f *file) sameTree(t *testing.T, dir string) {
	t.Helper()
	got := map[string]member{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		sum := sha256.Sum256(data)
		got[name] = member{Name: name, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.same(t, got, false)
}

// sevenZip unpacks the gzip file first and then the tar in it, as its users do.
func sevenZip(t *testing.T, f *file) {
	if f.tar == nil {
		run(t, "7z", "t", "-tgzip", f.path)
		return
	}
	gunzip := program(t, "7z", "x", "-so", "-tgzip", f.path)
	if f.many {
		f.sameTar(t, gunzip)
		return
	}
	dir := t.TempDir()
	plain, err := os.Create(filepath.Join(dir, "plain.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	gunzip.Stdout = plain
	gunzip.check(t, gunzip.Run())
	out := filepath.Join(dir, "out")
	run(t, "7z", "x", "-y", "-ttar", "-o"+out, plain.Name())
	f.sameTree(t, out)
}

// decodes checks a program that decodes gzip files to its standard output.
func decodes(name string, args ...string) func(*testing.T, *file) {
	return func(t *testing.T, f *file) {
		c := program(t, name, append(args, f.path)...)
		if f.tar != nil {
			f.sameTar(t, c)
			return
		}
		sum := sha256.New()
		c.Stdout = sum
		c.check(t, c.Run())
		if want := f.decodedWARC(t); !bytes.Equal(sum.Sum(nil), want) {
			t.Error("decodes to other records")
		}
	}
}

// sameTar reads the tar that a program writes to its standard output.
func (f *file) sameTar(t *testing.T, c *command) {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	got := map[string]member{}
	for tr := tar.NewReader(out); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, tr); err != nil {
			t.Fatal(err)
		}
		got[h.Name] = member{
			Name: h.Name, Size: h.Size, MTime: h.ModTime.Unix(), SHA256: hex.EncodeToString(sum.Sum(nil)),
			URL: h.PAXRecords["SCHILY.xattr.user.xdg.origin.url"], MIME: h.PAXRecords["SCHILY.xattr.user.mime_type"],
		}
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
	c.check(t, c.Wait())
	f.same(t, got, true)
}

// decodedWARC returns the digest of what the library decodes the file to. nodeWARC checks the
// records.
func (f *file) decodedWARC(t *testing.T) []byte {
	t.Helper()
	in, err := os.Open(f.path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	zr, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, zr); err != nil {
		t.Fatal(err)
	}
	return sum.Sum(nil)
}

func python(t *testing.T, f *file) {
	if f.tar == nil {
		t.Skip("not a tar")
	}
	f.same(t, table(t, run(t, "python3", "untar.py", f.path, "r:gz")), true)
	if !f.multi { // its stream mode stops after the first member: what the single view is for
		f.same(t, table(t, run(t, "python3", "untar.py", f.path, "r|gz")), true)
	}
}

// java compiles its reader before the first file.
func java(classes string) func(*testing.T, *file) {
	return func(t *testing.T, f *file) {
		if f.tar == nil {
			t.Skip("not a tar")
		}
		if _, err := os.Stat(filepath.Join(classes, "Untar.class")); err != nil {
			run(t, "javac", "-d", classes, "Untar.java")
		}
		f.same(t, table(t, run(t, "java", "-cp", classes, "Untar", f.path)), true)
		if !f.multi { // where available is 0, GZIPInputStream may stop after a member: what the single view is for
			f.same(t, table(t, run(t, "java", "-cp", classes, "Untar", f.path, "silent")), true)
		}
	}
}

func node(t *testing.T, f *file) {
	if f.tar == nil {
		t.Skip("not a tar")
	}
	f.same(t, table(t, run(t, "node", "untar.mjs", f.path)), true)
	for _, chunk := range []string{"997", "65536"} { // bytes at once
		f.same(t, table(t, run(t, "node", "untar.mjs", f.path, chunk)), true)
	}
}

// table reads the scripts' lines.
func table(t *testing.T, out string) map[string]member {
	t.Helper()
	got := map[string]member{}
	for line := range strings.Lines(out) {
		v := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(v) != 6 {
			t.Fatalf("line %q", line)
		}
		size, err1 := strconv.ParseInt(v[1], 10, 64)
		mtime, err2 := strconv.ParseInt(v[2], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		got[v[0]] = member{Name: v[0], Size: size, MTime: mtime, SHA256: v[3], URL: v[4], MIME: v[5]}
	}
	return got
}

// nodeWARC checks every record's digests, and compares the records' places with the segments'
// indexes.
func nodeWARC(t *testing.T, f *file) {
	if f.kind != archive.WARC {
		t.Skip("not a warc.gz")
	}
	lines := strings.Split(strings.TrimSuffix(run(t, "node", "warc.mjs", f.path), "\n"), "\n")
	if len(lines) != f.warc+1 || !strings.HasPrefix(lines[0], "warcinfo\t") {
		t.Fatalf("%d records, want warcinfo and %d", len(lines), f.warc)
	}
	for i, want := range f.places(t) {
		if lines[i+1] != want {
			t.Errorf("record %d is %q, want %q", i, lines[i+1], want)
		}
	}
}

// places returns each record's type, URL, offset, length and status.
func (f *file) places(t *testing.T) []string {
	t.Helper()
	v, err := archive.NewView(archive.WARC, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := v.Size() // warcinfo alone
	var out []string
	for _, p := range f.parts {
		cells := p.Cells
		if cells == nil {
			cells = all(p.Index)
		}
		for _, i := range cells {
			c := &p.Index.Cells[i]
			kind := "response"
			if c.Kind == archive.Revisit {
				kind = "revisit"
			}
			out = append(out, strings.Join([]string{kind, c.URL, strconv.FormatInt(at, 10), strconv.FormatInt(c.WARCLength(), 10), strconv.Itoa(c.Status)}, "\t"))
			at += c.WARCLength()
		}
	}
	return out
}
