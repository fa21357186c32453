package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// salvaged converts a file leniently.
func salvaged(t testing.TB, data string) (*converted, error) {
	t.Helper()
	return convertAs(t, data, Options{Lenient: true})
}

// numbered returns n page records. Bodies differ, and are longer than what one line can hold.
func numbered(n int) (records []string) {
	for i := range n {
		body := strings.Repeat(fmt.Sprintf("<p>page %d\n", i), 5+i)
		records = append(records, rec("1.1", "response", fmt.Sprintf("http://a.example.jp/%d", i), answer, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"+body))
	}
	return records
}

// proofless returns the records without digests.
func proofless(records []string) (bare []string) {
	for _, r := range records {
		before, rest, _ := strings.Cut(r, "WARC-Block-Digest: ")
		_, after, _ := strings.Cut(rest, "\r\n")
		bare = append(bare, before+after)
	}
	return bare
}

// kept lists the numbers of the pages that were kept.
func (c *converted) kept() string {
	var all []string
	for url := range c.pages {
		all = append(all, strings.TrimPrefix(url, "http://a.example.jp/"))
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// A whole file gives the same batch, whether it is read leniently or not.
func TestLenientIsStrictOnWholeFiles(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	records, dict := append(crawl("1.0"), numbered(3)...), dictionary(t)
	large := rec("1.1", "response", "http://a.example.jp/large", answer, "HTTP/1.1 200 OK\r\n\r\n"+noise(3<<20))
	for name, data := range map[string]string{
		"plain":                         strings.Join(records, ""),
		"a member a record":             gz(records...),
		"one member":                    gz(strings.Join(records, "")),
		"one large member":              gz(strings.Join(records, "") + large),
		"members that split records":    gz(split(strings.Join(records, ""), 100)...),
		"no digests":                    gz(proofless(records)...),
		"empty members":                 gz("", records[2], "", "", records[4], ""),
		"an empty line between records": strings.ReplaceAll(strings.Join(records, ""), "\r\n\r\nWARC/", "\r\nWARC/"),
		"a tree":                        treeOfOne(t),
		"a frame a record":              zst(t, nil, records...),
		"frames with a dictionary":      skippable(string(dict)) + zst(t, dict, records...),
		"one large frame":               zst(t, nil, strings.Join(records, "")+large),
		"a WACZ":                        waczOf(t, "archive/1.warc.gz", gz(records...), "archive/2.warc*", large),
	} {
		want, err := convert(t, data, nil)
		testkit.Must(t, err)
		got, err := salvaged(t, data)
		testkit.Must(t, err)
		if !bytes.Equal(got.batch, want.batch) || got.others != want.others || got.Batch != want.Batch || got.Lost != 0 {
			t.Errorf("%s: another batch: %+v, want %+v", name, got.Result, want.Result)
		}
	}
}

func split(s string, size int) (parts []string) {
	for part := range slices.Chunk([]byte(s), size) {
		parts = append(parts, string(part))
	}
	return parts
}

func treeOfOne(t *testing.T) string {
	return tree(t, 0, map[string]string{"www.example.jp/a.html": "a"}, "www.example.jp/a.html")
}

// Damage costs the record that it is in. Every loss is reported with its place.
func TestSalvage(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	records := numbered(6)
	bare := proofless(records)
	change := func(records []string, n int, old, to string) []string {
		records = slices.Clone(records)
		if !strings.Contains(records[n], old) {
			t.Fatalf("record %d has no %q", n, old)
		}
		records[n] = strings.Replace(records[n], old, to, 1)
		return records
	}
	length := func(records []string, n int, length string) []string {
		_, rest, _ := strings.Cut(records[n], "Content-Length: ")
		old, _, _ := strings.Cut(rest, "\r\n")
		return change(records, n, "Content-Length: "+old+"\r\n", "Content-Length: "+length+"\r\n")
	}
	plain := func(records []string) string { return strings.Join(records, "") }
	members := func(records []string) string { return gz(records...) }
	// damaged are members, of which one has a bit flipped at a part of its length.
	damaged := func(n int, part float64) string {
		var all []string
		for i, r := range records {
			m := []byte(gz(r))
			if i == n {
				m[int(part*float64(len(m)-1))] ^= 4
			}
			all = append(all, string(m))
		}
		return strings.Join(all, "")
	}
	cut := func(s string, n int) string { return s[:len(s)-n] }
	at := func(n int) int64 { return int64(len(plain(records[:n]))) }
	atMember := func(n int) int64 { return int64(len(members(records[:n]))) }
	dict := dictionary(t)
	atFrame := func(n int) int64 { return int64(len(zst(t, nil, records[:n]...))) }
	// damagedFrame is damaged for frames.
	damagedFrame := func(dict []byte, records []string, n int, part float64) string {
		var all []string
		for i, r := range records {
			f := []byte(zst(t, dict, r))
			if i == n {
				f[int(part*float64(len(f)-1))] ^= 4
			}
			all = append(all, string(f))
		}
		return strings.Join(all, "")
	}
	const anywhere = -1
	firstSum := []byte(members(records))
	firstSum[len(gz(records[0]))-8] ^= 1
	for name, c := range map[string]struct {
		data   string
		kept   string
		at     int64 // of the first loss
		losses int64
		reason wire.Reason
	}{
		"body, plain":                 {plain(change(records, 2, "page 2", "page X")), "01345", at(2), 1, wire.ReasonSHAMismatch},
		"body, in a right member":     {members(change(records, 2, "page 2", "page X")), "01345", atMember(2), 1, wire.ReasonSHAMismatch},
		"digest":                      {plain(change(records, 0, "WARC-Block-Digest: sha1:", "WARC-Block-Digest: sha1:Z")), "12345", 0, 1, wire.ReasonSHAMismatch},
		"two digests":                 {plain(change(change(records, 1, "page 1", "page X"), 4, "page 4", "page X")), "0235", at(1), 2, wire.ReasonSHAMismatch},
		"date":                        {plain(change(records, 2, "2009-03-01T12", "2009-03-91T12")), "01345", anywhere, 0, ""}, // kept beside the batch
		"version":                     {plain(change(records, 2, "WARC/1.1", "WBRC/1.1")), "01345", at(2), 1, wire.ReasonCorruptMember},
		"version, no digests":         {plain(change(bare, 2, "WARC/1.1", "WBRC/1.1")), "01345", anywhere, 1, wire.ReasonCorruptMember},
		"version of the first":        {plain(change(records, 0, "WARC/1.1", "WBRC/1.1")), "12345", 0, 1, wire.ReasonCorruptMember},
		"header line":                 {plain(change(records, 2, "WARC-Type:", "WARC-Type;")), "01345", at(2), 1, wire.ReasonCorruptMember},
		"type":                        {plain(change(records, 2, "WARC-Type:", "WBRC-Type:")), "01345", at(2), 1, wire.ReasonCorruptMember},
		"no length":                   {plain(length(records, 2, "many")), "01345", at(2), 1, wire.ReasonCorruptMember},
		"too short":                   {plain(length(records, 2, "60")), "01345", at(2), 1, wire.ReasonSHAMismatch},
		"too short, no digests":       {plain(length(bare, 2, "60")), "01345", anywhere, 1, wire.ReasonCorruptMember},
		"as long as the HTTP head":    {plain(length(bare, 2, "42")), "01345", anywhere, 1, wire.ReasonCorruptMember},
		"too long":                    {plain(length(records, 2, "300")), "01345", at(2), 1, wire.ReasonSHAMismatch},
		"too long, no digests":        {plain(length(bare, 2, "300")), "01345", anywhere, 1, wire.ReasonCorruptMember},
		"longer than the file":        {plain(length(records, 2, "99999999999")), "01345", at(2), 1, wire.ReasonTruncated},
		"too long, members":           {members(length(records, 2, "300")), "01345", atMember(2), 1, wire.ReasonSHAMismatch},
		"longer, members":             {members(length(bare, 2, "99999999999")), "01345", anywhere, 1, wire.ReasonTruncated},
		"longer, one member":          {gz(plain(length(bare, 2, "99999999999"))), "01345", anywhere, 1, wire.ReasonTruncated},
		"cut in a body":               {cut(plain(records), 30), "01234", at(5), 1, wire.ReasonTruncated},
		"cut in a header":             {plain(records[:5]) + records[5][:50], "01234", at(5), 1, wire.ReasonTruncated},
		"cut after the body":          {cut(plain(records), 4), "012345", anywhere, 0, ""},
		"rubbish between":             {plain(records[:2]) + "rubbish\r\nand more\r\n" + plain(records[2:]), "012345", at(2), 1, wire.ReasonCorruptMember},
		"a flip in a member's header": {damaged(2, 0), "01345", atMember(2), 1, wire.ReasonCorruptMember},
		"in its middle":               {damaged(2, 0.5), "01345", atMember(2), 1, wire.ReasonCorruptMember},
		"in its sum":                  {damaged(2, 0.98), "01345", atMember(2), 1, wire.ReasonCorruptMember},
		"in the first header":         {damaged(0, 0), "12345", 0, 1, wire.ReasonCorruptMember},
		"in the first sum":            {string(firstSum), "12345", 0, 1, wire.ReasonCorruptMember},
		"in the last":                 {damaged(5, 0.5), "01234", atMember(5), 1, wire.ReasonCorruptMember},
		"cut member":                  {cut(members(records), 30), "01234", atMember(5), 1, wire.ReasonTruncated},
		"cut sum":                     {cut(members(records), 4), "012345", atMember(5), 1, wire.ReasonTruncated},
		"cut sum, no digests":         {cut(members(bare), 4), "01234", anywhere, 2, wire.ReasonTruncated},
		"one member, cut":             {cut(gz(plain(records)), 20), "01234", 0, 1, wire.ReasonTruncated},
		"rubbish between members":     {members(records[:2]) + "\x1f\x8b\x08 rubbish" + members(records[2:]), "012345", atMember(2), 1, wire.ReasonCorruptMember},
		"a hole":                      {members(records[:2]) + strings.Repeat("\x00", 70_000) + members(records[3:]), "01345", atMember(2), 1, wire.ReasonCorruptMember},
		"frame, in its middle":        {damagedFrame(nil, records, 2, 0.5), "01345", atFrame(2), 1, wire.ReasonCorruptMember},
		"frame, its magic":            {damagedFrame(nil, records, 2, 0), "01345", atFrame(2), 1, wire.ReasonCorruptMember},
		"frame, its sum":              {damagedFrame(nil, records, 2, 1), "01345", atFrame(2), 1, wire.ReasonCorruptMember},
		"first frame":                 {damagedFrame(nil, records, 0, 0), "12345", 0, 1, wire.ReasonCorruptMember},
		"frame of a dictionary":       {skippable(string(dict)) + damagedFrame(dict, records, 3, 0.5), "01245", anywhere, 1, wire.ReasonCorruptMember},
		"frame with a changed record": {zst(t, nil, change(records, 2, "page 2", "page X")...), "01345", atFrame(2), 1, wire.ReasonSHAMismatch},
		"cut frame":                   {cut(zst(t, nil, records...), 30), "01234", atFrame(5), 1, wire.ReasonTruncated},
		"one frame, cut":              {cut(zst(t, nil, plain(records)+noise(1<<20)), 20), "012345", anywhere, 2, wire.ReasonCorruptMember},
		"rubbish between frames":      {zst(t, nil, records[:2]...) + "rubbish" + zst(t, nil, records[2:]...), "012345", atFrame(2), 1, wire.ReasonCorruptMember},
		"large frame":                 {zst(t, nil, records[0], plain(records[1:])+strings.Repeat(" ", 3<<20)) + "rubbish", "012345", anywhere, 2, wire.ReasonCorruptMember},
	} {
		got, err := salvaged(t, c.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.kept() != c.kept || got.Lost != c.losses || len(got.Losses.Losses) != int(got.Lost) {
			t.Errorf("%s: kept %s with %d losses, want %s with %d: %v", name, got.kept(), got.Lost, c.kept, c.losses, got.Losses)
		}
		for i, l := range got.Losses.Losses {
			if i == 0 && (l.Reason != c.reason || c.at != anywhere && l.Offset+l.Within != c.at) || l.Detail == "" {
				t.Errorf("%s: loss %v, want %s at %d", name, l, c.reason, c.at)
			}
		}
		_, err = convert(t, c.data, nil)
		var fault *Error
		if c.losses > 0 && (!errors.As(err, &fault) || !strings.Contains(fault.Error(), "offset ") || !strings.Contains(fault.Error(), "--lenient")) && name != "in the first header" && name != "version of the first" && name != "first frame" {
			t.Errorf("%s, not lenient: %v", name, err)
		}
	}
}

// Wherever a bit is flipped or the file ends, what is kept is as it was. Where records have members
// of their own, all but the damaged one are kept.
func TestSalvageAnywhere(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	step := 53
	if testkit.Full() {
		step = 1
	}
	records := numbered(4)
	whole, err := convert(t, gz(records...), nil)
	testkit.Must(t, err)
	for form, data := range map[string]string{"plain": strings.Join(records, ""), "members": gz(records...), "one member": gz(strings.Join(records, "")), "frames": zst(t, nil, records...), "a WACZ": waczOf(t, "archive/1.warc.gz", gz(records...))} {
		for at := 0; at < len(data); at += step {
			for damage, data := range map[string]string{"flip": data[:at] + string([]byte{data[at] ^ (1 << (at % 8))}) + data[at+1:], "cut": data[:at]} {
				got, err := salvaged(t, data)
				var fault *Error
				if err != nil {
					if !errors.As(err, &fault) {
						t.Fatalf("%s, %s at %d: %v", form, damage, at, err)
					}
					got = &converted{Result: new(Result)}
				}
				lost := len(whole.pages) - len(got.pages)
				for url, body := range got.pages {
					if form == "plain" && whole.pages[url] == "" { // in its header nothing proves the URL
						continue
					}
					if body != whole.pages[url] {
						t.Errorf("%s, %s at %d: %s is %.40q, want %.40q", form, damage, at, url, body, whole.pages[url])
					}
				}
				if damage == "flip" && form != "one member" && lost > 1 {
					t.Errorf("%s, flip at %d: only %s is kept", form, at, got.kept())
				}
			}
		}
	}
}

// The list of losses is bounded, and their number is not.
func TestManyLosses(t *testing.T) {
	t.Parallel()
	bad := strings.Replace(numbered(1)[0], "page 0", "page X", 1)
	got, err := salvaged(t, strings.Repeat(bad, 250)+numbered(2)[1])
	testkit.Must(t, err)
	if got.Lost != 250 || len(got.Losses.Losses) != maxLosses || got.kept() != "1" {
		t.Errorf("%d losses, %d listed, %s kept", got.Lost, len(got.Losses.Losses), got.kept())
	}
}

// What is no WARC at all is refused, and so is a file that expands without end.
func TestLenientHasLimits(t *testing.T) {
	t.Parallel()
	for data, reason := range map[string]wire.Reason{
		"":                              wire.ReasonForeign,
		"<html>no archive":              wire.ReasonForeign,
		"\x1f\x8b\x08 rubbish":          wire.ReasonForeign,
		gz("no archive"):                wire.ReasonForeign,
		gz(strings.Repeat("x", 2<<20)):  wire.ReasonBombRatio,
		strings.Join(numbered(200), ""): wire.ReasonBombRatio,
	} {
		_, err := convertAs(t, data, Options{Lenient: true, Limits: Limits{Bytes: 1 << 20, Entries: 100}})
		var fault *Error
		if !errors.As(err, &fault) || fault.Reason != reason {
			t.Errorf("%.20q: %v, want %s", data, err, reason)
		}
	}
}

// However long what is damaged is, it takes little memory.
func TestSalvageTakesLittleMemory(t *testing.T) { // not parallel: it measures all that is allocated
	long := strings.Repeat("no line of a record ends here, and none begins ", 1<<19)
	length := strings.Replace(numbered(1)[0], "Content-Length: ", "Content-Length: 1000000", 1)
	for name, data := range map[string]string{
		"one line":            numbered(1)[0] + long + numbered(2)[1],
		"a length":            length + long + "\r\n" + numbered(2)[1],
		"beginnings of gzip":  gz(numbered(1)...) + strings.Repeat("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00", 1<<16) + gz(numbered(2)[1]),
		"a large member, cut": half(gz(numbered(1)[0] + noise(8<<20))),
	} {
		path := filepath.Join(t.TempDir(), "foreign")
		testkit.Must(t, os.WriteFile(path, []byte(data), 0o600))
		f, err := os.Open(path)
		testkit.Must(t, err)
		defer f.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = Convert(t.Context(), f, io.Discard, Options{Robot: "import", Dir: t.TempDir(), Lenient: true})
		runtime.ReadMemStats(&after)
		testkit.Must(t, err)
		const most = 16 << 20
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%s: %d bytes of memory, want at most %d", name, took, most)
		}
	}
}

// Of a damaged WACZ what is right is kept, wherever the damage is. A loss names its entry, with the
// offset in it.
func TestSalvageWACZ(t *testing.T) {
	t.Parallel()
	records := numbered(6)
	changed := []string{records[0], strings.Replace(records[1], "page 1", "page X", 1), records[2]}
	at := int64(len(gz(changed[0])))
	flip := func(s, before string) string {
		n := strings.Index(s, before) + len(before) - 1
		return s[:n] + string([]byte{s[n] ^ 4}) + s[n+1:]
	}
	deflated := waczOf(t, "archive/1.warc*", strings.Join(records[:3], "")+noise(1<<20), "archive/2.warc.gz", gz(records[3:]...))
	good := waczOf(t, "archive/1.warc.gz", gz(records[:3]...), "archive/2.warc.gz", gz(records[3:]...))
	second := 4 + strings.Index(good[4:], waczBegins) // where the second entry begins
	for name, c := range map[string]struct {
		data   string
		kept   string
		losses int64
		says   string // of the first loss
	}{
		"a record":             {waczOf(t, "archive/1.warc.gz", gz(changed...), "archive/2.warc.gz", gz(records[3:]...)), "02345", 1, fmt.Sprintf(`offset %d (http://a.example.jp/1): sha_mismatch: "archive/1.warc.gz": `, at)},
		"of a deflated entry":  {waczOf(t, "archive/1.warc.gz*", gz(changed...), "archive/2.warc.gz", gz(records[3:]...)), "02345", 1, fmt.Sprintf(`offset %d (http://a.example.jp/1): sha_mismatch: "archive/1.warc.gz": `, at)},
		"an entry is cut":      {waczOf(t, "archive/1.warc.gz", half(gz(records[:3]...)), "archive/2.warc.gz", gz(records[3:]...)), "01345", 1, `"archive/1.warc.gz": the file ends`},
		"an entry is no WARC":  {waczOf(t, "archive/1.warc.gz", "<html>", "archive/2.warc.gz", gz(records...)), "012345", 2, `"archive/1.warc.gz": the file ends`},
		"an entry is empty":    {waczOf(t, "archive/1.warc.gz", "", "archive/2.warc.gz", gz(records...)), "012345", 1, `"archive/1.warc.gz": no record`},
		"the deflated data":    {deflated[:800_000] + strings.Repeat("\x00", 1000) + deflated[801_000:], "012345", 2, `"archive/1.warc"`},
		"its sum":              {strings.Replace(waczOf(t, "archive/1.warc", strings.Join(records, "")), "page 0", "page X", 1), "12345", 1, `"archive/1.warc": its block`},
		"an entry's beginning": {flip(good, good[:second+1]), "012345", anyLosses, ""},
		"the zip's beginning":  {flip(good, "PK"), "012345", anyLosses, ""},
		"a byte too many":      {good[:100] + "x" + good[100:], "12345", anyLosses, ""},
		"the list":             {flip(good, "PK\x05"), "012345", anyLosses, ""},
		"cut behind the WARCs": {good[:len(good)-200], "012345", anyLosses, ""},
		"cut in a WARC":        {good[:strings.Index(good, gz(records[4]))+10], "0123", anyLosses, ""},
	} {
		got, err := salvaged(t, c.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.kept() != c.kept || c.losses == anyLosses && got.Lost == 0 || c.losses != anyLosses && got.Lost != c.losses || !strings.Contains(got.Losses.Losses[0].String(), c.says) {
			t.Errorf("%s: %s, kept %s with %d losses, want %s with %d, …%s…: %v", name, got.Kind, got.kept(), got.Lost, c.kept, c.losses, c.says, got.Losses)
		}
		if _, err = convert(t, c.data, nil); name != "an entry is empty" && name != "the zip's beginning" && !strings.Contains(fmt.Sprint(err), "--lenient") {
			t.Errorf("%s, not lenient: %v", name, err)
		}
	}
	if _, err := salvaged(t, waczOf(t, "archive/1.warc.gz", "<html>")); err == nil || !strings.Contains(err.Error(), "no record") {
		t.Errorf("a WACZ without records: %v", err)
	}
}

const anyLosses = -1
