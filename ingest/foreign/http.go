package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sheaf/archive"
	"sheaf/internal/media"
	"sheaf/internal/stream"
)

// response is an HTTP response as a segment stores it: without transfer and content codings, and
// with a header that describes the decoded body.
type response struct {
	status    int
	head      []byte
	came      []byte                     // the header as received
	fields    httpHead                   // the fields of came
	size      int64                      // bytes of the decoded body, at most parseResponse's limit
	decoded   bool                       // the body had a coding other than chunked
	truncated string                     // why the body is incomplete, in the words of archive.Record; empty: it is complete
	damaged   bool                       // a part of the body cannot be decoded
	body      func() (io.Reader, func()) // opens the decoded body
}

// parseResponse reads the block of a response record. It fails with errOther if the block is no
// HTTP/1 response. It reads no more than limit bytes of the decoded body.
func parseResponse(ctx context.Context, block *block, limit int64) (*response, error) {
	const maxHead = 256 << 10
	raw, err := io.ReadAll(io.LimitReader(block.from(0), maxHead))
	if err != nil {
		return nil, err
	}
	head, _, ok := cutHead(raw)
	if !ok {
		return nil, fmt.Errorf("%w: no HTTP header that ends within %d bytes", errOther, maxHead)
	}
	h := parseHead(head)
	r := new(response)
	if r.status, h.first, err = statusLine(h.first); err != nil {
		return nil, fmt.Errorf("%w: %w", errOther, err)
	}
	coded := codingsOf(h)
	if coded.chunked {
		if coded.chunked, err = inChunks(ctx, block.from(int64(len(head)))); err != nil {
			return nil, err
		}
	}
	open := func() (*media.Body, func(), bool) { return coded.open(ctx, block.from(int64(len(head)))) }
	removed, err := r.measure(open, limit)
	if err != nil {
		return nil, err
	}
	if h.promises(r.status) > r.size && r.size < limit && r.truncated == "" && !coded.chunked && len(coded.content) == 0 {
		r.truncated = archive.TruncatedDisconnect
	}
	r.decoded = len(coded.content) > 0 || len(coded.transfer) > 0
	r.head = h.stored(r.status, r.size, removed)
	if !coded.chunked && (!removed || !r.decoded) && h.fits(r.size) && h.plain(head) {
		r.head = head
	}
	r.came, r.fields = head, h
	r.body = func() (io.Reader, func()) {
		in, closeIt, _ := open()
		return &beginning{in, r.size}, closeIt
	}
	return r, nil
}

// isFile reports whether the body is a file in the tar: a page, or a part of a page that is too
// long for a mere probe.
func (r *response) isFile() bool {
	const probe = 4 << 10
	switch r.status {
	case http.StatusOK, http.StatusNonAuthoritativeInfo:
		return true
	case http.StatusPartialContent:
		return r.size > probe || !media.IsPartial(r.status, r.fields.get("Content-Range"))
	}
	return false
}

// beginning reads the first left bytes of r. It hides errors behind them.
type beginning struct {
	r    io.Reader
	left int64
}

func (b *beginning) Read(p []byte) (n int, err error) {
	if b.left > 0 {
		n, err = b.r.Read(p[:min(int64(len(p)), b.left)])
	}
	if b.left -= int64(n); b.left == 0 {
		err = io.EOF
	}
	return n, err
}

// maxDecoded limits the bytes of a body that are decoded. It is more than the longest body that is
// kept whole.
const maxDecoded = 1 << 30

// measure reads the body as far as it can be decoded, and sets its size and faults. removed reports
// whether all content codings were removed.
func (r *response) measure(open func() (*media.Body, func(), bool), limit int64) (removed bool, err error) {
	in, closeIt, removed := open()
	defer closeIt()
	r.size, err = io.Copy(io.Discard, io.LimitReader(in, limit))
	var disk *fs.PathError
	switch {
	case err == nil && !in.Damaged():
	case errors.As(err, &disk):
		return false, err
	case errors.Is(err, io.ErrUnexpectedEOF):
		r.truncated = archive.TruncatedDisconnect
	default:
		r.truncated, r.damaged = archive.TruncatedUnspecified, true
	}
	return removed, nil
}

// codings say how the body of a response was sent.
type codings struct {
	chunked           bool
	transfer, content []string // the other transfer codings, and the content codings
}

func codingsOf(h httpHead) codings {
	c := codings{content: h.values("Content-Encoding")}
	for name := range strings.SplitSeq(strings.ToLower(strings.Join(h.values("Transfer-Encoding"), ",")), ",") {
		if name = strings.TrimSpace(name); name == "chunked" {
			c.chunked = true
		} else if name != "" && name != "identity" {
			c.transfer = append(c.transfer, name)
		}
	}
	return c
}

// open decodes a body. removed reports whether all content codings are removed.
func (c codings) open(ctx context.Context, in io.Reader) (_ *media.Body, closeIt func(), removed bool) {
	if c.chunked {
		in = media.NewChunks(in)
	}
	outer := media.Decode(ctx, in, c.transfer)
	inner := media.Decode(ctx, outer, c.content)
	return inner, func() { inner.Close(); outer.Close() }, inner.Removed || len(c.content) == 0
}

// inChunks reports whether a body is in chunks. Many writers remove the chunks but keep the header
// field that announces them.
func inChunks(ctx context.Context, in io.Reader) (bool, error) {
	c := media.NewChunks(in)
	_, err := io.Copy(io.Discard, stream.UntilDone(ctx, c))
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false, err
	}
	return c.Found(), nil
}

// statusLine returns the status in a status line, and the line in the form that a segment allows:
// one space before and after the status, and HTTP in capitals. Servers wrote other forms, and
// browsers accepted them.
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

// httpHead is the header of a response or a request. Folded lines are joined, and lines that are no
// field are left out.
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

// stored returns the header with which the response is stored: see media.StoredFields.
func (h httpHead) stored(status int, size int64, decoded bool) []byte {
	fields := func(yield func(name, value string) bool) {
		for _, f := range h.fields {
			if !yield(f[0], f[1]) {
				return
			}
		}
	}
	b := []byte(h.first + "\r\n")
	for name, value := range media.StoredFields(fields, status, decoded, size) {
		b = fmt.Appendf(b, "%s: %s\r\n", name, value)
	}
	return append(b, "\r\n"...)
}

// promises returns the body's length by the header, or 0 if the header does not say it or there is
// no body.
func (h httpHead) promises(status int) int64 {
	if status == http.StatusNoContent || status == http.StatusNotModified || len(h.values("Transfer-Encoding")) > 0 {
		return 0
	}
	n, _ := strconv.ParseInt(h.get("Content-Length"), 10, 64) // 0 if it is no number
	return n
}

// alone returns the header for a revisit. It removes fields about codings, because the page's body
// is stored without codings.
func (r *response) alone() []byte {
	h := r.fields
	if len(h.values("Transfer-Encoding")) == 0 && len(h.values("Content-Encoding")) == 0 && h.plain(r.came) {
		return r.came
	}
	return h.stored(http.StatusOK, -1, true)
}

// fits reports whether the unchanged header fits an undecoded body of size bytes.
func (h httpHead) fits(size int64) bool {
	for _, length := range h.values("Content-Length") {
		if length != strconv.FormatInt(size, 10) {
			return false
		}
	}
	return len(h.values("Transfer-Encoding")) == 0
}

// plain reports whether a segment can hold the header as received: its first line is as statusLine
// returns it, all other lines are fields, and each ends with CRLF.
func (h httpHead) plain(head []byte) bool {
	text, ok := strings.CutSuffix(string(head), crlf2)
	ok = ok && strings.HasPrefix(text, h.first)
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
