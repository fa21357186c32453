package replay

import "sheaf/internal/media"

// css appends a style sheet to dst, with its URLs rewritten, and returns dst.
func (l *linker) css(dst, s []byte) []byte {
	at := 0 // what is before is written
	for r := range media.StyleRefs(s, l.wide) {
		to, ok := l.part(media.UnescapeStyle(l.decode(r.Raw)))
		if !ok {
			continue
		}
		dst = append(dst, s[at:r.Start]...)
		if to = media.QuoteStyle(to); r.Func {
			to = "url(" + to + ")"
		}
		dst = append(dst, to...)
		at = r.End
	}
	return append(dst, s[at:]...)
}

// twoBytes returns a test for the first byte of a character whose second byte may look like a
// backslash, or nil if the encoding has no such characters.
func twoBytes(cs media.Charset) func(byte) bool {
	switch cs.Name {
	case "shift_jis":
		return func(c byte) bool { return 0x81 <= c && c <= 0x9f || 0xe0 <= c && c <= 0xfc }
	case "big5", "gbk", "gb18030", "euc-kr":
		return func(c byte) bool { return 0x81 <= c && c <= 0xfe }
	}
	return nil
}
