package records

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/serve/library"
)

// maxHead is the limit for a record's WARC header and for its HTTP header, in bytes. The format has
// the same limit.
const maxHead = 1 << 20

// Header is one line of a stored HTTP header.
type Header struct{ Name, Value string }

// Response is a server's answer, as it is stored.
type Response struct {
	WARC    []Header // of the record that has the answer
	Status  int
	Headers []Header      // in their order, as the server wrote them
	Size    int64         // of Body, in bytes
	Body    io.ReadCloser // without transfer and content codings; incomplete if Capture.Truncated says so
	Gzip    bool          // Body is in gzip: see InGzip
}

// Get returns the first value of a header, or "".
func (r *Response) Get(name string) string {
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// ContentType returns all values of the header, joined by commas as package media takes them.
func (r *Response) ContentType() string {
	var values []string
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, "Content-Type") {
			values = append(values, h.Value)
		}
	}
	return strings.Join(values, ", ")
}

// Check reads the rest of Body. It fails with a *DamageError if the record is damaged.
func (r *Response) Check() error {
	_, err := io.Copy(io.Discard, r.Body)
	return err
}

// Response opens the server's answer. A Revisit has a status and headers of its own, and the body
// of its Original. If its status is 304, the whole answer is the Original's. Response fails with
// library.ErrNotFound if nothing can be shown (see Capture.Stands), and with a *DamageError if the
// stored bytes are not those that were published. The caller closes the body.
//
// A body of up to 1 MiB is checked at once. A longer one is checked before its last bytes are
// returned, so read it to its end before you trust it. If the store has a copy, a short body that
// is damaged comes from the copy. A long one is refused, and the next call reads it from the copy.
func (c *Capture) Response(ctx context.Context) (*Response, error) {
	switch {
	case c.Original != nil:
		return c.answerOf(ctx, (*Capture).Response)
	case c.Kind == archive.Revisit && c.Stands():
		own, _, err := c.Beginning(ctx, 0)
		if err == nil {
			own.Body, own.Size = http.NoBody, 0
		}
		return own, err
	case !c.Kind.HasFile() && c.Kind != archive.Response:
		return nil, fmt.Errorf("answer of a %v: %w", c.Kind, library.ErrNotFound)
	}
	return c.read(ctx, func(from *storedRecord) (*Response, error) { return c.whole(ctx, from) })
}

// answerOf is Response or InGzip for a Revisit that has an Original. open is that method.
func (c *Capture) answerOf(ctx context.Context, open func(*Capture, context.Context) (*Response, error)) (*Response, error) {
	if c.Status == http.StatusNotModified {
		return open(c.Original, ctx)
	}
	own, _, err := c.Beginning(ctx, 0)
	if err != nil {
		return nil, err
	}
	first, err := open(c.Original, ctx)
	if err != nil {
		return nil, err
	}
	own.Body, own.Size, own.Gzip = first.Body, first.Size, first.Gzip
	if media := first.Get("Content-Type"); media != "" && own.Get("Content-Type") == "" {
		own.Headers = append(own.Headers, Header{"Content-Type", media})
	}
	return own, nil
}

// Modified returns the time of the page's last change, as the server said with this answer
// (Last-Modified, RFC 9110, section 8.8.2), or with the Original of a Revisit; zero if it did not
// say so. It reads the beginning of the stored record.
func (c *Capture) Modified(ctx context.Context) (at time.Time, err error) {
	if !c.Kind.HasFile() && c.Kind != archive.Response && c.Kind != archive.Revisit {
		return at, nil
	}
	r, _, err := c.Beginning(ctx, 0)
	if err != nil {
		return at, err
	}
	if at, err := http.ParseTime(r.Get("Last-Modified")); err == nil {
		return at.UTC(), nil
	}
	page, err := c.Resolve(ctx)
	if err != nil || page == nil {
		return at, err
	}
	return page.Modified(ctx)
}

// WARCField returns the values of a field in the record's WARC header, joined by commas; "" if the
// header has no such field. It reads the beginning of the stored record.
func (c *Capture) WARCField(ctx context.Context, name string) (string, error) {
	r, _, err := c.Beginning(ctx, 0)
	if err != nil {
		return "", err
	}
	var values []string
	for _, h := range r.WARC {
		if strings.EqualFold(h.Name, name) {
			values = append(values, h.Value)
		}
	}
	return strings.Join(values, ", "), nil
}

// Beginning returns the record's own status and headers, without Body, and the first bytes of its
// body, at most limit. They are not compared with the index. It fails with a *DamageError if the
// record cannot be decompressed or parsed.
func (c *Capture) Beginning(ctx context.Context, limit int64) (r *Response, body []byte, err error) {
	r, err = c.read(ctx, func(from *storedRecord) (*Response, error) {
		in := unzippers.Get().(*unzipper)
		defer unzippers.Put(in)
		r, err := in.response(from)
		if err == nil {
			r.Body, body = from, make([]byte, min(r.Size, limit))
			_, err = io.ReadFull(in.text, body)
		}
		return r, err
	})
	if err != nil {
		return nil, nil, err
	}
	r.Body.Close()
	r.Body = nil
	return r, body, nil
}

// readResponse reads a decompressed record up to its body.
func readResponse(in *bufio.Reader) (*Response, error) {
	_, warc, _, err := readHead(in)
	if err != nil {
		return nil, fmt.Errorf("WARC header: %w", err)
	}
	r := &Response{Headers: warc}
	block, err := strconv.ParseInt(r.Get("Content-Length"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("WARC header: Content-Length: %w", err)
	}
	status, headers, n, err := readHead(in)
	if err != nil {
		return nil, fmt.Errorf("HTTP header: %w", err)
	}
	_, code, _ := strings.Cut(status, " ")
	code, _, _ = strings.Cut(strings.TrimSpace(code), " ")
	r.Status, _ = strconv.Atoi(code) // 0 if it is no number
	r.WARC, r.Headers, r.Size = warc, headers, block-n
	if r.Size < 0 {
		return nil, fmt.Errorf("HTTP header of %d bytes in a block of %d", n, block)
	}
	return r, nil
}

// readHead reads a first line and headers, up to the empty line behind them. n is their length in
// bytes.
func readHead(in *bufio.Reader) (first string, headers []Header, n int64, err error) {
	headers = make([]Header, 0, 16)
	for {
		line, err := in.ReadString('\n')
		n += int64(len(line))
		switch {
		case errors.Is(err, io.EOF):
			return "", nil, 0, io.ErrUnexpectedEOF
		case err != nil:
			return "", nil, 0, err
		case n > maxHead:
			return "", nil, 0, fmt.Errorf("longer than %d bytes", maxHead)
		}
		text := strings.TrimRight(line, "\r\n")
		switch name, value, ok := strings.Cut(text, ":"); {
		case text == "":
			return first, headers, n, nil
		case n == int64(len(line)):
			first = text
		case (text[0] == ' ' || text[0] == '\t') && len(headers) > 0: // an obsolete folded line
			headers[len(headers)-1].Value += " " + strings.TrimSpace(text)
		case ok:
			headers = append(headers, Header{strings.TrimSpace(name), strings.TrimSpace(value)})
		}
	}
}
