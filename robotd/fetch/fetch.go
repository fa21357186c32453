package fetch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"sheaf/archive"
	"sheaf/archive/deflate"
	"sheaf/internal/media"
	"sheaf/internal/page"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// Options are the settings of a Fetcher. The zero value of each field means its default.
type Options struct {
	UserAgent      string            // names the robot and a contact; required
	Resolver       *net.Resolver     // nil: that of the system
	Overrides      map[string]string // host name → "ip" or "ip:port", or several with blanks between, asked before DNS
	Proxy          *url.URL          // http, https or socks5; nil: none
	AllowPrivate   bool              // allows private, loopback and link-local addresses
	AnyCertificate bool              // accepts certificates that do not verify: see Response.Certificate
	RootCAs        *x509.CertPool    // nil: those of the system
	MaxBody        int64             // decoded bytes kept of a body; default wire.PageBytes
	MaxHeader      int               // bytes of a header block; default 300 KiB, which curl takes
	MaxRatio       int64             // decoded bytes per byte received, beyond the first MiB; default wire.MaxRatio
	MinRate        int64             // bytes per second over each RateWindow; default 10
	RateWindow     time.Duration     // default one minute
	Timeout        time.Duration     // of one fetch, from look-up to last byte; default 10 minutes
	Connect        time.Duration     // to connect to an address; default half a minute
	TempDir        string            // for bodies over 256 KiB; default os.TempDir()
	Limit          *rate.Limiter     // bytes per second over all fetches; nil: no limit

	// Sign adds the fields of a signature to the header of a request to a host; nil: requests are
	// not signed.
	Sign func(h http.Header, scheme, host string)

	// Dial connects to an address that was checked before; nil: by the system.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Fetcher fetches pages. It may be used concurrently.
type Fetcher struct {
	opt     Options
	memory  *atomic.Int64 // bytes of bodies in memory
	buffers buffers       // for these bodies
	copying sync.Pool     // of *[]byte, for bodies on their way to their spools
	readers sync.Pool     // of *bufio.Reader, for connections
	inflate sync.Pool     // of *deflate.Inflater
}

// New returns a Fetcher. Settings that are zero get their defaults.
func New(opt Options) *Fetcher {
	if opt.Resolver == nil {
		opt.Resolver = net.DefaultResolver
	}
	opt.MaxBody = cmp.Or(opt.MaxBody, wire.PageBytes)
	opt.MaxHeader = cmp.Or(opt.MaxHeader, 300<<10)
	opt.MaxRatio = cmp.Or(opt.MaxRatio, wire.MaxRatio)
	opt.MinRate = cmp.Or(opt.MinRate, 10)
	opt.RateWindow = cmp.Or(opt.RateWindow, time.Minute)
	opt.Timeout = cmp.Or(opt.Timeout, 10*time.Minute)
	opt.Connect = cmp.Or(opt.Connect, 30*time.Second)
	f := &Fetcher{opt: opt, memory: new(atomic.Int64)}
	f.copying.New = func() any {
		b := make([]byte, 16<<10)
		return &b
	}
	f.inflate.New = func() any { return deflate.NewInflater() }
	f.readers.New = func() any { return bufio.NewReaderSize(nil, 4<<10) }
	return f
}

// Request asks for one page.
type Request struct {
	URL          string         // http or https, absolute
	ETag         string         // sent as If-None-Match
	LastModified string         // sent as If-Modified-Since
	Header       http.Header    // further headers, such as Referer
	Post         []byte         // body of a POST; nil: GET. Its type goes into Header
	Addr         netip.AddrPort // where to connect, from Resolve; zero: Get resolves the host
	MaxBody      int64          // bytes kept of the body, if less than Options.MaxBody
	Progress     func()         `json:"-"` // called when bytes have passed; may be nil

	// Text is how many bytes of the page's text are wanted, if the page is searched where it is
	// fetched; 0: it need not be searched. A Fetcher does not search.
	Text int

	// Allowed is asked just before the connection is made, and again just before the request is
	// sent. If it returns false, the error's kind is Over. May be nil.
	Allowed func() bool `json:"-"`
}

// Response is a server's answer, with its body in memory or in a temporary file. It must be closed.
type Response struct {
	Status    int
	HTTP      []byte      // status line and headers to be stored; ends with CRLFCRLF
	Header    http.Header // as received
	Size      int64       // bytes of the decoded body that were kept
	Digest    string      // of the body: "sha256:" and base32
	Truncated string      // why the body is not complete: one of archive's Truncated constants; empty: it is
	Garbled   bool        // the body was not in a declared coding, and is as it came, or its checksum is wrong
	// Certificate is one of the Cert constants; empty: the certificate is valid, or none was
	// needed.
	Certificate string
	IP          netip.Addr // address of the server; zero if an HTTP proxy chose it
	Start       time.Time
	Took        time.Duration
	Wait        time.Duration // from the connection to the header

	RequestBytes  int64 // on the wire, including TLS and headers
	ResponseBytes int64

	Found *page.Page // what Search finds, if it was searched where it was fetched; nil: it was not

	body   *spool
	packed *spool // the deflated body; nil: the body was fetched here
}

// Body opens the decoded body at its start. It may be called several times before Close.
func (r *Response) Body() io.ReadSeekCloser { return r.body.open() }

// Bytes returns the first n bytes of the body, or all if it is shorter. They belong to the
// response: they are valid until Close and must not be changed.
func (r *Response) Bytes(n int64) ([]byte, error) {
	if r.body.file == nil {
		return r.body.mem[:min(n, r.Size)], nil
	}
	b := make([]byte, min(n, r.Size))
	_, err := io.ReadFull(r.Body(), b)
	return b, err
}

// BrokeOff reports whether the body ended early for another reason than a size limit of this side.
func (r *Response) BrokeOff() bool {
	return r.Truncated != "" && r.Truncated != archive.TruncatedLength
}

// Whole returns the first n bytes of a body that decides something, such as a robots.txt. A body
// that broke off, or was not in its coding, is an error: nothing follows from it.
func (r *Response) Whole(n int64) ([]byte, error) {
	if r.BrokeOff() {
		return nil, fmt.Errorf("the answer is not whole (%s)", r.Truncated)
	}
	if r.Garbled {
		return nil, errors.New("the answer is not in the coding that it declares, or its checksum is wrong")
	}
	return r.Bytes(n)
}

// Search finds what a page says and links to. body must be the result of Bytes for page.MaxBytes +
// 1, and url the page's URL. text is how many bytes of its text are wanted.
func (r *Response) Search(body []byte, url string, text int) (*page.Page, error) {
	contentType := media.ContentType(r.Header)
	switch {
	case r.Found != nil:
		return r.Found, nil
	case len(body) > page.MaxBytes && page.Streams(body, contentType):
		all := r.Body()
		defer all.Close()
		return page.Stream(all, contentType, url)
	}
	return page.LinksAndText(body, contentType, url, text)
}

// IsPage reports whether the status says that the body is the page.
func (r *Response) IsPage() bool {
	return r.Status == http.StatusOK || r.Status == http.StatusNonAuthoritativeInfo
}

// Close gives back the body's memory, and removes its temporary files.
func (r *Response) Close() error {
	err := r.body.close()
	if r.packed != nil {
		err = errors.Join(err, r.packed.close())
	}
	return err
}

// Get fetches one page over its own connection. If the body broke off, Response.Truncated is set.
// Every error is an *Error.
func (f *Fetcher) Get(ctx context.Context, req Request) (*Response, error) {
	return f.timed(ctx, req, nil)
}

func (f *Fetcher) timed(ctx context.Context, req Request, run *Run) (*Response, error) {
	start := time.Now()
	limited, cancel := context.WithTimeout(ctx, f.opt.Timeout)
	defer cancel()
	resp, err := f.get(limited, req, run)
	if err != nil {
		return nil, classify(ctx, limited, req.URL, err)
	}
	resp.Start, resp.Took = start, time.Since(start)
	return resp, nil
}

func (f *Fetcher) get(ctx context.Context, req Request, run *Run) (*Response, error) {
	u, err := weburl.New(req.URL, nil)
	if err != nil {
		return nil, &kindError{Local, err}
	}
	if u.Scheme() != "http" && u.Scheme() != "https" {
		return nil, &kindError{Local, fmt.Errorf("scheme %s is neither http nor https", u.Scheme())}
	}
	if f.opt.UserAgent == "" {
		return nil, &kindError{Local, errors.New("no user agent is set; set one with a contact")}
	}
	forbidden := func() bool { return req.Allowed != nil && !req.Allowed() }
	if forbidden() {
		return nil, errForbidden
	}
	c, used, err := run.connection(ctx, f, u, req)
	if err != nil {
		return nil, err
	}
	if forbidden() {
		f.close(c)
		return nil, errForbidden
	}
	c.wire.begin(ctx, req.Progress)
	stop := context.AfterFunc(ctx, func() { c.wire.Close() })
	resp, whole, err := f.exchange(ctx, c, u, req, used)
	alive := stop()
	if err == nil && alive && whole && run != nil {
		run.keep(c, u)
		return resp, nil
	}
	f.close(c)
	if err != nil && used && c.wire.in.Load() == 0 && ctx.Err() == nil && !errors.Is(err, errTooSlow) {
		return nil, errRunOver // the server hung up before it saw the request
	}
	return resp, err
}

// exchange sends the request and reads the answer. used says that the connection has carried
// another exchange. It reports whether the answer was read to its end, so that another exchange can
// follow on the connection.
func (f *Fetcher) exchange(ctx context.Context, c *connection, u *weburl.URL, req Request, used bool) (*Response, bool, error) {
	asked := time.Now()
	ans, err := c.roundTrip(ctx, f.newRequest(u, req), f.opt.MaxHeader, used)
	if err != nil {
		return nil, false, err
	}
	defer ans.close()
	resp := &Response{Status: ans.head.status, Header: ans.header, Certificate: c.certificate, IP: c.ip, Wait: time.Since(asked)}
	limit := f.opt.MaxBody
	if req.MaxBody > 0 {
		limit = min(limit, req.MaxBody)
	}
	if err := f.readBody(ctx, resp, ans, limit); err != nil {
		return nil, false, err
	}
	resp.RequestBytes, resp.ResponseBytes = c.wire.out.Load(), c.wire.in.Load()
	return resp, c.again && resp.Truncated == "" && ans.whole(), nil
}

// newRequest returns the request. It sends path and query as weburl wrote them: net/url would
// refuse or rewrite some that browsers send.
func (f *Fetcher) newRequest(u *weburl.URL, req Request) *http.Request {
	h := make(http.Header, len(req.Header)+6)
	for name, values := range req.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	h.Set("User-Agent", f.opt.UserAgent)
	f.sign(h, u)
	h.Set("Accept-Encoding", "gzip, br, zstd, deflate")
	if h.Get("Accept") == "" {
		h.Set("Accept", "*/*")
	}
	if req.ETag != "" {
		h.Set("If-None-Match", req.ETag)
	}
	if req.LastModified != "" {
		h.Set("If-Modified-Since", req.LastModified)
	}
	r := &http.Request{
		Method: http.MethodGet,
		URL:    &url.URL{Scheme: u.Scheme(), Host: u.Host(), Opaque: u.PathQuery()},
		Host:   u.Host(),
		Header: h,
	}
	if req.Post != nil {
		r.Method, r.ContentLength = http.MethodPost, int64(len(req.Post))
		r.Body = io.NopCloser(bytes.NewReader(req.Post))
	}
	return r
}

// signed returns the header of a request with a signature, for a hand, which has no key.
func (f *Fetcher) signed(req *Request) http.Header {
	u, err := weburl.New(req.URL, nil)
	if f.opt.Sign == nil || err != nil {
		return req.Header
	}
	h := make(http.Header, len(req.Header)+3)
	maps.Copy(h, req.Header)
	f.sign(h, u)
	return h
}

// sign signs a request, unless a head has signed it for this hand.
func (f *Fetcher) sign(h http.Header, u *weburl.URL) {
	if f.opt.Sign != nil && h.Get("Signature") == "" {
		f.opt.Sign(h, u.Scheme(), u.Host())
	}
}

// readBody decodes the body into resp and writes its stored header block. A body that breaks off is
// no error; a fault on this side or a cancellation is.
func (f *Fetcher) readBody(ctx context.Context, resp *Response, ans *answer, limit int64) error {
	raw := &countingReader{r: ans.body, left: limit + freeOfRatio}
	expected := min(ans.length, limit)
	if len(ans.codings) > 0 {
		expected = -1
	}
	resp.body = f.newSpool(expected)
	body := media.Decode(ctx, raw, ans.codings)
	defer body.Close()
	var err error
	resp.Truncated, err = f.copyBody(ctx, resp.body, body, raw, limit)
	if err == nil && errors.Is(ctx.Err(), context.Canceled) {
		err = ctx.Err()
	}
	if err != nil {
		return errors.Join(err, resp.body.close())
	}
	chunks, _ := ans.body.(*chunked)
	resp.Garbled = body.Absent() || body.Damaged() || chunks != nil && chunks.Plain()
	resp.Size, resp.Digest = resp.body.size, resp.body.digest()
	resp.HTTP = ans.head.stored(body.Removed, resp.Size)
	return nil
}

// freeOfRatio is how many bytes of a body may be received or decoded before the two are compared.
const freeOfRatio = 1 << 20

// copyBody fills the spool within the limits. It returns why the body is not complete, and an error
// only if the spool fails.
func (f *Fetcher) copyBody(ctx context.Context, out *spool, in io.Reader, raw *countingReader, limit int64) (string, error) {
	pooled := f.copying.Get().(*[]byte)
	defer f.copying.Put(pooled)
	buf := *pooled
	for {
		n, err := in.Read(buf)
		over := out.size+int64(n) > limit
		if over {
			n = int(limit - out.size)
		}
		if _, err := out.Write(buf[:n]); err != nil {
			return "", &kindError{Local, err}
		}
		bomb := out.size > freeOfRatio && out.size > raw.n*f.opt.MaxRatio
		switch {
		case over || bomb || raw.left < 0:
			return archive.TruncatedLength, nil
		case err == io.EOF:
			return "", nil
		case err != nil:
			return reason(ctx, err), nil
		}
	}
}

// reason returns why a body ended early.
func reason(ctx context.Context, err error) string {
	if errors.Is(err, errTooSlow) || ctx.Err() != nil {
		return archive.TruncatedTime
	}
	return archive.TruncatedDisconnect
}

// countingReader counts the bytes of a body as it is received. It ends after a number of bytes,
// since a body may be long and have next to nothing in it, such as compressed members that are
// empty.
type countingReader struct {
	r    io.Reader
	n    int64
	left int64 // negative: there was more, and no more is read
}

func (c *countingReader) Read(p []byte) (int, error) {
	if c.left < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.left -= int64(n)
	return n, err
}
