package foreign

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// wacz returns a zip with the entries, names and contents by turns. Those whose name ends with a
// star are deflated.
func wacz(t testing.TB, entries ...string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for n := 0; n < len(entries); n += 2 {
		name, deflated := strings.CutSuffix(entries[n], "*")
		h := &zip.FileHeader{Name: name, Method: zip.Store}
		if deflated {
			h.Method = zip.Deflate
		}
		w, err := z.CreateHeader(h)
		testkit.Must(t, err)
		_, err = io.WriteString(w, entries[n+1])
		testkit.Must(t, err)
	}
	testkit.Must(t, z.Close())
	return b.String()
}

// waczOf is a WACZ as browsertrix and py-wacz make it.
func waczOf(t testing.TB, warcs ...string) string {
	entries := []string{"pages/pages.jsonl*", "{\"format\": \"json-pages-1.0\"}\n", "indexes/index.cdx.gz", gz("cdx"), "datapackage.json*", `{"profile": "data-package"}`}
	return wacz(t, append(warcs, entries...)...)
}

// A WACZ gives what its WARC files give, one after the other. Nothing else in it is read.
func TestWACZ(t *testing.T) {
	t.Parallel()
	records, more := crawl("1.1"), numbered(3)
	want, err := convert(t, strings.Join(records, "")+strings.Join(more, ""), nil)
	testkit.Must(t, err)
	for name, data := range map[string]string{
		"gzip, stored":       waczOf(t, "archive/1.warc.gz", gz(records...), "archive/2.warc.gz", gz(more...)),
		"plain, deflated":    waczOf(t, "archive/1.warc*", strings.Join(records, ""), "archive/2.warc", strings.Join(more, "")),
		"one member":         waczOf(t, "archive/", "", "archive/1.warc.gz*", gz(strings.Join(records, "")), "archive/2.WARC.GZ", gz(more...), "archive/3.warc.gz", ""),
		"WARCs elsewhere":    waczOf(t, "archive/1.warc.gz", gz(append(records, more...)...), "other/1.warc.gz", gz(numbered(5)...), "archive/sub/1.warc.gz", gz(numbered(5)...)),
		"names that lead on": waczOf(t, "archive/1.warc.gz", gz(append(records, more...)...), "archive/../../1.warc.gz", "no WARC"),
	} {
		got, err := convert(t, data, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Kind != WACZ || got.others != want.others || got.kept() != want.kept() || got.Pages != want.Pages || got.Responses != want.Responses || got.Revisits != want.Revisits {
			t.Errorf("%s: %+v, want %+v", name, got.Result, want.Result)
		}
	}
}

// The WARCs that datapackage.json names are read wherever they lie. Other entries with records, and
// named ones that are missing, are counted and named, by a strict and by a lenient conversion.
func TestNamedInWACZ(t *testing.T) {
	t.Parallel()
	records, more := crawl("1.1"), numbered(3)
	want, err := convert(t, strings.Join(records, "")+strings.Join(more, ""), nil)
	testkit.Must(t, err)
	both := []string{"archive/1.warc.gz", gz(records...), "records/deep/2.warc*", strings.Join(more, "")}
	resources := func(paths ...string) string {
		var list []string
		for _, p := range paths {
			list = append(list, fmt.Sprintf(`{"name": "x", "path": %q, "hash": "sha256:00", "bytes": 1}`, p))
		}
		return `{"profile": "data-package", "resources": [{"name": "inline", "data": [1]}, ` + strings.Join(list, ", ") + "]}"
	}
	for name, c := range map[string]struct {
		entries []string
		unread  []string
	}{
		"elsewhere":            {append(both, "datapackage.json*", resources("archive/1.warc.gz", "records/deep/2.warc", "records/deep/2.warc")), nil},
		"a path with dots":     {append(both, "datapackage.json", resources("./records/deep/2.warc")), nil},
		"the list comes first": {append([]string{"datapackage.json", resources("records/deep/2.warc")}, both...), nil},
		"two lists, of which the first counts": {
			append(both, "datapackage.json", resources("records/deep/2.warc"), "other/4.warc.gz", gz(numbered(5)...), "datapackage.json", resources("other/4.warc.gz", "5.warc")),
			[]string{`"datapackage.json": another list of resources`, `"other/4.warc.gz": a WARC outside`},
		},
		"missing": {
			append(both, "datapackage.json", resources("records/deep/2.warc", "archive/3.warc.gz", "archive/3.warc.gz", "indexes/index.cdx")),
			[]string{`"archive/3.warc.gz": datapackage.json names it`, `"indexes/index.cdx": datapackage.json names it`},
		},
		"others with records": {
			append(both, "other/4.warc.gz", gz(numbered(5)...), "archive/5.warc.zst", "x", "6.WACZ", "x", "old/7.arc.gz", "x", "pages/pages.jsonl", "x", "datapackage.json", resources("records/deep/2.warc", "6.WACZ")),
			[]string{`"other/4.warc.gz": a WARC outside the folder archive`, `"archive/5.warc.zst": only .warc`, `"6.WACZ": only .warc`, `"old/7.arc.gz": only .warc`},
		},
	} {
		for _, lenient := range []bool{false, true} {
			got, err := convertAs(t, wacz(t, c.entries...), Options{Lenient: lenient})
			if err != nil {
				t.Errorf("%s, lenient %t: %v", name, lenient, err)
				continue
			}
			if got.Pages != want.Pages || got.Responses != want.Responses || got.Revisits != want.Revisits || got.Others != want.Others || got.Lost > 0 {
				t.Errorf("%s, lenient %t: %+v, want %+v", name, lenient, got, want.Result)
			}
			if got.Unread.Lost != int64(len(c.unread)) || len(got.Unread.Losses) != len(c.unread) {
				t.Errorf("%s, lenient %t: unread %+v, want %d", name, lenient, got.Unread, len(c.unread))
				continue
			}
			for n, says := range c.unread {
				if l := got.Unread.Losses[n]; !strings.HasPrefix(l.Detail, says) || l.Reason == "" || l.Offset == 0 != strings.HasSuffix(says, "names it") {
					t.Errorf("%s, lenient %t: unread %+v, want …%s…", name, lenient, l, says)
				}
			}
		}
	}
	got, err := convertAs(t, wacz(t, "archive/1.warc.gz", gz(records...), "records/2.warc", more[0], "datapackage.json", `{"resources": 7}`), Options{})
	testkit.Must(t, err)
	if got.Unread.Lost != 2 || !strings.Contains(got.Unread.Losses[0].Detail, "list of resources") || !strings.Contains(got.Unread.Losses[1].Detail, "records/2.warc") {
		t.Errorf("a list that is none: unread %+v", got.Unread)
	}
}

// What is wrong with a WACZ is named with its entry and place. What expands without end is refused.
func TestWrongWACZ(t *testing.T) {
	t.Parallel()
	records := numbered(3)
	good := waczOf(t, "archive/1.warc.gz", gz(records...))
	manyNames := make([]string, 0, 2*70)
	for n := range cap(manyNames) / 2 {
		manyNames = append(manyNames, fmt.Sprintf("%060000d", n), "")
	}
	for name, c := range map[string]struct {
		data   string
		reason wire.Reason
		says   string
	}{
		"cut":                     {good[:len(good)-30], wire.ReasonTruncated, "ends too early"},
		"cut early":               {good[:100], wire.ReasonTruncated, "ends too early"},
		"no WARC":                 {wacz(t, "readme.txt", "x"), wire.ReasonForeign, "no WACZ"},
		"empty WARC":              {waczOf(t, "archive/1.warc.gz", ""), wire.ReasonForeign, "none is about a page"},
		"another file in it":      {waczOf(t, "archive/1.warc.gz", gz("<html>\n")), wire.ReasonCorruptMember, `archive/1.warc.gz": a record begins`},
		"an entry is cut":         {waczOf(t, "archive/1.warc.gz", half(gz(records...)), "archive/2.warc.gz", gz(records...)), wire.ReasonTruncated, `archive/1.warc.gz": the file ends`},
		"a plain entry is cut":    {waczOf(t, "archive/1.warc", half(records[0]), "archive/2.warc", records[1]), wire.ReasonTruncated, `archive/1.warc": the file ends`},
		"a record is changed":     {waczOf(t, "archive/1.warc", strings.Replace(records[0], "page 0", "page X", 1)), wire.ReasonSHAMismatch, `archive/1.warc": its block`},
		"the entry's sum differs": {strings.Replace(waczOf(t, "archive/1.warc", proofless(records)[0]), "page 0", "page X", 1), wire.ReasonCorruptMember, "checksum"},
		"many long names":         {wacz(t, append(manyNames, manyNames...)...), wire.ReasonBombRatio, "list of entries"},
	} {
		_, err := convert(t, c.data, nil)
		var fault *Error
		if !errors.As(err, &fault) || fault.Reason != c.reason || !strings.Contains(fault.Error(), c.says) {
			t.Errorf("%s: %v, want %s: …%s…", name, err, c.reason, c.says)
		}
	}
	bomb := waczOf(t, "archive/1.warc.gz*", strings.Repeat(gz(""), 1<<16))
	if _, err := convertWithin(t, context.Background(), bomb, Limits{Bytes: 1 << 20}, io.Discard); err == nil || !strings.Contains(err.Error(), "import.max_bytes") {
		t.Errorf("members of gzip without content: %v", err)
	}
}

// FuzzWACZ: a WARC gives the same whether it comes in a WACZ or by itself.
func FuzzWACZ(f *testing.F) {
	f.Add([]byte(strings.Join(crawl("1.0"), "")))
	f.Add([]byte(gz(numbered(2)...)))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		convert := func(data []byte) *Result {
			path := filepath.Join(dir, "foreign")
			testkit.Must(t, os.WriteFile(path, data, 0o600))
			file, err := os.Open(path)
			testkit.Must(t, err)
			defer file.Close()
			got, err := Convert(t.Context(), file, io.Discard, Options{Robot: "import", Dir: dir})
			if fault := (*Error)(nil); err != nil && (!errors.As(err, &fault) || fault.Reason == "") {
				t.Fatalf("an error without reason: %v", err)
			}
			return got
		}
		want, got := convert(data), convert([]byte(waczOf(t, "archive/1.warc", string(data))))
		if want == nil || want.Kind != WARC {
			return
		}
		if got == nil || got.Pages != want.Pages || got.Responses != want.Responses || got.Revisits != want.Revisits || got.Others != want.Others || got.Hosts != want.Hosts {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}
