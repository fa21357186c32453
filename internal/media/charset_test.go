package media_test

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"sheaf/internal/media"
)

// Whatever a page says of its encoding, what is read of it is UTF-8.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x1b$B8l\x1b(B\x1b$(D0!"), "text/html; charset=iso-2022-jp")
	f.Add([]byte("\xfe\xff\xd8\x00a"), "text/html; charset=\"x")
	f.Add([]byte("<meta charset=x-sjis>\x82\xa0\x8f"), "")
	f.Add([]byte("<?xml encoding='euc-jp'?>\x8f\xa1\xa1\x8e"), "text/xml")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		text, cs := media.DecodeText(body, contentType)
		if !utf8.ValidString(text) || cs.Name == "" || len(text) > 6*len(body)+3 {
			t.Errorf("%q read as %s: %q", body, cs.Name, text)
		}
	})
}

// TestDeclared: what a page declares is found as the HTML standard's prescan finds it. The bodies
// fit every declaration, so that nothing but the declaration decides.
func TestDeclared(t *testing.T) {
	t.Parallel()
	const other = "windows-1252" // of what declares nothing
	for _, c := range []struct{ contentType, body, want string }{
		{"text/html", `<meta charset=koi8-r>`, "koi8-r"},
		{"text/html", `<META/CHARSET = 'KOI8-R' >`, "koi8-r"},
		{"text/html", `<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">`, "koi8-r"},
		{"text/html", `<meta content='text/html; charset="koi8-r"' http-equiv=content-type>`, "koi8-r"},
		{"text/html", `<meta content="text/html; charset=koi8-r">`, other},
		{"text/html", `<meta http-equiv=refresh content="text/html; charset=koi8-r">`, other},
		{"text/html", `<meta test=" charset=koi8-r">`, other},
		{"text/html", `<meta test="charset=koi8-r"><meta charset=gbk>`, "gbk"},
		{"text/html", `<metal charset=koi8-r>`, other},
		{"text/html", `<p title="<meta charset=koi8-r>">`, other},
		{"text/html", `<p title='>'><meta charset=koi8-r>`, "koi8-r"},
		{"text/html", `<!-- <meta charset=koi8-r> -->`, other},
		{"text/html", `<!--><meta charset=koi8-r>`, "koi8-r"},
		{"text/html", `<!-- > --><!DOCTYPE html><meta charset=koi8-r>`, "koi8-r"},
		{"text/html", `<? <meta charset=gbk><meta charset=koi8-r>`, "koi8-r"},
		{"text/html", `</p title="<meta charset=gbk>"><meta charset=koi8-r>`, "koi8-r"},
		{"text/html", `<meta charset=no-such><meta charset=koi8-r>`, "koi8-r"},
		{"text/html", `<meta charset=gbk charset=koi8-r>`, "gbk"},
		{"text/html", `<meta charset=utf-16>`, "utf-8"},
		{"text/html", `<meta charset=x-user-defined>`, other},
		{"text/html", `<meta charset=us-ascii>`, other},
		{"text/html", `<meta charset=`, other},
		{"text/html", `<p a=b>` + strings.Repeat("x", 2000) + `<meta charset=koi8-r>`, "koi8-r"},
		{"text/html; charset=gbk", `<meta charset=koi8-r>`, "gbk"},
		{"text/html; charset=utf-16", `<p>in ASCII`, other},
		{"text/html", `plain ASCII`, other},
		{"text/html", `<?xml version="1.0" encoding="gbk"?><meta charset=koi8-r>`, "koi8-r"},
		{"application/xml", `<?xml version="1.0" encoding="gbk"?><meta charset=koi8-r>`, "gbk"},
		{"text/css", `@charset "koi8-r"; a{}`, "koi8-r"},
		{"text/css", `@charset 'koi8-r'; a{}`, other},
	} {
		if got := media.DetectCharset([]byte(c.body), c.contentType); got.Name != c.want {
			t.Errorf("%s %.80s: %s, want %s", c.contentType, c.body, got.Name, c.want)
		}
	}
}

// TestUTF16: UTF-16 without a mark is known by the header, by an XML declaration, or by its markup.
func TestUTF16(t *testing.T) {
	t.Parallel()
	const prose = "日本語のページです。漢字かな交じり文で、文字コードの判別に足りる長さにしてあります。"
	for name, order := range map[string]unicode.Endianness{"utf-16le": unicode.LittleEndian, "utf-16be": unicode.BigEndian} {
		for contentType, text := range map[string]string{
			"text/html; charset=" + name: prose,
			"application/xml":            `<?xml version="1.0"?>` + strings.Repeat(prose, 10),
			"text/html":                  "<html><head><title>題</title></head><body><p class=first>" + prose,
		} {
			body, err := unicode.UTF16(order, unicode.IgnoreBOM).NewEncoder().String(text)
			if err != nil {
				t.Fatal(err)
			}
			if got, cs := media.DecodeText([]byte(body), contentType); got != text || cs.Name != name {
				t.Errorf("%s, %s: read as %s: %q", contentType, name, cs.Name, got)
			}
		}
	}
}

// TestLateText: a page whose first 300 KiB are ASCII is read by what follows.
func TestLateText(t *testing.T) {
	t.Parallel()
	const prose = "日本語のページです。漢字かな交じり文で、文字コードの判別に足りる長さにしてあります。"
	body, err := japanese.EUCJP.NewEncoder().String("<script>" + strings.Repeat("0123456789", 30<<10) + "</script>" + prose)
	if err != nil {
		t.Fatal(err)
	}
	if text, cs := media.DecodeText([]byte(body), "text/html"); cs.Name != "euc-jp" || !strings.HasSuffix(text, prose) {
		t.Errorf("read as %s", cs.Name)
	}
}

// TestReader: what is decoded as it comes is what is decoded at once.
func TestReader(t *testing.T) {
	t.Parallel()
	const prose = "日本語のページです。漢字かな交じり文で、"
	for name, enc := range map[string]encoding.Encoding{
		"utf-8": encoding.Nop, "euc-jp": japanese.EUCJP, "shift_jis": japanese.ShiftJIS, "utf-16le": unicode.UTF16(unicode.LittleEndian, unicode.UseBOM),
	} {
		body, err := enc.NewEncoder().String(strings.Repeat(prose, 1000))
		if err != nil {
			t.Fatal(err)
		}
		body += "\xff"
		cs := media.DetectCharset([]byte(body), "")
		got, err := io.ReadAll(cs.Reader(strings.NewReader(body)))
		if want := cs.Decode([]byte(body)); err != nil || string(got) != want || cs.Name != name {
			t.Errorf("%s: %d bytes, want %d, %v", cs.Name, len(got), len(want), err)
		}
	}
}
