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

// response is an HTTP answer as a record of ours has it: without transfer and
// content codings, and with a header that fits the body which is left.
type response struct {
	status  int
	head    []byte
	size    int64                      // of the body, at most what was looked at
	decoded bool                       // the body had a content coding
	body    func() (io.Reader, func()) // opens the decoded body
}

// parseResponse reads the block of a response record. It fails where it is no answer of HTTP/1. It
// looks at no more than most bytes of the decoded body.
func parseResponse(block *block, most int64) (*response, error) {
	const mostHead = 256 << 10
	raw, err := io.ReadAll(io.LimitReader(block.from(0), mostHead))
	if err != nil {
		return nil, err
	}
	head, _, ok := cutHead(raw)
	if !ok {
		return nil, fmt.Errorf("no HTTP header that ends within %d bytes", mostHead)
	}
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(string(head), "\r\n", "\n"), "\n"), "\n")
	proto, code, _ := strings.Cut(strings.TrimSpace(lines[0]), " ")
	code, _, _ = strings.Cut(strings.TrimSpace(code), " ")
	r := new(response)
	if r.status, err = strconv.Atoi(code); err != nil || !strings.HasPrefix(proto, "HTTP/") || r.status < 100 || r.status > 999 {
		return nil, fmt.Errorf("status line %.80q", lines[0])
	}
	h := httpHead{first: strings.TrimSpace(lines[0])}
	for _, line := range lines[1:] {
		h.add(line)
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
	size, removed, err := measure(open, coded, most)
	if err != nil { // coded in another way than it says: kept as it came
		coded = false
		if size, removed, err = measure(open, false, maxDecoded); err != nil {
			return nil, err
		}
	}
	r.size, r.decoded = size, coded
	r.head = h.stored(size, removed || !coded && len(codings) == 0)
	r.body = func() (io.Reader, func()) {
		in, closeIt, _, err := open(coded)
		if err != nil { // it has been opened before, from memory or a file of ours
			return errorReader{err}, func() {}
		}
		return in, closeIt
	}
	return r, nil
}

// maxDecoded is more than any body that is kept whole.
const maxDecoded = 1 << 30

func measure(open func(bool) (io.Reader, func(), bool, error), decode bool, most int64) (size int64, removed bool, err error) {
	in, closeIt, removed, err := open(decode)
	if err != nil {
		return 0, false, err
	}
	defer closeIt()
	size, err = io.Copy(io.Discard, io.LimitReader(in, most))
	return size, removed, err
}

// dechunks reports whether the body is in chunks to its end. Many writers keep the header
// that says so and not the chunks.
func dechunks(b *block, at int64) bool {
	in := bufio.NewReader(b.from(at))
	_, err := io.Copy(io.Discard, httputil.NewChunkedReader(in))
	return err == nil
}

// httpHead is a header whose lines were made right: folded ones joined, those that are no field left out.
type httpHead struct {
	first  string
	fields [][2]string
}

func (h *httpHead) add(line string) {
	if line != "" && (line[0] == ' ' || line[0] == '\t') {
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

func (h *httpHead) values(name string) (values []string) {
	for _, f := range h.fields {
		if strings.EqualFold(f[0], name) {
			values = append(values, f[1])
		}
	}
	return values
}

func (h *httpHead) get(name string) string {
	if v := h.values(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

// stored writes the header as the robot does: what spoke of the body's way over the wire is
// renamed, and Content-Length says what is stored.
func (h *httpHead) stored(size int64, decoded bool) []byte {
	var b bytes.Buffer
	b.WriteString(h.first + "\r\n")
	length := strconv.FormatInt(size, 10)
	written := false
	for _, f := range h.fields {
		name, value := f[0], f[1]
		switch {
		case strings.EqualFold(name, "Transfer-Encoding"), strings.EqualFold(name, "Content-Encoding") && decoded:
			name = "X-Crawler-" + name
		case strings.EqualFold(name, "Content-Length"):
			if !written {
				fmt.Fprintf(&b, "%s: %s\r\n", name, length)
				written = true
			}
			if value == length {
				continue
			}
			name = "X-Crawler-" + name
		}
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	if !written {
		fmt.Fprintf(&b, "Content-Length: %s\r\n", length)
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }
