package foreign

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// arc returns a record of an ARC.
func arc(url, ip, date, mediaType, block string) string {
	return fmt.Sprintf("%s %s %s %s %d\n%s\n", url, ip, date, mediaType, len(block), block)
}

// asARC2 returns records of version 1 as version 2 has them.
func asARC2(records []string) (two []string) {
	for i, r := range records {
		line, block, _ := strings.Cut(r, "\n")
		if i == 0 {
			block = strings.NewReplacer("1 0", "2 0", "1 1", "2 0", "Archive-length", "Result-code Checksum Location Offset Filename Archive-length").Replace(block)
		}
		more := "200 - -"
		if i%2 == 1 {
			more = "- 1f2e3d http://a.example.jp/new"
		}
		at := strings.LastIndexByte(line, ' ')
		two = append(two, fmt.Sprintf("%s %s %d IA-1.arc %d\n%s", line[:at], more, 100*i, len(block)-1, block))
	}
	return two
}

// arcFile is an ARC as Heritrix 1 wrote it, or one of 1996 by the Internet Archive.
func arcFile(heritrix bool) []string {
	about := "1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n"
	date := "20090301120000"
	if heritrix {
		about = strings.Replace(about, "1 0", "1 1", 1) + "<?xml version=\"1.0\"?>\n<arcmetadata><software>Heritrix 1.14</software></arcmetadata>\n"
	}
	return []string{
		arc(arcBegins+"IA-1.arc", "0.0.0.0", date, "text/plain", about),
		arc("dns:a.example.jp", "192.0.2.1", date, "text/dns", "20090301120000\na.example.jp. 60 IN A 192.0.2.7\n"),
		arc("http://a.example.jp/", "192.0.2.7", date, "text/html", "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=EUC-JP\r\n\r\n<p>\xc6\xfc\xcb\xdc"),
		arc("http://a.example.jp/a b", "192.0.2.7", date, "text/html; charset=x", "HTTP/1.0 200 OK\n\n<p>spaces"),
		arc("http://a.example.jp/gone", "192.0.2.7", date, "no-type", "HTTP/1.0 404 Not Found\r\nContent-Type: text/html\r\n\r\n<p>gone"),
		arc("http://b.example.jp/http09", "192.0.2.8", date, "text/html", "<p>no head"),
		arc("http://b.example.jp/old", "192.0.2.8", "199609231421", "text/html", "HTTP/1.0 200 OK\r\n\r\n<p>old"),
		arc("http://b.example.jp/when", "192.0.2.8", "20091301120000", "text/html", "HTTP/1.0 200 OK\r\n\r\n<p>a month too many"),
	}
}

// ARC files give the same as WARC files: every record is in the batch, or beside it with a header
// that is a WARC's.
func TestARC(t *testing.T) {
	t.Parallel()
	for _, records := range [][]string{arcFile(false), arcFile(true), asARC2(arcFile(false))} {
		for form, data := range map[string]string{
			"plain": strings.Join(records, ""), "one member": gz(strings.Join(records, "")), "a member a record": gz(records...),
			"two files": gz(records[:3]...) + gz(append(records[:1:1], records[3:]...)...),
		} {
			c, err := convert(t, data, nil)
			if err != nil {
				t.Errorf("%s: %v", form, err)
				continue
			}
			others := int64(4) // description, DNS, an answer without a head, one without a date
			if form == "two files" {
				others++
			}
			if c.Kind != ARC || c.Hosts != 2 || c.Pages != 3 || c.Responses != 1 || c.Others != others {
				t.Errorf("%s: %+v", form, c.Result)
			}
			for url, want := range map[string]string{
				"http://a.example.jp/": "<p>\xc6\xfc\xcb\xdc", "http://a.example.jp/a%20b": "<p>spaces", "http://b.example.jp/old": "<p>old",
			} {
				if c.pages[url] != want {
					t.Errorf("%s: %s: %q, want %q", form, url, c.pages[url], want)
				}
			}
			for _, cell := range c.cells {
				if want := map[string]int64{"http://b.example.jp/old": 843488460}[cell.URL]; want != 0 && cell.Time.Unix() != want {
					t.Errorf("%s: %s is of %v", form, cell.URL, cell.Time)
				}
				if cell.Kind == archive.Page && cell.Truncated != "" {
					t.Errorf("%s: %+v", form, cell)
				}
			}
			again, err := convert(t, data, nil)
			testkit.Must(t, err)
			if again.Batch != c.Batch || again.others != c.others {
				t.Errorf("%s: the same file gave another batch", form)
			}
			beside, err := convert(t, c.others, nil) // it is a WARC
			testkit.Must(t, err)
			heads := int64(strings.Count(c.others, "Content-Type: application/warc\r\n"))
			if heads == 0 || beside.Others != c.Others+heads || !strings.Contains(c.others, "WARC-Date: 2009-03-01T12:00:00Z\r\nWARC-IP-Address: 192.0.2.1\r\nContent-Type: text/dns\r\n") ||
				!strings.Contains(c.others, "WARC-Type: warcinfo\r\n") || !strings.Contains(c.others, "WARC-Filename: IA-1.arc\r\n") {
				t.Errorf("%s: beside the batch lies %+v\n%s", form, beside.Result, c.others)
			}
		}
	}
}

// What is wrong with an ARC is named with its place.
func TestWrongARC(t *testing.T) {
	t.Parallel()
	records := arcFile(true)
	good := strings.Join(records, "")
	for name, c := range map[string]struct {
		data   string
		reason wire.Reason
		says   string
	}{
		"cut":           {good[:len(good)-10], wire.ReasonTruncated, "ends here"},
		"cut in a line": {strings.Join(records[:2], "") + records[2][:20], wire.ReasonTruncated, "ends here"},
		"cut gzip":      {half(gz(records...)), wire.ReasonTruncated, "ends here"},
		"rubbish":       {good + "rubbish\n", wire.ReasonCorruptMember, "rubbish"},
		"no length":     {strings.Join(records[:2], "") + strings.Replace(records[2], "text/html ", "text/html x", 1), wire.ReasonCorruptMember, "begins with"},
		"wrong length":  {strings.Join(records[:2], "") + strings.Replace(records[2], "text/html ", "text/html 9", 1) + records[3], wire.ReasonTruncated, "ends here"},
		"version 3":     {strings.Replace(good, "\n1 1 ", "\n3 0 ", 1), wire.ReasonForeign, "version"},
		"no page":       {records[0], wire.ReasonForeign, "none is about a page"},
	} {
		_, err := convert(t, c.data, nil)
		var fault *Error
		if !errors.As(err, &fault) || fault.Reason != c.reason || !strings.Contains(fault.Error(), c.says) {
			t.Errorf("%s: %v, want %s: …%s…", name, err, c.reason, c.says)
		}
	}
}

// FuzzARC: whatever the line of an ARC's record is, it is refused or becomes a header that is read
// back as it was meant.
func FuzzARC(f *testing.F) {
	for _, r := range append(arcFile(true), asARC2(arcFile(false))...) {
		line, _, _ := strings.Cut(r, "\n")
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		a, ok := parseARC(line)
		if !ok {
			return
		}
		made := a.record(0)
		s := &input{r: bufio.NewReader(bytes.NewReader(made.head)), meter: newMeter(Limits{}, 0)}
		read, err := s.nextRecord()
		if err != nil {
			t.Fatalf("%q: %v", made.head, err)
		}
		if read.length != a.length || read.url() != made.url() || fmt.Sprint(read.fields) != fmt.Sprint(made.fields) {
			t.Fatalf("%v, want %v", read.fields, made.fields)
		}
	})
}

// Damage in an ARC costs the record that it is in, as far as an ARC shows it: it has no digests.
func TestSalvageARC(t *testing.T) {
	t.Parallel()
	testSalvageARC(t, "text/html ", func(records []string) []string { return records })
	testSalvageARC(t, "IA-1.arc ", asARC2)
}

// testSalvageARC salvages records as as returns them. Their lengths stand behind the word before.
func testSalvageARC(t *testing.T, before string, as func([]string) []string) {
	records := []string{arcFile(true)[0]}
	for n := range 6 {
		records = append(records, arc(fmt.Sprintf("http://a.example.jp/%d", n), "192.0.2.7", "20090301120000", "text/html",
			"HTTP/1.0 200 OK\r\n\r\n"+strings.Repeat(fmt.Sprintf("<p>page %d\n", n), 5)))
	}
	records = as(records)
	change := func(n int, old, to string) string {
		return strings.Join(records[:n+1], "") + strings.Replace(records[n+1], old, to, 1) + strings.Join(records[n+2:], "")
	}
	member := func(n int, part float64) string {
		m := []byte(gz(records[n+1]))
		m[int(part*float64(len(m)-1))] ^= 4
		return gz(records[:n+1]...) + string(m) + gz(records[n+2:]...)
	}
	whole := strings.Join(records, "")
	strict, err := convert(t, whole, nil)
	testkit.Must(t, err)
	for name, c := range map[string]struct {
		data, kept string
		lost       int64
	}{
		"plain":                  {whole, "012345", 0},
		"gzip":                   {gz(records...), "012345", 0},
		"date":                   {change(2, "20090301120000", "2009030112x000"), "01345", 1},
		"address":                {change(2, " 192.0.2.7 ", " "), "01345", 1},
		"length":                 {change(2, before, before+"x"), "01345", 1},
		"too short":              {change(2, before+"6", before+"3"), "01345", 1},
		"too long":               {change(2, before+"6", before+"26"), "01345", 1},
		"longer than the file":   {change(2, before, before+"9999"), "01345", 1},
		"cut":                    {whole[:len(whole)-20], "01234", 1},
		"cut gzip":               {gz(records...)[:len(gz(records...))-20], "01234", 1},
		"a member's header":      {member(2, 0), "01345", 1},
		"a member's middle":      {member(2, 0.5), "01345", 1},
		"the first line":         {"Filedesc" + whole[len("filedesc"):], "012345", 0}, // a URL as any other
		"the first line is lost": {"x" + whole[len(records[0])-30:], "012345", 1},
		"the first member":       {"x" + gz(records...)[1:], "012345", 1},
	} {
		got, err := salvaged(t, c.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.kept() != c.kept || got.Lost != c.lost || got.Kind != ARC {
			t.Errorf("%s: %s: kept %s with %d losses, want %s with %d: %v", name, got.Kind, got.kept(), got.Lost, c.kept, c.lost, got.Losses)
		}
		for url, body := range got.pages {
			if body != strict.pages[url] {
				t.Errorf("%s: %s is %q, want %q", name, url, body, strict.pages[url])
			}
		}
		if _, err := convert(t, c.data, nil); c.lost > 0 && err == nil {
			t.Errorf("%s: taken without --lenient", name)
		}
	}
}
