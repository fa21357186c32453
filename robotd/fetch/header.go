package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sheaf/internal/coding"
)

// header is a response's header block as it came, except that folded lines are joined and lines
// that are no fields are left out.
type header struct {
	proto  string
	status int
	reason string
	fields []field
}

type field struct{ name, value string }

// answer is a response with its header in the original order.
type answer struct {
	*http.Response
	head   header
	buffer *bufio.Reader // through which the body comes; nil in HTTP/2
}

// whole reports whether the answer was read to its end and the connection can carry another one.
// After unexpected bytes it cannot.
func (a *answer) whole() bool {
	if n, err := io.CopyN(io.Discard, a.Body, 4<<10); n > 0 || err != io.EOF {
		return false
	}
	return a.buffer == nil || !a.Close && a.buffer.Buffered() == 0
}

// roundTrip sends the request and reads the answer's header.
func (c *connection) roundTrip(ctx context.Context, req *http.Request, maxHeader int) (*answer, error) {
	if c.h2 != nil {
		return c.roundTrip2(ctx, req)
	}
	r := c.reader
	_, err := c.Write(c.requestBytes(req))
	if err == nil {
		_, err = r.Peek(1)
	}
	if err != nil {
		return nil, &kindError{Silent, err}
	}
	for budget := maxHeader; ; {
		head, err := readHeader(r, budget)
		if err != nil {
			return nil, err
		}
		if 100 <= head.status && head.status < 200 && head.status != http.StatusSwitchingProtocols {
			if budget -= head.size() + 1; budget <= 0 {
				return nil, errLongHeader
			}
			continue // an interim answer
		}
		whole := io.MultiReader(bytes.NewReader(head.bytes()), r)
		buffer := bufio.NewReaderSize(whole, 1<<10)
		resp, err := http.ReadResponse(buffer, req)
		if err != nil {
			return nil, err
		}
		return &answer{resp, head, buffer}, nil
	}
}

// roundTrip2 is roundTrip for HTTP/2, whose client does not keep the order of headers. They are
// stored sorted.
func (c *connection) roundTrip2(ctx context.Context, req *http.Request) (*answer, error) {
	resp, err := c.h2.RoundTrip(req.WithContext(ctx))
	if err != nil && c.h2.Err() != nil {
		err = &kindError{Silent, err}
	}
	if err != nil {
		return nil, err
	}
	head := header{proto: "HTTP/1.1", status: resp.StatusCode, reason: http.StatusText(resp.StatusCode)}
	for name, values := range resp.Header {
		for _, v := range values {
			head.fields = append(head.fields, field{name, v})
		}
	}
	slices.SortStableFunc(head.fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	head.fields = append(head.fields, field{"X-Crawler-Protocol", resp.Proto})
	return &answer{resp, head, nil}, nil
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

// readHeader reads a status line and fields up to the blank line.
func readHeader(r *bufio.Reader, limit int) (header, error) {
	var h header
	line, err := readLine(r, &limit)
	if err != nil {
		return h, err
	}
	proto, rest, _ := strings.Cut(line, " ")
	proto = strings.ToUpper(proto)
	code, reason, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	h.status, err = strconv.Atoi(code)
	if err != nil || len(code) != 3 || h.status < 100 || !strings.HasPrefix(proto, "HTTP/1.") {
		return h, fmt.Errorf("%.80q is no HTTP/1 status line", line)
	}
	h.proto, h.reason = "HTTP/1.1", printable(reason)
	if proto == "HTTP/1.0" {
		h.proto = proto
	}
	for {
		line, err := readLine(r, &limit)
		switch {
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

// storedHeader returns the header with which an answer is stored: see coding.StoredFields.
func storedHeader(ans *answer, decoded bool, size int64) []byte {
	h := ans.head
	given := func(yield func(name, value string) bool) {
		for _, f := range h.fields {
			if !yield(f.name, f.value) {
				return
			}
		}
	}
	fields := make([]field, 0, len(h.fields)+1)
	for name, value := range coding.StoredFields(given, h.status, decoded, size) {
		fields = append(fields, field{name, value})
	}
	h.fields = fields
	return h.bytes()
}
