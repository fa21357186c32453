package page

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"unicode/utf8"
)

// inflate returns a reader of a gzip file's content, or nil if body is no gzip file.
func inflate(body io.Reader) *bufio.Reader {
	z, err := gzip.NewReader(body)
	if err != nil {
		return nil
	}
	return bufio.NewReaderSize(z, sampled)
}

// limited reads the first left bytes of a sitemap, and counts the sitemap as cut if there are more.
type limited struct {
	r    io.Reader
	left int64
	c    *collector
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left == 0 {
		var one [1]byte
		if n, _ := io.ReadFull(l.r, one[:]); n > 0 {
			l.c.cut(CutSitemapBytes)
		}
		return 0, io.EOF
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// isURLList reports whether a body is a text sitemap: UTF-8 with one absolute URL on each line
// (sitemaps.org, "Text file"). A text that only mentions URLs does not count.
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

// list adds the URLs of a text sitemap.
func (c *collector) list(text io.Reader) {
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			c.add(string(line), Link{Tag: "sitemap", Text: true})
		}
	}
	if lines.Err() == bufio.ErrTooLong {
		c.cut(CutLength)
	}
}

// maxLine is the longest line of a list that is read, in bytes. Every URL is shorter.
const maxLine = 1 << 20
