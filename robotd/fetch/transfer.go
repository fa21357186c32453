package fetch

import (
	"bufio"
	"strconv"
	"strings"

	"sheaf/internal/media"
)

// lengths returns the least and the greatest length of the body by the header, or -1 if the header
// has no usable length. sure is false if lengths differ or are not plain numbers.
func (h *header) lengths() (least, most int64, sure bool) {
	least, most, sure = -1, -1, true
	for _, list := range h.values("Content-Length") {
		for text := range strings.SplitSeq(list, ",") {
			n, plain := leadingNumber(strings.TrimSpace(text))
			sure = sure && plain && (most < 0 || n == most)
			if n >= 0 && (n < least || least < 0) {
				least = n
			}
			most = max(most, n)
		}
	}
	return least, most, sure
}

// leadingNumber returns the number at the beginning of a text, such as "26 bytes"; -1: it begins
// with none. plain says that the text has nothing else.
func leadingNumber(text string) (n int64, plain bool) {
	digits := strings.TrimPrefix(text, "+")
	end := strings.IndexFunc(digits+".", func(c rune) bool { return c < '0' || c > '9' })
	n, err := strconv.ParseInt(digits[:end], 10, 64)
	if err != nil || n == 0 && end < len(digits) { // such as 0x1a
		return -1, false
	}
	return n, end == len(text)
}

// transfer returns the transfer codings that are also content codings, the outermost last, and
// whether the body is said to be in chunks. Other codings are ignored, as wget does.
func (h *header) transfer() (codings []string, chunked bool) {
	for _, list := range h.values("Transfer-Encoding") {
		for text := range strings.SplitSeq(list, ",") {
			name, _, _ := strings.Cut(text, ";")
			switch name = strings.ToLower(strings.Trim(name, "\t \"")); name {
			case "chunked":
				chunked = true
			case "gzip", "x-gzip", "deflate":
				codings = append(codings, name)
			}
		}
	}
	return codings, chunked
}

// chunked reads a body in chunks. A body that does not begin with a chunk is read up to the end of
// the connection.
type chunked struct {
	*media.Chunks
	in *bufio.Reader
}

func (c *chunked) Read(p []byte) (int, error) {
	if !c.Plain() {
		if n, err := c.Chunks.Read(p); !c.Plain() {
			return n, err
		}
	}
	return c.in.Read(p)
}
