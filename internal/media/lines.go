package media

import (
	"bytes"
	"strings"
)

// PlainLines returns a text whose keywords are ASCII, such as a robots.txt, as those who read its
// lines need it: decoded if it is UTF-16, and without byte order marks, which stand before each
// part of a file that was joined, and zero bytes. All other bytes stay what they are.
func PlainLines(text []byte) []byte {
	if bytes.IndexByte(text, 0) >= 0 || bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		if cs := DetectCharset(text, ""); strings.HasPrefix(cs.Name, "utf-16") {
			text = cs.DecodeBytes(text)
		}
		text = bytes.ReplaceAll(text, []byte{0}, nil)
	}
	if bom := []byte("\xef\xbb\xbf"); bytes.Contains(text, bom) {
		text = bytes.ReplaceAll(text, bom, nil)
	}
	return text
}
