package media_test

import (
	"testing"
	"unicode/utf8"

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
