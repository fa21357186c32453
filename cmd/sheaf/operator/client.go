// Package operator speaks to a running service as its operators do: over HTTP,
// with the token that lies in the service's data directory.
package operator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"sheaf/internal/wire"
)

// Client speaks to one service. It may be used by many goroutines at once.
type Client struct {
	URL   string // of the service, without a slash at the end
	Token string // the operators'

	Timeout time.Duration // of one request; a minute if zero
}

// Send puts a file's bytes to a path.
func (c *Client) Send(ctx context.Context, path string, body io.Reader) error {
	return c.do(ctx, http.MethodPut, path, "application/octet-stream", body, nil)
}

// Post sends a body of the given type and reads the answer into out.
func (c *Client) Post(ctx context.Context, path, contentType string, body io.Reader, out any) error {
	return c.do(ctx, http.MethodPost, path, contentType, body, out)
}

// Get writes what a path answers, whatever it is, to w.
func (c *Client) Get(ctx context.Context, path string, w io.Writer) error {
	return c.do(ctx, http.MethodGet, path, "", nil, w)
}

// Do sends in, where it is not nil, as JSON and reads the answer into out, where that is not nil.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	if in == nil {
		return c.do(ctx, method, path, "", nil, out)
	}
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.do(ctx, method, path, "application/json", bytes.NewReader(b), out)
}

func (c *Client) do(ctx context.Context, method, path, contentType string, body io.Reader, out any) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, time.Minute))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	// the service redirects no operator: another who does so must not be handed the token
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("the service does not answer: %w; is `sheaf serve` running there?", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return problemOf(resp)
	}
	if out == nil {
		return nil
	}
	if w, ok := out.(io.Writer); ok {
		_, err := io.Copy(w, resp.Body)
		return err
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

func problemOf(resp *http.Response) error {
	var p wire.Problem
	if typ, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); typ == "application/problem+json" {
		if json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&p) == nil && p.Title != "" {
			return fmt.Errorf("%s: %s", p.Title, p.Detail)
		}
	}
	return fmt.Errorf("%s %s: %s", resp.Request.Method, resp.Request.URL.Path, resp.Status)
}
