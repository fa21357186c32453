package fetch

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"sheaf/internal/media"
)

// answer is a response whose body is to be read.
type answer struct {
	head    header
	header  http.Header
	body    io.Reader // without chunks
	length  int64     // of body, as the header tells; -1: unknown
	codings []string  // of body, as in Content-Encoding
	close   func()    // ends the exchange

	buffer *bufio.Reader // through which the body comes; nil in HTTP/2
	keeps  bool          // the server keeps the connection after the body's end
}

// whole reports whether the answer was read to its end and the connection can carry another answer.
// After unexpected bytes it cannot.
func (a *answer) whole() bool {
	if c, ok := a.body.(*chunked); ok && !c.Over() {
		return false
	}
	if n, err := io.CopyN(io.Discard, a.body, 4<<10); n > 0 || err != io.EOF {
		return false
	}
	return a.buffer == nil || a.keeps && a.buffer.Buffered() == 0
}

// roundTrip sends the request and reads the answer's header. again says that the connection has
// carried an answer before.
func (c *connection) roundTrip(ctx context.Context, req *http.Request, maxHeader int, again bool) (*answer, error) {
	if c.h2 != nil {
		return c.roundTrip2(ctx, req)
	}
	_, err := c.Write(c.requestBytes(req))
	if err == nil {
		_, err = c.reader.Peek(1)
	}
	if err != nil {
		return nil, &kindError{Silent, err}
	}
	if !hasHeader(c.reader) && !again {
		return newAnswer(c.reader, header{proto: "HTTP/1.0", said: "HTTP/0.9", status: http.StatusOK, reason: "OK"}), nil
	}
	for budget := maxHeader; ; {
		head, err := readHeader(c.reader, budget)
		if err != nil {
			return nil, &kindError{Protocol, err}
		}
		if 100 <= head.status && head.status < 200 && head.status != http.StatusSwitchingProtocols {
			if head.cut {
				return nil, &kindError{Protocol, io.ErrUnexpectedEOF}
			}
			if budget -= head.size() + 1; budget <= 0 {
				return nil, &kindError{Protocol, errLongHeader}
			}
			continue // an interim answer
		}
		return newAnswer(c.reader, head), nil
	}
}

// hasHeader skips blanks and a byte order mark before a status line. It returns false if the answer
// is text without a status line, which is a page by HTTP/0.9.
func hasHeader(r *bufio.Reader) bool {
	const most = 16 // bytes before a status line
	for n := range most {
		start, err := r.Peek(n + len(bom) + len("HTTP"))
		if len(start) <= n {
			return true // only blanks came: the connection broke off
		}
		rest := strings.TrimPrefix(string(start[n:]), bom)
		switch {
		case beginsHTTP(rest):
			_, _ = r.Discard(len(start) - len(rest)) // it lies in the buffer
			return true
		case err != nil && len(rest) < len("HTTP") && strings.EqualFold(rest, "HTTP"[:len(rest)]):
			return true // it broke off within the first word
		}
		if !strings.ContainsRune(" \t\r\n", rune(start[n])) {
			break
		}
	}
	came, _ := r.Peek(r.Buffered())
	return slices.ContainsFunc(came, func(c byte) bool { return c < '\t' || '\r' < c && c < ' ' && c != 0x1b })
}

// newAnswer returns the answer with this header. Its body will be read from r.
func newAnswer(r *bufio.Reader, head header) *answer {
	a := &answer{head: head, header: make(http.Header, len(head.fields)), buffer: r, length: -1, close: func() {}}
	for _, f := range head.fields {
		a.header.Add(f.name, f.value)
	}
	least, most, sure := head.lengths()
	codings, inChunks := head.transfer()
	a.codings = append(head.values("Content-Encoding"), codings...) // curl, too, takes off both
	a.keeps = sure && head.said == "" && !head.says("Connection", "close") &&
		(head.proto == "HTTP/1.1" || head.says("Connection", "keep-alive"))
	switch {
	case head.cut:
		a.body, a.keeps = media.Failing{Err: io.ErrUnexpectedEOF}, false
	case head.status == http.StatusNoContent || head.status == http.StatusNotModified:
		a.body = http.NoBody
	case inChunks:
		a.body = &chunked{media.NewChunks(r), r}
	case least >= 0:
		a.body, a.length = &exact{r, most, most - least}, most
	default:
		a.body, a.keeps = r, false
	}
	return a
}

// roundTrip2 is roundTrip for HTTP/2. Its client does not keep the order of headers, so they are
// stored sorted.
func (c *connection) roundTrip2(ctx context.Context, req *http.Request) (*answer, error) {
	resp, err := c.h2.RoundTrip(req.WithContext(ctx))
	switch {
	case err != nil && c.h2.Err() != nil:
		return nil, &kindError{Silent, err}
	case err != nil:
		return nil, &kindError{Protocol, err}
	}
	head := header{proto: "HTTP/1.1", said: resp.Proto, status: resp.StatusCode, reason: http.StatusText(resp.StatusCode)}
	for name, values := range resp.Header {
		for _, v := range values {
			head.fields = append(head.fields, field{name, v})
		}
	}
	slices.SortStableFunc(head.fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return &answer{
		head: head, header: resp.Header, body: resp.Body, length: resp.ContentLength,
		codings: resp.Header.Values("Content-Encoding"), close: func() { resp.Body.Close() },
	}, nil
}

// exact reads a body whose length is known.
type exact struct {
	in    io.Reader
	left  int64
	spare int64 // how many bytes of left may be missing
}

func (e *exact) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.in.Read(p[:min(int64(len(p)), e.left)])
	if e.left -= int64(n); err == io.EOF && e.left > e.spare {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
