package fetch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sheaf/internal/media"
)

// header is a response's header block as it came, except that folded lines are joined and lines
// that are no fields are left out.
type header struct {
	proto  string // HTTP/1.0 or HTTP/1.1
	said   string // proto as the server wrote it, if that differs; else empty
	status int
	reason string
	fields []field
	cut    bool // the connection ended within the header
}

type field struct{ name, value string }

// values returns the values of a field, in order. The name may be in any case.
func (h *header) values(name string) (all []string) {
	for _, f := range h.fields {
		if strings.EqualFold(f.name, name) {
			all = append(all, f.value)
		}
	}
	return all
}

// says reports whether a field has a token among its values, which are separated by commas.
func (h *header) says(name, token string) bool {
	for _, list := range h.values(name) {
		for value := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(value), token) {
				return true
			}
		}
	}
	return false
}

func (c *connection) requestBytes(req *http.Request) []byte {
	var b bytes.Buffer
	target := req.URL.Opaque
	if c.absolute {
		target = req.URL.Scheme + "://" + req.URL.Host + target
	}
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", req.Method, target, req.Host)
	if req.Body != nil {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", req.ContentLength)
	}
	if c.absolute && c.proxyKey != "" {
		fmt.Fprintf(&b, "Proxy-Authorization: %s\r\n", c.proxyKey)
	}
	req.Header.Write(&b) // sorted; line ends in values become spaces
	b.WriteString("Connection: " + map[bool]string{false: "close", true: "keep-alive"}[c.again] + "\r\n\r\n")
	if req.Body != nil {
		_, _ = b.ReadFrom(req.Body) // from memory into memory
	}
	return b.Bytes()
}

var errLongHeader = errors.New("the header is longer than the limit")

// mostFields is how many lines a header may have: each costs more memory than its bytes.
const mostFields = 5000

// readHeader reads a status line and fields up to the blank line. It takes what curl or wget takes:
// TestOddAnswers has the list.
func readHeader(r *bufio.Reader, limit int) (header, error) {
	var h header
	line, err := readLine(r, &limit)
	if err == nil {
		err = h.statusLine(line)
	}
	if err != nil {
		return h, err
	}
	for n := 0; ; n++ {
		line, err := readLine(r, &limit)
		switch {
		case n > mostFields:
			return h, errLongHeader
		case err == io.ErrUnexpectedEOF:
			h.cut = true // the line in hand means nothing
			return h, nil
		case err != nil:
			return h, err
		case line == "":
			return h, nil
		case line[0] == ' ' || line[0] == '\t':
			if n := len(h.fields); n > 0 {
				h.fields[n-1].value = printable(h.fields[n-1].value + line)
			}
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimRight(name, " \t"); ok && httpguts.ValidHeaderFieldName(name) {
			h.fields = append(h.fields, field{name, printable(value)})
		}
	}
}

// statusLine parses a line that begins with HTTP, in any case and of any version, and has a status
// of three digits.
func (h *header) statusLine(line string) error {
	const digits, longest = 3, 20
	line = strings.TrimLeft(strings.TrimPrefix(line, bom), " \t")
	end := strings.IndexAny(line+" ", " \t")
	rest := strings.TrimLeft(line[end:], " \t")
	h.proto, h.said = "HTTP/1.1", line[:end]
	if strings.EqualFold(h.said, "HTTP/1.0") {
		h.proto = "HTTP/1.0"
	}
	h.status, _ = strconv.Atoi(rest[:min(digits, len(rest))])
	if h.status < 100 || !beginsHTTP(line) || end > longest {
		return fmt.Errorf("%.80q is no status line of HTTP", line)
	}
	h.reason = printable(rest[digits:])
	if h.said == h.proto {
		h.said = ""
	}
	return nil
}

const bom = "\xef\xbb\xbf"

func beginsHTTP(s string) bool {
	const http = "HTTP"
	return len(s) >= len(http) && strings.EqualFold(s[:len(http)], http)
}

// readLine reads a line without its end, CRLF or LF, and subtracts its length from the limit.
func readLine(r *bufio.Reader, limit *int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if *limit -= len(part); *limit < 0 {
			return "", errLongHeader
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return strings.TrimSuffix(string(line[:len(line)-1]), "\r"), nil
		case err == io.EOF:
			return "", io.ErrUnexpectedEOF
		case err != bufio.ErrBufferFull:
			return "", err
		}
	}
}

// printable trims a value and replaces control characters that would end a line or a string
// elsewhere.
func printable(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			b[i] = ' '
		}
	}
	return strings.Trim(string(b), " \t")
}

func (h *header) bytes() []byte {
	var b bytes.Buffer
	b.Grow(h.size())
	fmt.Fprintf(&b, "%s %03d %s\r\n", h.proto, h.status, h.reason)
	for _, f := range h.fields {
		b.WriteString(f.name)
		b.WriteString(": ")
		b.WriteString(f.value)
		b.WriteString("\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

func (h *header) size() int {
	n := len(h.reason) + 20
	for _, f := range h.fields {
		n += len(f.name) + len(f.value) + 4
	}
	return n
}

// stored returns the header with which an answer is stored: see media.StoredFields.
func (h header) stored(decoded bool, size int64) []byte {
	given := func(yield func(name, value string) bool) {
		for _, f := range h.fields {
			if !yield(f.name, f.value) {
				return
			}
		}
	}
	fields := make([]field, 0, len(h.fields)+2)
	for name, value := range media.StoredFields(given, h.status, decoded, size) {
		fields = append(fields, field{name, value})
	}
	if h.said != "" {
		fields = append(fields, field{"X-Crawler-Protocol", printable(h.said)})
	}
	h.fields = fields
	return h.bytes()
}

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
