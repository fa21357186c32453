package extract

import (
	"bytes"
	"compress/gzip"
	"io"
	"unicode/utf8"
)

// inflate opens a gzip file as far as it is searched. What is none, or damaged,
// gives what could be read of it.
func inflate(body []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(z, MaxBytes)) // what came before the damage counts
	return text
}

// isURLList reports whether a body is a sitemap of plain text: UTF-8, every line an
// absolute URL (sitemaps.org, "Text file"). A text that merely names URLs is not.
func isURLList(body []byte) bool {
	head := body[:min(len(body), 16<<10)]
	if len(head) < len(body) {
		head = head[:bytes.LastIndexByte(head, '\n')+1]
	}
	lines := 0
	for line := range bytes.Lines(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if !hasPrefixFold(string(line), "http://") && !hasPrefixFold(string(line), "https://") ||
			bytes.ContainsAny(line, " \t<>") || !utf8.Valid(line) {
			return false
		}
		lines++
	}
	return lines > 0
}

// list takes the URLs of a sitemap of plain text.
func (c *collector) list(text []byte) {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			c.add(string(line), Link{Tag: "sitemap", Text: true})
		}
	}
}
