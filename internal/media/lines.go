package media

import (
	"bytes"
	"strings"
)

// PlainLines prepares a text with ASCII keywords, such as a robots.txt, for reading it line by
// line. It decodes UTF-16, and removes zero bytes and byte order marks, of which a joined file may
// have several. All other bytes stay as they are.
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
