package archive

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

var waczTime = time.Date(2026, 11, 21, 12, 0, 2, 0, time.UTC)

// TestWACZ reads the file as a player does: the blocks' list, a block, a record.
func TestWACZ(t *testing.T) {
	data, x, _ := testSegment(t)
	other, y := smallSegment(t)
	parts := []Part{partOf(data, x), partOf(other, y)}
	warc := viewBytes(t, WARC, parts...)
	sum := sha256.Sum256(warc)
	z, err := NewWACZ(t.Context(), parts, WACZOptions{Title: "a host", Created: waczTime, WARCSHA256: hex.EncodeToString(sum[:])})
	if err != nil {
		t.Fatal(err)
	}
	all := rangeBytes(t, z, 0, z.Size())
	listed := unzip(t, all)
	if !bytes.Equal(listed[waczData], warc) {
		t.Error("the data is not the WARC view")
	}

	var records int
	list := bufio.NewScanner(bytes.NewReader(listed[waczBlocks]))
	list.Scan()
	if !strings.HasPrefix(list.Text(), "!meta") {
		t.Errorf("the list of blocks begins with %q", list.Text())
	}
	for list.Scan() {
		var block struct{ Offset, Length int64 }
		if err := json.Unmarshal([]byte(list.Text()[strings.Index(list.Text(), "{"):]), &block); err != nil {
			t.Fatal(err)
		}
		lines := inflate(t, listed[waczIndex][block.Offset:block.Offset+block.Length])
		first, _, _ := strings.Cut(list.Text(), " {")
		if !strings.HasPrefix(lines, first) {
			t.Errorf("the block that the list names %q begins with %.80q", first, lines)
		}
		for line := range strings.Lines(lines) {
			var at struct {
				URL, Filename  string
				Offset, Length int64 `json:",string"`
			}
			if err := json.Unmarshal([]byte(line[strings.Index(line, "{"):]), &at); err != nil {
				t.Fatal(err)
			}
			record := inflate(t, listed[waczData][at.Offset:at.Offset+at.Length])
			if at.Filename != "data.warc.gz" || !strings.Contains(record, "WARC-Target-URI: "+at.URL+"\r\n") {
				t.Errorf("line %.200q leads to %.200q", line, record)
			}
			records++
		}
	}
	if want := len(x.Cells) + len(y.Cells); records != want {
		t.Errorf("%d records in the index, want %d", records, want)
	}

	var about struct{ Resources []waczResource }
	if err := json.Unmarshal(listed[waczPackage], &about); err != nil {
		t.Fatal(err)
	}
	for _, r := range about.Resources {
		sum := sha256.Sum256(listed[r.Path])
		if r.Hash != "sha256:"+hex.EncodeToString(sum[:]) || r.Bytes != int64(len(listed[r.Path])) {
			t.Errorf("resource %+v: the file has %d bytes and SHA-256 %x", r, len(listed[r.Path]), sum)
		}
		delete(listed, r.Path)
	}
	if delete(listed, waczPackage); len(listed) > 0 {
		t.Errorf("not described: %d files", len(listed))
	}

	random := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		off := random.Int64N(z.Size() + 1)
		n := min(random.Int64N(5000), z.Size()-off)
		if got := rangeBytes(t, z, off, n); !bytes.Equal(got, all[off:off+n]) {
			t.Fatalf("%d bytes at %d differ from those of the whole", n, off)
		}
	}
}

// TestWACZETag: another choice, time or title is another file.
func TestWACZETag(t *testing.T) {
	data, x, _ := testSegment(t)
	part := partOf(data, x)
	few := part
	few.Cells = []int{1, 2}
	seen := map[string]bool{}
	for _, parts := range [][]Part{{part}, {few}, {}} {
		for _, opt := range []WACZOptions{{Created: waczTime}, {Created: waczTime.Add(time.Hour)}, {Created: waczTime, Title: "x"}} {
			z, err := NewWACZ(t.Context(), parts, opt)
			if err != nil {
				t.Fatal(err)
			}
			if seen[z.ETag()] {
				t.Errorf("ETag %s was given twice", z.ETag())
			}
			seen[z.ETag()] = true
		}
	}
}

// TestZipOverFourGiB: sizes and offsets that need zip64, in a file with holes.
func TestZipOverFourGiB(t *testing.T) {
	name := filepath.Join(t.TempDir(), "large.zip")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const hole = 5 << 30
	small := []byte("after the hole")
	first := zipEntry{name: "large", size: hole}
	start := first.localHeader(waczTime)
	second := zipEntry{name: "small", size: int64(len(small)), crc: crc32.ChecksumIEEE(small), offset: int64(len(start)) + hole}
	at := second.offset
	for _, b := range [][]byte{second.localHeader(waczTime), small} {
		if _, err := f.WriteAt(b, at); err != nil {
			testkit.Missing(t, "no file with holes of this size here: %v", err)
		}
		at += int64(len(b))
	}
	f.WriteAt(start, 0)
	f.WriteAt(zipDirectory([]zipEntry{first, second}, at, waczTime), at)

	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if len(z.File) != 2 || z.File[0].UncompressedSize64 != hole || !z.File[1].Modified.Equal(waczTime) {
		t.Fatalf("the directory says %+v", z.File)
	}
	r, err := z.File[1].Open()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, small) {
		t.Errorf("the second entry is %q, %v", got, err)
	}
}

func unzip(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string][]byte)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if listed[f.Name], err = io.ReadAll(r); err != nil { // checks the CRC
			t.Fatalf("%s: %v", f.Name, err)
		}
		if f.Method != zip.Store || !f.Modified.Equal(waczTime) {
			t.Errorf("%s: method %d, time %v", f.Name, f.Method, f.Modified)
		}
	}
	return listed
}

func inflate(t *testing.T, member []byte) string {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(member))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
