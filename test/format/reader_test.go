package format

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/archive/naming"
)

// ownReader runs reader.py, which is written from FORMAT.md alone. It must find every cell in its
// place, with the file that was put in and the record of the WARC view, and make the same views.
func ownReader(t *testing.T, f *file) {
	if f.kind != archive.Members {
		t.Skip("not made of a segment's cells")
	}
	f.sameCells(t, run(t, "python3", "reader.py", "list", f.path))
	if len(f.parts) == 1 && f.parts[0].Cells == nil {
		f.sameIndex(t, run(t, "python3", "reader.py", "index", f.path))
	}
	base, ok := strings.CutSuffix(f.path, ".members.tar.gz")
	if !ok { // a batch, of which there are no views
		return
	}
	for view, theirs := range map[string]string{"single": base + ".single.tar.gz", "warc": base + ".warc.gz"} {
		out := filepath.Join(t.TempDir(), view)
		run(t, "python3", "reader.py", view, f.path, out)
		if got, want := fileSum(t, out), fileSum(t, theirs); got != want {
			t.Errorf("the %s view made by FORMAT.md differs from the service's", view)
		}
	}
}

// sameCells compares the reader's lines with what was put in.
func (f *file) sameCells(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	next := func() string {
		if len(lines) == 0 {
			t.Fatal("the reader found too few cells")
		}
		line := lines[0]
		lines = lines[1:]
		return line
	}
	base := int64(0)
	for _, p := range f.parts {
		chosen := p.Cells
		if chosen == nil {
			chosen = all(p.Index)
		}
		for _, i := range chosen {
			c := &p.Index.Cells[i]
			if got, want := next(), f.line(t, p, i, base); got != want {
				t.Errorf("%s:\n is %.300s\nwant %.300s", c.URL, got, want)
			}
			base += c.Len()
		}
		if p.Cells == nil {
			name := naming.HostDir(p.Index.Host) + "/_meta/night-1.cdxj"
			if got, want := next(), fmt.Sprintf("tar-only\t%d\t%s\t", base, name); !strings.HasPrefix(got, want) {
				t.Errorf("index cell is %.200s, want %s", got, want)
			}
			base += p.Index.IndexLength
		}
	}
	if m, ok := f.tar["_batch/manifest.json"]; ok {
		want := fmt.Sprintf("tar-only\t%d\t%s\t\t0\t%d\t%s\t", base, m.Name, m.Size, m.SHA256)
		if got := next(); !strings.HasPrefix(got, want) {
			t.Errorf("manifest is %s, want %s", got, want)
		}
	}
	if len(lines) > 0 {
		t.Errorf("the reader found %d cells too many", len(lines))
	}
}

// line returns what the reader should print for a cell. The file is known from what was put in, the
// record from the part's WARC view.
func (f *file) line(t *testing.T, p archive.Part, i int, offset int64) string {
	t.Helper()
	c := &p.Index.Cells[i]
	kind, m := c.Kind.String(), f.tar[c.Name]
	if c.Kind != archive.Page {
		none := sha256.Sum256(nil)
		m = member{SHA256: hex.EncodeToString(none[:])}
	}
	p.Cells = []int{i}
	v, err := archive.NewView(archive.WARC, []archive.Part{p})
	if err != nil {
		t.Fatal(err)
	}
	rc, err := v.OpenRange(context.Background(), v.Size()-c.WARCLength(), c.WARCLength())
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	record := sha256.New()
	if _, err := io.Copy(record, rc); err != nil {
		t.Fatal(err)
	}
	return strings.Join([]string{
		kind, strconv.FormatInt(offset, 10), c.Name, c.URL, strconv.FormatInt(c.Time.Unix(), 10), strconv.FormatInt(m.Size, 10),
		m.SHA256, strconv.FormatInt(c.WARCLength(), 10), hex.EncodeToString(record.Sum(nil)),
	}, "\t")
}

// sameIndex compares the index cell, found by WI, with the service's standard lines.
func (f *file) sameIndex(t *testing.T, index string) {
	t.Helper()
	var own bytes.Buffer
	if err := archive.WriteCDXJ(t.Context(), &own, "x", f.parts[:1]); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(index, "\n"); n != f.warc || strings.Count(own.String(), "\n") != n {
		t.Fatalf("the index has %d lines for %d records", n, f.warc)
	}
	keys := map[string]int{}
	for line := range strings.Lines(own.String()) {
		key, _, _ := strings.Cut(line, "{")
		keys[key]++
	}
	for line := range strings.Lines(index) {
		key, _, _ := strings.Cut(line, "{")
		if keys[key]--; keys[key] < 0 {
			t.Errorf("no line, or too few, begin with %q", key)
		}
	}
}

func all(x *archive.Index) []int {
	out := make([]int, len(x.Cells))
	for i := range out {
		out[i] = i
	}
	return out
}

func fileSum(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
