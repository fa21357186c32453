// Package client speaks to a service as its consumers do, over HTTP: it follows the
// change feed and opens files of the tree.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/wire"
	"sheaf/serve/feed"
)

// Client speaks to one service. It may be used by many goroutines at once.
type Client struct {
	URL            *url.URL // of the service; a path is kept, credentials in it are not used
	User, Password string   // of the account; an empty name is nobody's
	HTTP           *http.Client
}

// Error is an answer that is not what was asked for.
type Error struct {
	wire.Problem
	Request string    // method and URL
	Retry   time.Time // when to ask again, where the service says so
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %d %s", e.Request, e.Status, e.Title)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Status gives the status of an error that is an answer; 0 of any other.
func Status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// Selection says of which hosts changes are wanted; see httpd.PathChanges.
type Selection struct {
	SURT    []string `json:"surt,omitempty"`
	Domains []string `json:"domains,omitempty"`
	Hosts   []string `json:"hosts,omitempty"`
}

// Changes asks for up to limit changes behind a cursor, and waits for some where
// there are none, for at most wait, in whole seconds.
func (c *Client) Changes(ctx context.Context, at feed.Cursor, q Selection, limit int, wait time.Duration) (feed.Page, error) {
	query := url.Values{"surt": q.SURT, "domain": q.Domains, "host": q.Hosts}
	query.Set("since", strconv.FormatInt(at.Since, 10))
	if at.Mark != "" {
		query.Set("mark", at.Mark)
	}
	query.Set("limit", strconv.Itoa(limit))
	if wait > 0 {
		query.Set("wait", strconv.FormatInt(int64(wait/time.Second), 10))
	}
	var page feed.Page
	resp, err := c.get(ctx, "/v1/changes", query, nil)
	if err != nil {
		return page, err
	}
	defer resp.Body.Close()
	return page, decode(resp, &page)
}

// File is an open file of the tree, from some byte on. Body must be closed.
type File struct {
	Body io.ReadCloser
	From int64 // first byte of Body
	Size int64 // of the whole file; -1 where the service does not say
	ETag string
}

// Open opens a file of the tree from a byte on where it still has the ETag, and
// else from its beginning. An empty ETag asks for the whole file.
func (c *Client) Open(ctx context.Context, name string, from int64, etag string) (*File, error) {
	header := http.Header{"Accept-Encoding": {"identity"}} // the bytes as they are, of which the service has told the size
	if from > 0 && etag != "" {
		header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		header.Set("If-Range", etag)
	}
	resp, err := c.get(ctx, path.Join("/pub", name), nil, header)
	if err != nil {
		return nil, err
	}
	f := &File{Body: resp.Body, Size: resp.ContentLength, ETag: resp.Header.Get("ETag")}
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

// Do sends in, where it is not nil, as JSON and reads the answer into out, where that is not nil.
func (c *Client) Do(ctx context.Context, method, name string, in, out any) error {
	var body io.Reader
	header := make(http.Header)
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
		header.Set("Content-Type", "application/json")
	}
	resp, err := c.request(ctx, method, name, nil, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	return decode(resp, out)
}

func (c *Client) get(ctx context.Context, name string, query url.Values, header http.Header) (*http.Response, error) {
	return c.request(ctx, http.MethodGet, name, query, header, nil)
}

func (c *Client) request(ctx context.Context, method, name string, query url.Values, header http.Header, body io.Reader) (*http.Response, error) {
	to := *c.URL
	to.User, to.Path, to.RawPath, to.RawQuery = nil, strings.TrimSuffix(to.Path, "/")+name, "", query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, to.String(), body)
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("User-Agent", "sheaf")
	if c.User != "" {
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

// maxRedirects is how often a request is sent on.
const maxRedirects = 10

// follow says how a redirect is followed: the account's password goes to the service
// alone, which is a scheme, a host and a port, and nothing is sent elsewhere but questions.
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
