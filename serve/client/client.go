// Package client is an HTTP client of a service, for consumers and operators: it calls paths of the
// API, follows the change feed, and opens files of the tree.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/route"
	"sheaf/internal/wire"
)

// Client talks to one service. It may be used concurrently.
type Client struct {
	URL            *url.URL // of the service; may have a path; credentials in it are ignored
	User, Password string   // of the account; without a user, requests are anonymous
	Token          string   // an operator's; replaces User and Password
	HTTP           *http.Client
}

// Operator returns a client for the operators' paths of the service at an address. A request may
// take a minute; the caller may change HTTP.Timeout.
func Operator(address, token string) (*Client, error) {
	to, err := url.Parse(address)
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("%q is not the address of a service, such as http://127.0.0.1:8080", address)
	}
	return &Client{URL: to, Token: token, HTTP: Within(time.Minute)}, nil
}

// Within returns an HTTP client whose requests may take up to most. It shares the connections of
// http.DefaultClient.
func Within(most time.Duration) *http.Client {
	c := *http.DefaultClient
	c.Timeout = most
	return &c
}

// Error is an answer that reports an error.
type Error struct {
	wire.Problem
	Request string    // method and URL
	Retry   time.Time // when to try again, if the service says so
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %d %s", e.Request, e.Status, e.Title)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Status returns the HTTP status of an Error, or 0 for any other error.
func Status(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// Changes returns up to limit changes after a cursor. If there is no change, it waits for one, for
// at most wait, cut to whole seconds.
func (c *Client) Changes(ctx context.Context, at api.Cursor, q api.Selection, limit int, wait time.Duration) (page api.Page, err error) {
	asked := api.ChangesQuery{Since: at.Since, Mark: at.Mark, Selection: q, Limit: limit, Wait: int(wait / time.Second)}
	err = c.Do(ctx, http.MethodGet, api.PathChanges+"?"+route.Values(asked).Encode(), nil, &page)
	return page, err
}

// File is an open file of the tree, or the rest of one. The caller must close Body.
type File struct {
	Body io.ReadCloser
	From int64 // offset of the first byte of Body
	Size int64 // of the whole file; -1 if unknown
	ETag string
}

// Open opens a file of the tree. If the file still has the given ETag, Body begins at the byte
// from; otherwise, or if etag is empty, at the beginning.
func (c *Client) Open(ctx context.Context, name string, from int64, etag string) (*File, error) {
	header := http.Header{"Accept-Encoding": {"identity"}} // without compression, so that the sizes match
	if from > 0 && etag != "" {
		header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		header.Set("If-Range", etag)
	}
	pub := url.URL{Path: path.Join(api.PathTree, name)}
	resp, err := c.request(ctx, http.MethodGet, pub.EscapedPath(), header, nil)
	if err != nil {
		return nil, err
	}
	f := &File{Body: resp.Body, Size: resp.ContentLength, ETag: resp.Header.Get("ETag")}
	for via := resp.Request.Response; via != nil; via = via.Request.Response { // the object store has ETags of its own
		f.ETag = cmp.Or(via.Header.Get("ETag"), f.ETag)
	}
	if resp.StatusCode == http.StatusPartialContent {
		f.From, f.Size, err = part(resp.Header.Get("Content-Range"), resp.ContentLength)
		if err == nil && f.From != from {
			err = fmt.Errorf("asked for bytes from %d on, was given %q", from, resp.Header.Get("Content-Range"))
		}
		if err != nil {
			resp.Body.Close()
			return nil, fmt.Errorf("%s: %w", resp.Request.URL.Redacted(), err)
		}
	}
	return f, nil
}

// Do sends the value in as JSON, unless it is nil, and decodes the answer into out, unless that is
// nil. ref is an escaped path, and may have a query.
func (c *Client) Do(ctx context.Context, method, ref string, in, out any) error {
	if in == nil {
		return c.Send(ctx, method, ref, "", nil, out)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.Send(ctx, method, ref, "application/json", bytes.NewReader(body), out)
}

// Call sends the request of an operation of the API, and returns its answer. It fails with an
// *Error if the service reports one.
func Call[In, Out any](ctx context.Context, c *Client, op route.Op[In, Out], in In) (out Out, err error) {
	ref, body := op.Call(in)
	var into any = &out
	if op.Status == http.StatusNoContent {
		into = nil
	}
	return out, c.Do(ctx, op.Method, ref, body, into)
}

// Send is Do with a body of any media type.
func (c *Client) Send(ctx context.Context, method, ref, contentType string, body io.Reader, out any) error {
	header := make(http.Header)
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	resp, err := c.request(ctx, method, ref, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	return decode(resp, out)
}

// Get copies the answer to a GET request for ref to w, whatever its media type is.
func (c *Client) Get(ctx context.Context, ref string, w io.Writer) error {
	resp, err := c.request(ctx, http.MethodGet, ref, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(w, resp.Body)
	return err
}

func (c *Client) request(ctx context.Context, method, ref string, header http.Header, body io.Reader) (*http.Response, error) {
	base := *c.URL
	base.User, base.RawQuery, base.Fragment = nil, "", ""
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(base.String(), "/")+ref, body)
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("User-Agent", "sheaf")
	switch {
	case c.Token != "":
		req.Header.Set("Authorization", "Bearer "+c.Token)
	case c.User != "":
		req.SetBasicAuth(c.User, c.Password)
	}
	caller := *c.HTTP
	caller.CheckRedirect = follow
	resp, err := caller.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, problem(resp)
}

// maxRedirects is the limit for successive redirects.
const maxRedirects = 10

// follow decides about a redirect. Password and token are only sent to the service itself, which
// is a scheme, a host and a port. Only GET and HEAD requests are redirected elsewhere.
func follow(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch same := req.URL.Scheme == first.URL.Scheme && req.URL.Host == first.URL.Host; {
	case len(via) >= maxRedirects:
		return fmt.Errorf("redirected %d times", len(via))
	case !same && req.Method != http.MethodGet && req.Method != http.MethodHead:
		return http.ErrUseLastResponse
	case !same:
		req.Header.Del("Authorization")
	}
	return nil
}

// Limits for what is read of an answer, in bytes. A page of changes has a few megabytes.
const (
	maxAnswer  = 64 << 20
	maxProblem = 1 << 20
)

// decode decodes the JSON value of an answer, of at most maxAnswer bytes.
func decode(resp *http.Response, into any) error {
	err := json.NewDecoder(&bounded{resp.Body, maxAnswer}).Decode(into)
	if err != nil {
		err = fmt.Errorf("%s: %w", resp.Request.URL.Redacted(), err)
	}
	return err
}

// bounded is a reader that fails if a service sends more than maxAnswer bytes.
type bounded struct {
	io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("the answer is longer than %d bytes", int64(maxAnswer))
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// problem returns the error for an answer, with its problem document if it has one.
func problem(resp *http.Response) *Error {
	e := &Error{Request: resp.Request.Method + " " + resp.Request.URL.Redacted(), Retry: retryAt(resp.Header.Get("Retry-After"))}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "application/problem+json" {
		if json.NewDecoder(io.LimitReader(resp.Body, maxProblem)).Decode(&e.Problem) != nil {
			e.Problem = wire.Problem{}
		}
	}
	e.Status = resp.StatusCode
	e.Title = cmp.Or(e.Title, http.StatusText(resp.StatusCode))
	return e
}

// retryAt parses a Retry-After header, which is a date or a number of seconds.
func retryAt(text string) time.Time {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return time.Now().Add(time.Duration(min(n, math.MaxInt64/int64(time.Second))) * time.Second)
	}
	at, _ := http.ParseTime(text) // zero if it is neither
	return at
}

// part parses a Content-Range. length is the length of the answer's body, or -1 if unknown. It
// returns the offset of the first byte, and the size of the whole file, or -1 if that is unknown.
func part(text string, length int64) (from, size int64, err error) {
	bad := fmt.Errorf("Content-Range %q does not fit a body of %d bytes", text, length)
	span, whole, ok := strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	first, last, both := strings.Cut(span, "-")
	if !ok || !both || !strings.HasPrefix(text, "bytes ") {
		return 0, 0, bad
	}
	from, err = strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, 0, bad
	}
	to, err := strconv.ParseInt(last, 10, 64)
	if err != nil || from < 0 || to < from || length >= 0 && to-from+1 != length {
		return 0, 0, bad
	}
	if whole == "*" {
		return from, -1, nil
	}
	size, err = strconv.ParseInt(whole, 10, 64)
	if err != nil || size <= to {
		return 0, 0, bad
	}
	return from, size, nil
}
