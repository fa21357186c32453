package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"sheaf/internal/testkit"
)

// hostSegment is a sealed segment of a host with n pages.
func hostSegment(t *testing.T, host string, n int) ([]byte, *Index) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "segment")
	w, err := Create(path, host, "night-1", WriterOptions{})
	testkit.Must(t, err)
	for i := range n {
		r := page(fmt.Sprintf("/%d.html", i), "text/html", fmt.Appendf(nil, "<p>%s %d", host, i), i)
		r.URL = fmt.Sprintf("http://%s/%d.html", host, i)
		r.Links = []Link{{URL: "http://x.test/", Kind: "a"}}
		_, err := w.Append(r)
		testkit.Must(t, err)
	}
	x, err := w.Seal()
	testkit.Must(t, err)
	data, err := os.ReadFile(path)
	testkit.Must(t, err)
	return data, x
}

// A file in the members form is read and verified, whatever was put together in it.
func TestPartsOfFiles(t *testing.T) {
	t.Parallel()
	var parts []Part
	for _, host := range []string{"a.test", "b.test", "c.test"} {
		data, x := hostSegment(t, host, 3)
		parts = append(parts, Part{Source: FileSource(bytes.NewReader(data), 0), Index: x, Digest: host})
	}
	chosen := func(p Part, cells ...int) Part { p.Cells = cells; return p }
	batch := func() []byte {
		var b bytes.Buffer
		w := NewBatchWriter(&b)
		for _, p := range parts {
			_, err := w.AddSegment(t.Context(), p.Source, p.Index)
			testkit.Must(t, err)
		}
		_, _, err := w.Finish([]byte("{}"))
		testkit.Must(t, err)
		return b.Bytes()
	}
	view := func(parts ...Part) []byte {
		v, err := NewView(Members, parts)
		testkit.Must(t, err)
		rc, err := v.OpenRange(t.Context(), 0, v.Size())
		testkit.Must(t, err)
		defer rc.Close()
		b, err := io.ReadAll(rc)
		testkit.Must(t, err)
		return b
	}
	for name, c := range map[string]struct {
		data []byte
		want string // hosts, each with its cells, and + where there is an index
	}{
		"one segment":               {view(parts[0]), "a.test 0 1 2+ "},
		"segments of hosts":         {view(parts...), "a.test 0 1 2+ b.test 0 1 2+ c.test 0 1 2+ "},
		"a segment twice":           {view(parts[0], parts[0]), "a.test 0 1 2+ a.test 0 1 2+ "},
		"chosen cells":              {view(chosen(parts[0], 2, 1), chosen(parts[1], 0), chosen(parts[0], 0)), "a.test 2 1 b.test 0 a.test 0 "},
		"chosen cells and whole":    {view(chosen(parts[0], 1), parts[0], chosen(parts[1], 0), parts[2]), "a.test 1 a.test 0 1 2+ b.test 0 c.test 0 1 2+ "},
		"nothing":                   {EndMember(0, 0), ""},
		"a batch, as import -o has": {batch(), "a.test 0 1 2+ b.test 0 1 2+ c.test 0 1 2+ "},
	} {
		src := FileSource(bytes.NewReader(c.data), 0)
		found, err := Parts(t.Context(), src, int64(len(c.data)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, records := "", int64(0)
		for _, p := range found {
			got += p.Index.Host
			for i := range p.Index.Cells {
				cell := &p.Index.Cells[i]
				body, err := PageBodyOf(p.Source, cell)
				testkit.Must(t, err)
				r, err := body.Open(t.Context())
				testkit.Must(t, err)
				text, err := io.ReadAll(r)
				testkit.Must(t, err)
				var n int
				if _, err := fmt.Sscanf(string(text), "<p>"+p.Index.Host+" %d", &n); err != nil {
					t.Errorf("%s: %s has %q", name, cell.URL, text)
				}
				got += fmt.Sprintf(" %d", n)
				records++
			}
			if p.Index.IndexLength > 0 {
				got += "+"
				if p.Index.links == nil {
					t.Errorf("%s: %s has no links", name, p.Index.Host)
				}
			}
			got += " "
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if _, err := ReadIndex(t.Context(), FileSource(bytes.NewReader(c.data), 0), int64(len(c.data))); (err == nil) != (len(found) < 2) {
			t.Errorf("%s: its index is read with %v", name, err)
		}
		verify := func(data []byte) (n int64, err error) {
			err = VerifyFile(t.Context(), FileSource(bytes.NewReader(data), 0), int64(len(data)), VerifyOptions{}, func(s *Summary) error { n += s.Records; return nil })
			return n, err
		}
		if n, err := verify(c.data); err != nil || n != records {
			t.Errorf("%s: %d of %d records are verified; %v", name, n, records, err)
		}
		for at := 1; at < len(c.data); at += 1 + len(c.data)/30 {
			if _, err := verify(c.data[:at]); err == nil {
				t.Errorf("%s: nothing is found wrong with the first %d bytes of %d", name, at, len(c.data))
			}
		}
		var ferr *FormatError
		if _, err := verify(append(bytes.Clone(c.data), 0)); !errors.As(err, &ferr) {
			t.Errorf("%s with a byte behind: %v", name, err)
		}
		if len(found) > 0 {
			v, err := NewView(WARC, found)
			testkit.Must(t, err)
			var lines bytes.Buffer
			testkit.Must(t, WriteCDXJ(t.Context(), &lines, "x.warc.gz", found))
			if n := int64(bytes.Count(lines.Bytes(), []byte("\n"))); n != records || v.Size() == 0 {
				t.Errorf("%s: %d lines of CDXJ for %d records", name, n, records)
			}
		}
	}
}
