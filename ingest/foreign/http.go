package foreign

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http/httputil"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sheaf/internal/coding"
)

// response is an HTTP response as a segment stores it: without transfer and content codings, and
// with a header that fits such a body.
type response struct {
	status  int
	head    []byte
	exact   bool                       // the head is the one that came
	size    int64                      // of the body, or parseResponse's limit if the body is longer
	decoded bool                       // the body had a content coding
	body    func() (io.Reader, func()) // opens the decoded body
}

// parseResponse reads the block of a response record. It fails if that is no response of HTTP/1. It
// reads no more than limit bytes of the decoded body.
func parseResponse(block *block, limit int64) (*response, error) {
	const maxHead = 256 << 10
	raw, err := io.ReadAll(io.LimitReader(block.from(0), maxHead))
	if err != nil {
		return nil, err
	}
	head, _, ok := cutHead(raw)
	if !ok {
		return nil, fmt.Errorf("no HTTP header that ends within %d bytes", maxHead)
	}
	h := parseHead(head)
	r := new(response)
	if r.status, h.first, err = statusLine(h.first); err != nil {
		return nil, err
	}
	body := int64(len(head))
	chunked := strings.EqualFold(h.get("Transfer-Encoding"), "chunked") && dechunks(block, body)
	codings := h.values("Content-Encoding")
	coded := len(codings) > 0
	open := func(decode bool) (io.Reader, func(), bool, error) {
		in := block.from(body)
		if chunked {
			in = httputil.NewChunkedReader(in)
		}
		if !decode {
			return in, func() {}, false, nil
		}
		d, err := coding.Decode(in, codings)
		if err != nil {
			return nil, nil, false, err
		}
		return d, d.Close, d.Removed, nil
	}
	size, removed, err := measure(open, coded, limit)
	if err != nil { // not in the coding that it declares: kept as it came
		coded = false
		if size, removed, err = measure(open, false, maxDecoded); err != nil {
			return nil, err
		}
	}
	r.size, r.decoded = size, coded
	r.head = h.stored(r.status, size, removed || !coded && len(codings) == 0)
	if !chunked && !removed && h.fits(size) && plainHead(head) && bytes.HasPrefix(head, []byte(h.first)) {
		r.head = head
	}
	r.exact = bytes.Equal(r.head, head)
	r.body = func() (io.Reader, func()) {
		in, closeIt, _, err := open(coded)
		if err != nil { // cannot be: it was opened before
			return errorReader{err}, func() {}
		}
		return in, closeIt
	}
	return r, nil
}

// statusLine returns the status in a status line, and the line as a segment can have it: with one
// space before and behind the status, and HTTP in capitals. Servers wrote others, and browsers took
// them.
func statusLine(line string) (status int, plain string, err error) {
	proto, rest, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
	rest = strings.TrimLeft(rest, " ")
	const digits = 3
	code := rest[:min(digits, len(rest))]
	status, err = strconv.Atoi(code)
	proto = strings.ToUpper(proto)
	if err != nil || !strings.HasPrefix(proto, "HTTP/") || status < 100 || len(rest) > digits && '0' <= rest[digits] && rest[digits] <= '9' {
		return 0, "", fmt.Errorf("status line %.80q", line)
	}
	return status, strings.TrimRight(proto+" "+code+" "+strings.TrimLeft(rest[digits:], " "), " "), nil
}

// maxDecoded is more than the longest body that is kept whole.
const maxDecoded = 1 << 30

func measure(open func(bool) (io.Reader, func(), bool, error), decode bool, limit int64) (size int64, removed bool, err error) {
	in, closeIt, removed, err := open(decode)
	if err != nil {
		return 0, false, err
	}
	defer closeIt()
	size, err = io.Copy(io.Discard, io.LimitReader(in, limit))
	return size, removed, err
}

// dechunks reports whether the body is in chunks to its end. Many writers keep the header field
// that says so, but not the chunks.
func dechunks(b *block, at int64) bool {
	in := bufio.NewReader(b.from(at))
	_, err := io.Copy(io.Discard, httputil.NewChunkedReader(in))
	return err == nil
}

// httpHead is the header of a response or a request, with folded lines joined and without lines
// that are no field.
type httpHead struct {
	first  string
	fields [][2]string // names and values
}

func parseHead(head []byte) httpHead {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(string(head), "\r\n", "\n"), "\n"), "\n")
	h := httpHead{first: strings.TrimSpace(lines[0])}
	for _, line := range lines[1:] {
		h.add(line)
	}
	return h
}

func (h *httpHead) add(line string) {
	if line != "" && isSpace(line[0]) {
		if n := len(h.fields); n > 0 {
			h.fields[n-1][1] += " " + strings.TrimSpace(line)
		}
		return
	}
	name, value, ok := strings.Cut(line, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if ok && httpguts.ValidHeaderFieldName(name) && !strings.ContainsAny(value, "\r\x00") {
		h.fields = append(h.fields, [2]string{name, value})
	}
}

func (h httpHead) values(name string) (values []string) {
	for _, f := range h.fields {
		if strings.EqualFold(f[0], name) {
			values = append(values, f[1])
		}
	}
	return values
}

func (h httpHead) get(name string) string {
	if v := h.values(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

// stored returns the header with which the response is stored: see coding.StoredFields.
func (h httpHead) stored(status int, size int64, decoded bool) []byte {
	fields := func(yield func(name, value string) bool) {
		for _, f := range h.fields {
			if !yield(f[0], f[1]) {
				return
			}
		}
	}
	b := []byte(h.first + "\r\n")
	for name, value := range coding.StoredFields(fields, status, decoded, size) {
		b = fmt.Appendf(b, "%s: %s\r\n", name, value)
	}
	return append(b, "\r\n"...)
}

// fits reports whether the header, as it is, fits a body of size bytes that is stored as it came.
func (h httpHead) fits(size int64) bool {
	for _, length := range h.values("Content-Length") {
		if length != strconv.FormatInt(size, 10) {
			return false
		}
	}
	return len(h.values("Transfer-Encoding")) == 0
}

// plainHead reports whether a segment can hold the header as it is: all lines after the first are
// fields, and end with CRLF.
func plainHead(head []byte) bool {
	text, ok := strings.CutSuffix(string(head), crlf2)
	_, fields, more := strings.Cut(text, "\r\n")
	if !ok || strings.ContainsAny(strings.ReplaceAll(text, "\r\n", ""), "\r\n\x00") {
		return false
	}
	for line := range strings.SplitSeq(fields, "\r\n") {
		if name, _, ok := strings.Cut(line, ":"); more && (!ok || !httpguts.ValidHeaderFieldName(name)) {
			return false
		}
	}
	return true
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }
