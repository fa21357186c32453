package archive

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sheaf/archive/deflate"
	"sheaf/archive/naming"
	"sheaf/internal/testkit"
)

func gunzip(t *testing.T, b []byte) string {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func linkLines(source string, links []Link) (text string) {
	for _, l := range links {
		text += strings.Join([]string{source, l.URL, l.Kind, l.Rel, l.Anchor}, "\t") + "\n"
	}
	return text
}

// TestLinksView: the links of a segment are a file of lines, the same from the view, from the tar
// and from what a verifier has hashed; those of more segments follow one another in one gzip
// member.
func TestLinksView(t *testing.T) {
	data, x, _ := testSegment(t)
	other, y := smallSegment(t)
	want := linkLines("http://"+testHost+"/", testLinks(700)) + linkLines("http://"+testHost+"/moved", []Link{{URL: "http://" + testHost + "/", Kind: "redirect"}})
	view := viewBytes(t, Links, partOf(data, x))
	if got := gunzip(t, view); got != want {
		t.Errorf("%d bytes of links, want %d:\n%.200s", len(got), len(want), got)
	}
	s, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Views: []ViewKind{Links, WARC}})
	if err != nil {
		t.Fatal(err)
	}
	if info := s.Views[Links]; info.Size != int64(len(view)) || info.SHA256 != hexSum(view) {
		t.Errorf("verified, the view is %+v; it has %d bytes of %s", info, len(view), hexSum(view))
	}
	for _, kind := range []ViewKind{Members, Single} {
		listed := untar(t, bytes.NewReader(viewBytes(t, kind, partOf(data, x))))
		if got := string(listed[testHost+"/_meta/night-1.links"]); got != want {
			t.Errorf("%s: the file of links has %d bytes, want %d", kind, len(got), len(want))
		}
	}
	two := gunzip(t, viewBytes(t, Links, partOf(data, x), partOf(other, y)))
	if want += linkLines("http://"+testHost+"/a.html", testLinks(2)); two != want {
		t.Errorf("two segments give %d bytes, want %d", len(two), len(want))
	}
	some := partOf(data, x)
	some.Cells = []int{0}
	if _, err := NewView(Links, []Part{some}); err == nil {
		t.Error("a choice of cells gave a links view")
	}
}

// TestUnfitAnchor: a link whose anchor or rel no line can hold is kept without both.
func TestUnfitAnchor(t *testing.T) {
	const to = "http://b.test/"
	r := page("/a.html", "text/html", []byte("a"), 0)
	r.Links = []Link{
		{URL: to, Kind: "a", Rel: "next", Anchor: "次の頁"}, {URL: to, Kind: "a", Anchor: "a\tb"}, {URL: to, Kind: "a", Anchor: "a\nb"}, {URL: to, Kind: "a", Anchor: "\x83\x65"},
		{URL: to, Kind: "a", Anchor: strings.Repeat("x", maxLinkAnchor+1)}, {URL: to, Kind: "a", Rel: strings.Repeat("x", maxLinkRel+1), Anchor: "x"},
	}
	data, x := seal(t, []*Record{r}, "s")
	want := append(r.Links[:1:1], slices.Repeat([]Link{{URL: to, Kind: "a"}}, 5)...)
	if got := gunzip(t, viewBytes(t, Links, partOf(data, x))); got != linkLines(r.URL, want) {
		t.Errorf("the links are\n%s", got)
	}
}

// TestNoLinksNoCell: a segment of pages without links is what it was before there were any.
func TestNoLinksNoCell(t *testing.T) {
	unfit := page("/a.html", "text/html", []byte("a"), 0)
	unfit.Links = []Link{
		{URL: "mailto:a@b.test", Kind: "a"}, {URL: "http://b.test/\n", Kind: "a"}, {URL: "http://b.test/", Kind: "A\tB"},
		{URL: "http://b.test/" + strings.Repeat("x", maxLinkURL), Kind: "a"}, {URL: "http://b.test/"},
	}
	data, x := seal(t, []*Record{unfit}, "s")
	plain, _ := seal(t, []*Record{page("/a.html", "text/html", []byte("a"), 0)}, "s")
	if !bytes.Equal(data, plain) || x.links != nil {
		t.Error("links that cannot be written left a trace")
	}
	s, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Views: []ViewKind{Links}})
	if err != nil || len(s.Views) != 0 {
		t.Errorf("views %v of a segment without links: %v", s.Views, err)
	}
}

// TestLinksAfterACrash cuts the log of links at every byte, and the segment at a cell: the links of
// whole cells whose groups are whole are there, once, and no others.
func TestLinksAfterACrash(t *testing.T) {
	testkit.Slow(t)
	records := func() (all []*Record) {
		for i, name := range []string{"/a.html", "/b.html", "/c.html"} {
			r := page(name, "text/html", []byte(name), i)
			r.Links = testLinks(i + 1)
			all = append(all, r)
		}
		return all
	}
	path := filepath.Join(t.TempDir(), "segment")
	write := func() *Writer {
		t.Helper()
		for _, p := range []string{path, path + ".links"} {
			if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		w, err := Create(path, testHost, "s", WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := write()
	var ends []int64
	for _, r := range records() {
		if _, err := w.Append(r); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, w.Size())
	}
	w.Close()
	segment, _ := os.ReadFile(path)
	log, _ := os.ReadFile(path + ".links")
	var want []string // the links after so many groups
	for i, r := range append([]*Record{{}}, records()...) {
		lines := linkLines(r.URL, r.Links)
		if i > 0 {
			lines = want[i-1] + lines
		}
		want = append(want, lines)
	}
	sealed := func() string {
		t.Helper()
		x, err := SealFile(path, testHost, "s", WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		data, _ := os.ReadFile(path)
		if _, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Host: testHost}); err != nil {
			t.Fatal(err)
		}
		return gunzip(t, viewBytes(t, Links, partOf(data, x)))
	}
	put := func(s, l []byte) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, s, 0o644), os.WriteFile(path+".links", l, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for cut := range len(log) + 1 {
		put(segment, log[:cut])
		if got := sealed(); !slices.Contains(want, got) {
			t.Fatalf("cut at %d of %d, the links are\n%s", cut, len(log), got)
		}
		if again := sealed(); cut == len(log) && again != want[3] {
			t.Fatalf("sealed again, the links are\n%s", again)
		}
	}
	// The process ended between the group and its cell; the page is fetched again.
	put(segment[:ends[1]], log)
	w, cells, err := Reopen(path, testHost, "s", WriterOptions{})
	if err != nil || len(cells) != 2 {
		t.Fatal(cells, err)
	}
	if _, err := w.Append(records()[2]); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got := sealed(); got != want[3] {
		t.Errorf("after a lost cell the links are\n%s", got)
	}
}

// TestForgedLinks: what a robot may not say in a links cell, and where it may not stand.
func TestForgedLinks(t *testing.T) {
	f := newForge(t)
	whole, starts := f.build()
	cells := whole[:starts[atIndex]]
	x, err := ReadIndex(t.Context(), sourceOf(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	var lines []byte
	if err := writeLines(writerFunc(func(p []byte) (int, error) { lines = append(lines, p...); return len(p), nil }), x.Cells, nil); err != nil {
		t.Fatal(err)
	}
	cell := func(data []byte, name, content string) ([]byte, Cell) {
		headers := (&tarEntry{name: name, size: int64(len(content)), modified: f.time}).headers()
		c := Cell{Place: Place{Offset: int64(len(data)), HeaderLen: int64(len(headers)), HeaderCRC: deflate.CRC(headers), BodyLen: int64(len(content)), BodyCRC: deflate.CRC([]byte(content))}}
		out := f.tarOnly(data, headers, []byte(content), nil)
		c.TLen = int64(emptyMember + len(f.comp.Run(headers)))
		c.BLen = int64(len(out)) - c.Offset - c.TLen
		return out, c
	}
	index := func(data []byte, lines []byte) []byte {
		at := int64(len(data))
		data, _ = cell(data, f.name, string(lines))
		return append(data, EndMember(at, int64(len(data))-at)...)
	}
	name := naming.LinksName(testHost, x.Segment)
	good := linkLines("http://"+testHost+"/", testLinks(3))
	build := func(name, content string) []byte {
		data, c := cell(bytes.Clone(cells), name, content)
		return index(data, c.appendLinksLine(bytes.Clone(lines)))
	}
	if _, err := VerifySegment(bytes.NewReader(build(name, good)), VerifyOptions{Host: testHost}); err != nil {
		t.Fatal(err)
	}
	twice, c := cell(bytes.Clone(cells), name, good)
	line := c.appendLinksLine(nil)
	unlisted := index(bytes.Clone(twice), lines)
	twice, _ = cell(twice, name, good)
	alone, c := cell(nil, name, good)
	for what, data := range map[string][]byte{
		"another host's page":     build(name, linkLines("http://other.test/", testLinks(1))),
		"no URL as target":        build(name, "http://"+testHost+"/\tmailto:a@b.test\ta\t\t\n"),
		"no URL as source":        build(name, "/\thttp://b.test/\ta\t\t\n"),
		"a kind in capitals":      build(name, "http://"+testHost+"/\thttp://b.test/\tIMG\t\t\n"),
		"three fields":            build(name, "http://"+testHost+"/\thttp://b.test/\ta\n"),
		"an anchor of 1 KiB more": build(name, "http://"+testHost+"/\thttp://b.test/\ta\t\t"+strings.Repeat("x", maxLinkAnchor+1)+"\n"),
		"an anchor with a return": build(name, "http://"+testHost+"/\thttp://b.test/\ta\t\ta\rb\n"),
		"an anchor in Shift_JIS":  build(name, "http://"+testHost+"/\thttp://b.test/\ta\t\t\x83\x65\n"),
		"a long rel":              build(name, "http://"+testHost+"/\thttp://b.test/\ta\t"+strings.Repeat("x", maxLinkRel+1)+"\t\n"),
		"no end of the line":      build(name, strings.TrimSuffix(good, "\n")),
		"another segment's":       build(naming.LinksName(testHost, "another"), good),
		"another host's cell":     build(naming.LinksName("other.test", x.Segment), good),
		"another extension":       build(naming.MetaName(testHost, x.Segment, ".lines"), good),
		"twice":                   index(twice, append(bytes.Clone(lines), line...)),
		"not in the index":        unlisted,
		"no cells":                index(alone, c.appendLinksLine(nil)),
		"a line in the middle":    index(append(bytes.Clone(cells), whole[:0]...), append(bytes.Clone(line), lines...)),
		"in the index, not there": index(bytes.Clone(cells), append(bytes.Clone(lines), line...)),
	} {
		var ferr *FormatError
		if _, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Host: testHost}); !errors.As(err, &ferr) {
			t.Errorf("%s: verified with %v", what, err)
		}
	}
	if _, err := ReadIndex(t.Context(), sourceOf(unlisted), int64(len(unlisted))); err == nil {
		t.Error("an index that says nothing of the links cell was read")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// BenchmarkLinks: what a page's links cost to write down and to seal, and what they take, against
// the page itself: 60 links of a site's own, as the median page of the corpus has about.
func BenchmarkLinks(b *testing.B) {
	for _, n := range []int{0, 60} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			pool := new(WriterPool)
			path := filepath.Join(b.TempDir(), "segment")
			w, err := Create(path, testHost, "s", WriterOptions{Pool: pool})
			if err != nil {
				b.Fatal(err)
			}
			body := testkit.Text(20<<10, 1)
			i := 0
			for b.Loop() {
				r := page(fmt.Sprintf("/%d/page.html", i), "text/html", body, 1)
				for j := range n {
					r.Links = append(r.Links, Link{URL: fmt.Sprintf("http://%s/dir%d/page%d.html", testHost, j%7, i+j*j), Kind: "a", Anchor: string(body[j*50 : j*50+12])})
				}
				if _, err := w.Append(r); err != nil {
					b.Fatal(err)
				}
				i++
			}
			size := w.Size()
			x, err := w.Seal()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(size)/float64(i), "B/page")
			b.ReportMetric(float64(x.CellsEnd-size)/float64(i), "links-B/page")
		})
	}
}
