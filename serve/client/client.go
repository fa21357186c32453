// Package client is an HTTP client for consumers of a service: it follows the change feed and opens
// files of the tree.
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

// Client talks to one service. It may be used concurrently.
type Client struct {
	URL            *url.URL // of the service; may have a path; credentials in it are ignored
	User, Password string   // of the account; without a user, requests are anonymous
	HTTP           *http.Client
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
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// Selection limits changes to some hosts; see httpd.PathChanges.
type Selection struct {
	SURT    []string `json:"surt,omitempty"`
	Domains []string `json:"domains,omitempty"`
	Hosts   []string `json:"hosts,omitempty"`
}

// Changes returns up to limit changes after a cursor. If there are none, it waits for some, at most
// for wait, which must be whole seconds.
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

// File is an open file of the tree, from some byte on. The caller must close Body.
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

// Do sends in as JSON, if not nil, and decodes the answer into out, if not nil.
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

// maxRedirects is the limit for successive redirects.
const maxRedirects = 10

// follow decides about a redirect. The account's password is only sent to the service itself, which
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
