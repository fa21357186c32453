// Package format has segments read by programs written by others, and by readers written from
// FORMAT.md alone. What they read must be, byte for byte, what was put in.
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
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/archive/naming"
	"sheaf/internal/wire"
)

// file is one file to be read, with what a reader must find in it.
type file struct {
	path  string
	kind  archive.ViewKind
	parts []archive.Part
	tar   map[string]member // by name, with index cells and the manifest; nil if it is no tar
	warc  int               // how many records, if it is no tar
	many  bool              // too many files to unpack onto a disk
	multi bool              // more than one gzip member
}

// member is a tar entry. URL and type are empty where there is no page behind it.
type member struct {
	Name, SHA256, URL, MIME string
	Size, MTime             int64
}

// segment is a sealed segment.
type segment struct {
	site  *site
	path  string
	index *archive.Index
	part  archive.Part
	files map[string]member
}

const maxBody = 64 << 20

// fixture makes the files for all readers. With full, which takes minutes, there are also bodies of
// 20 MB and of 64 MiB and a segment of 100,000 cells; without it no body is above 3 MB.
func fixture(t *testing.T, full bool) []*file {
	t.Helper()
	dir := t.TempDir()
	largest := 1_000_000
	if full {
		largest = 20_000_000
	}
	awkward := seal(t, dir, awkwardSite(largest))
	awkward.meetsCap(t)
	others := []*segment{awkward}
	for _, s := range otherSites() {
		others = append(others, seal(t, dir, s))
	}

	var files []*file
	views := func(name string, segments []*segment, cells []int) {
		for _, kind := range []archive.ViewKind{archive.Members, archive.Single, archive.WARC} {
			files = append(files, view(t, dir, name, kind, segments, cells))
		}
	}
	views("awkward", others[:1], nil)
	views("some", others[:1], []int{len(awkward.index.Cells) - 1, 0, 7, 3, 90, 2, 1})
	files = append(files, batch(t, dir, others))
	if !full {
		return append(files, view(t, dir, "joined", archive.Single, others, nil), view(t, dir, "joined", archive.WARC, others, nil))
	}
	views("joined", others, nil)
	views("gone", others[len(others)-2:len(others)-1], nil)
	views("silent", others[len(others)-1:], nil)
	views("large", []*segment{seal(t, dir, largeSite(maxBody))}, nil)
	views("many", []*segment{seal(t, dir, manySite(100_000))}, nil)
	for _, f := range files {
		f.many = strings.HasPrefix(filepath.Base(f.path), "many.")
	}
	return files
}

func seal(t *testing.T, dir string, s *site) *segment {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("%x.segment", s.host))
	w, err := archive.Create(path, s.host, "night-1", archive.WriterOptions{MaxBody: maxBody, TempDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	out := &segment{site: s, path: path, files: map[string]member{}}
	for i := range s.records {
		e := &s.records[i]
		c, err := w.Append(e.record())
		if err != nil {
			t.Fatalf("%.100s: %v", e.URL, err)
		}
		if e.Kind == archive.Page {
			m := member{Name: c.Name, URL: e.URL, MIME: mediaType(string(e.HTTP)), MTime: e.Time.Unix()}
			if len(m.URL) > 2048 { // FORMAT.md: too long for an attribute
				m.URL = ""
			}
			out.put(t, m, e.body[:min(len(e.body), maxBody)])
		}
	}
	if out.index, err = w.Seal(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	out.part = archive.Part{Source: archive.FileSource(bytes.NewReader(data), 0), Index: out.index, Digest: hex.EncodeToString(sum[:])}
	return out
}

// meetsCap checks that the heads of some records nearly fill WP, and that some do not fit.
func (s *segment) meetsCap(t *testing.T) {
	t.Helper()
	whole, cut := int64(0), 0
	for i, c := range s.index.Cells {
		switch {
		case !strings.Contains(c.URL, "/headers/"):
		case c.Truncated == "":
			whole = max(whole, c.HeadLen)
		case s.site.records[i].Truncated == "":
			cut++
		}
	}
	if whole < 15_000 || cut < 2 {
		t.Fatalf("the longest whole head has %d bytes, and %d are cut", whole, cut)
	}
	longest, most := int64(0), 0
	for i, c := range s.index.Cells {
		if e := s.site.records[i]; strings.Contains(c.URL, "/lost/") {
			longest = max(longest, c.HeadLen)
			if c.Truncated == "" {
				most = max(most, len(e.body))
			}
		}
	}
	if longest < 14_800 || most < 50_000 {
		t.Fatalf("the longest error page takes %d bytes, and the longest whole one has %d", longest, most)
	}
}

func (s *segment) put(t *testing.T, m member, body []byte) {
	t.Helper()
	if _, ok := s.files[m.Name]; ok {
		t.Fatalf("two pages are called %q", m.Name)
	}
	sum := sha256.Sum256(body)
	m.SHA256, m.Size = hex.EncodeToString(sum[:]), int64(len(body))
	s.files[m.Name] = m
}

// mediaType returns what the tar must contain for the fixture's header. It is computed without the
// writer's code.
func mediaType(http string) string {
	for line := range strings.SplitSeq(http, "\r\n") {
		if value, ok := strings.CutPrefix(line, "Content-Type:"); ok {
			value, _, _ = strings.Cut(value, ";")
			return strings.ToLower(strings.TrimSpace(value))
		}
	}
	return ""
}

func view(t *testing.T, dir, name string, kind archive.ViewKind, segments []*segment, cells []int) *file {
	t.Helper()
	f := &file{kind: kind, multi: kind == archive.Members, path: filepath.Join(dir, fmt.Sprintf("%s.%s.tar.gz", name, kind))}
	if kind == archive.WARC {
		f.path = filepath.Join(dir, name+".warc.gz")
	} else {
		f.tar = map[string]member{}
	}
	for _, s := range segments {
		p := s.part
		p.Cells = cells
		f.parts = append(f.parts, p)
		f.expect(t, s, cells)
	}
	v, err := archive.NewView(kind, f.parts)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := v.OpenRange(context.Background(), 0, v.Size())
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	write(t, f.path, rc)
	return f
}

// expect records which of the segment's cells are in the file.
func (f *file) expect(t *testing.T, s *segment, cells []int) {
	t.Helper()
	f.warc += len(cells)
	if cells == nil {
		f.warc += len(s.index.Cells)
	}
	if f.tar == nil {
		return
	}
	for i, c := range s.index.Cells {
		if m, ok := s.files[c.Name]; ok && (cells == nil || contains(cells, i)) {
			f.tar[m.Name] = m
		}
	}
	if cells == nil {
		f.tar[naming.HostDir(s.site.host)+"/_meta/night-1.cdxj"] = member{Name: naming.HostDir(s.site.host) + "/_meta/night-1.cdxj"}
	}
}

func contains(list []int, n int) bool {
	for _, v := range list {
		if v == n {
			return true
		}
	}
	return false
}

func write(t *testing.T, path string, r io.Reader) {
	t.Helper()
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, r); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

const manifest = `{"a":"batch"}`

func batch(t *testing.T, dir string, segments []*segment) *file {
	t.Helper()
	var data bytes.Buffer
	b := archive.NewBatchWriter(&data)
	f := &file{path: filepath.Join(dir, "batch.tar.gz"), kind: archive.Members, multi: true, tar: map[string]member{}}
	for _, s := range segments {
		var h wire.Host
		var err error
		if h, err = b.AddSegment(context.Background(), s.part.Source, s.index); err != nil || h.Name != s.site.host {
			t.Fatalf("host %s: %v", h.Name, err)
		}
		f.parts = append(f.parts, s.part)
		f.expect(t, s, nil)
	}
	if _, _, err := b.Finish([]byte(manifest)); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(manifest))
	f.tar["_batch/manifest.json"] = member{Name: "_batch/manifest.json", Size: int64(len(manifest)), SHA256: hex.EncodeToString(sum[:])}
	write(t, f.path, &data)
	return f
}

// same compares what a reader found with what was put in. Without details it does not compare URL,
// type and time.
func (f *file) same(t *testing.T, got map[string]member, details bool) {
	t.Helper()
	for name, want := range f.tar {
		m, ok := got[name]
		if want.SHA256 == "" { // an index cell, whose content other tests compare
			want = m
		}
		if !details {
			want.URL, want.MIME, want.MTime = m.URL, m.MIME, m.MTime
		}
		if !ok || m != want {
			t.Errorf("%.120s: is %+v, want %+v (found: %t)", name, m, want, ok)
		}
	}
	for name := range got {
		if _, ok := f.tar[name]; !ok {
			t.Errorf("%.120s was never put in", name)
		}
	}
}
