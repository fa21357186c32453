package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

func smallSegment(t testing.TB) ([]byte, *Index) {
	first := page("/a.html", "text/html", []byte("<p>first"), 0)
	first.Links = testLinks(2)
	return seal(t, []*Record{
		first,
		{Kind: Response, URL: "http://" + testHost + "/b", Time: testTime, HTTP: []byte("HTTP/1.1 404 No\r\n\r\n"), Body: strings.NewReader("no")},
		page("/c.jpg", "image/jpeg", noise(100, 7), 1),
	}, "small")
}

// TestVerifyFindsEveryFlippedBit flips one bit in every byte. Only one that leaves a tar header,
// the links or the index deflated in another way, and equal when decoded, may pass.
func TestVerifyFindsEveryFlippedBit(t *testing.T) {
	testkit.Slow(t)
	data, x := smallSegment(t)
	want := untar(t, bytes.NewReader(data))
	for i := range data {
		cell, inHeader := len(x.Cells), int64(i) >= x.links.Offset
		if int64(i) >= x.CellsEnd {
			cell++
		}
		for n, c := range x.Cells {
			if at := int64(i); at >= c.Offset && at < c.Offset+c.Len() {
				cell, inHeader = n, at >= c.headerBlocks().off && at < c.headerBlocks().end()
			}
		}
		bad := bytes.Clone(data)
		bad[i] ^= 1 << (i % 8)
		_, err := VerifySegment(bytes.NewReader(bad), VerifyOptions{Host: testHost})
		var ferr *FormatError
		switch {
		case err == nil && inHeader:
			sameFiles(t, untar(t, bytes.NewReader(bad)), want)
		case !errors.As(err, &ferr):
			t.Errorf("byte %d: error %v, want a *FormatError", i, err)
		case ferr.Cell != cell:
			t.Errorf("byte %d of cell %d: %v", i, cell, err)
		}
	}
}

func TestVerifyFindsEveryCut(t *testing.T) {
	testkit.Slow(t)
	data, _ := smallSegment(t)
	for i := range data {
		_, err := VerifySegment(bytes.NewReader(data[:i]), VerifyOptions{})
		var ferr *FormatError
		if !errors.As(err, &ferr) || ferr.Code != wire.ReasonTruncated {
			t.Fatalf("cut at %d: error %v, want code truncated", i, err)
		}
	}
}

// rawCell frames tar headers and a record's parts as a cell, whatever they say.
func rawCell(t *testing.T, c Cell, headers []byte) []byte {
	t.Helper()
	w, err := newWriter(testHost, "raw", WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wp := append([]byte(gzipPlainStart), w.compress.Run([]byte("WARC/1.1\r\nWARC-Target-URI: http://www.site.test/\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"))...)
	out := w.frame(&c, headers, appendField(appendField(nil, "WS", make([]byte, wsSize)), "WP", wp))
	return append(out.before, out.after...)
}

func TestVerifyNamesTheTrick(t *testing.T) {
	header := func(name string, kind byte) []byte { return appendTarHeader(nil, name, kind, 0, testTime) }
	sparse := appendPAX(nil, "GNU.sparse.major", "1")
	pax := append(appendTarHeader(nil, "x", 'x', int64(len(sparse)), testTime), sparse...)
	pax = append(pax, make([]byte, padding(int64(len(sparse))))...)
	for name, c := range map[string]struct {
		headers []byte
		code    wire.Reason
	}{
		"symbolic link":   {header("www.site.test/a", '2'), codeLinkEntry},
		"hard link":       {header("www.site.test/a", '1'), codeLinkEntry},
		"device":          {header("www.site.test/a", '3'), codeLinkEntry},
		"absolute":        {header("/etc/passwd", '0'), codePathEscape},
		"dots":            {header("www.site.test/../../x", '0'), codePathEscape},
		"backslash":       {header("www.site.test\\..\\x", '0'), codePathEscape},
		"two files":       {append(header("www.site.test/a", '0'), header("www.site.test/b", '0')...), codeCorrupt},
		"GNU long name":   {append(header("././@LongLink", 'L'), header("a", '0')...), codeCorrupt},
		"sparse by PAX":   {append(pax, header("www.site.test/a", '0')...), codeCorrupt},
		"wrong checksum":  {append([]byte("z"), header("www.site.test/a", '0')[1:]...), codeCorrupt},
		"headers' bomb":   {make([]byte, maxTarHeaders+1), codeBombRatio},
		"PAX beyond end":  {appendTarHeader(nil, "x", 'x', 1<<30, testTime), codeCorrupt},
		"half of a block": {make([]byte, 100), codeCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := VerifyRange(bytes.NewReader(rawCell(t, Cell{}, c.headers)), VerifyOptions{Host: testHost})
			var ferr *FormatError
			if !errors.As(err, &ferr) || ferr.Code != c.code {
				t.Errorf("error %v, want code %s", err, c.code)
			}
		})
	}
}

func TestVerifyLimits(t *testing.T) {
	data, _ := seal(t, []*Record{page("/z.txt", "text/plain", make([]byte, 2<<20), 0)}, "zeros")
	_, err := VerifySegment(bytes.NewReader(data), VerifyOptions{MaxBody: 1 << 20})
	var ferr *FormatError
	if !errors.As(err, &ferr) || ferr.Code != codeBombRatio {
		t.Errorf("error %v, want code bomb_ratio", err)
	}
}

// A record that is dated too late is found where it is, and the latest that may be is let pass.
func TestVerifyLatest(t *testing.T) {
	var records []*Record
	for n := range 4 {
		records = append(records, page(fmt.Sprintf("/%d.html", n), "text/html", testkit.Text(1000, uint64(n)), n))
	}
	data, x := seal(t, records, "s")
	for n := range 3 {
		_, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Latest: records[n].Time})
		want, ferr := x.Cells[n+1], (*FormatError)(nil)
		if !errors.As(err, &ferr) || ferr.Code != wire.ReasonClock || ferr.Cell != n+1 || ferr.Offset != want.Offset || ferr.Entry != want.URL {
			t.Errorf("latest is record %d's: %v, want a fault at %d", n, err, want.Offset)
		}
	}
	if _, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Latest: records[3].Time}); err != nil {
		t.Error(err)
	}
}

func TestVerifyWrongHost(t *testing.T) {
	data, _ := smallSegment(t)
	if _, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Host: "other.test"}); err == nil {
		t.Error("cells of another host were accepted")
	}
}

func TestReadErrorIsPassedOn(t *testing.T) {
	data, _ := smallSegment(t)
	broken := errors.New("disk is on fire")
	r := io.MultiReader(bytes.NewReader(data[:200]), &failing{broken})
	if _, err := VerifySegment(r, VerifyOptions{}); !errors.Is(err, broken) {
		t.Errorf("error %v, want the reader's", err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func TestBatch(t *testing.T) {
	one, x1 := smallSegment(t)
	two, x2, _ := testSegment(t)
	var batch bytes.Buffer
	b := NewBatchWriter(&batch)
	var hosts []wire.Host
	for _, s := range []struct {
		data []byte
		x    *Index
	}{{one, x1}, {two, x2}} {
		h, err := b.AddSegment(context.Background(), sourceOf(s.data), s.x)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	manifest := []byte(`{"format":1}`)
	size, sum, err := b.Finish(manifest)
	if err != nil {
		t.Fatal(err)
	}
	data := batch.Bytes()
	if size != int64(len(data)) || sum != hexSum(data) {
		t.Errorf("size %d and digest %s are wrong", size, sum)
	}
	for i, h := range hosts {
		cells := data[h.Offset : h.Offset+h.Length]
		s, err := VerifyRange(bytes.NewReader(cells), VerifyOptions{Host: h.Name})
		if err != nil {
			t.Fatal(err)
		}
		if s.RangeSHA256 != h.SHA256 || s.Records != h.Records || s.Revisits != h.Revisits || !s.First.Equal(h.First) || !s.Last.Equal(h.Last) {
			t.Errorf("verified as %+v, described as %+v", s, h)
		}
		if segment := append(bytes.Clone(cells), s.EndMember()...); !bytes.Equal(segment, [][]byte{one, two}[i]) {
			t.Errorf("host %d: the range and an end member are not the segment", i)
		}
	}
	end := hosts[1].Offset + hosts[1].Length
	if got, err := VerifyBatchTail(bytes.NewReader(data[end:])); err != nil || !bytes.Equal(got, manifest) {
		t.Errorf("tail: %q, %v", got, err)
	}
	for cut := end; cut < size; cut++ {
		if _, err := VerifyBatchTail(bytes.NewReader(data[end:cut])); err == nil {
			t.Fatalf("tail cut at %d was accepted", cut)
		}
	}
	n := 0
	if got, err := VerifyBatch(bytes.NewReader(data), VerifyOptions{}, func(*Summary) error { n++; return nil }); err != nil || n != 2 || !bytes.Equal(got, manifest) {
		t.Errorf("whole: %d hosts, %q, %v", n, got, err)
	}
	for _, at := range []int64{0, hosts[1].Offset, end, size - 1} {
		wrong := bytes.Clone(data)
		wrong[at]++
		_, err := VerifyBatch(bytes.NewReader(wrong), VerifyOptions{}, func(*Summary) error { return nil })
		ferr, ok := errors.AsType[*FormatError](err)
		if last := int64(len(EndMember(0, 0))); !ok || ferr.Offset != at && at < size-last {
			t.Errorf("a wrong byte at %d: %v", at, err)
		}
	}
	if got := untar(t, bytes.NewReader(data)); !bytes.Equal(got[manifestName], manifest) {
		t.Error("the batch as a tar.gz lacks the manifest")
	}
}
