package batch

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/wire"
)

// HTTP sends batches over HTTP. It is a Target and a ReceiptSource. Its client needs a time-out
// for answers (Transport.ResponseHeaderTimeout), since a half-open connection never reports an
// error.
type HTTP struct {
	Base          string // of the service, such as https://sheaf.example.jp
	Robot, Secret string
	Key           wire.Verifier // of receipts
	Client        *http.Client

	Moved func(at int64, first bool) // receives the progress of a batch; may be nil: see Uploader.Moved
}

// Name returns the service's URL.
func (s *HTTP) Name() string { return s.Base }

// Send uploads the batch with tus 1.0, from the offset that the service names, and then puts the
// manifest.
func (s *HTTP) Send(ctx context.Context, b Spooled) error {
	note := b.Path + ".upload" // has the location of the upload at each target
	location, offset, err := s.resume(ctx, note, b)
	if _, ok := errors.AsType[*url.Error](err); ok && ctx.Err() == nil {
		return &DownError{err} // no byte of the batch was sent, so the batch is not to blame
	}
	if err != nil {
		return err
	}
	if offset < b.Size {
		if err := s.patch(ctx, location, b, offset); err != nil {
			return err
		}
	}
	if err := s.putManifest(ctx, b); err != nil {
		return err
	}
	return os.RemoveAll(note) // it may be gone already
}

// resume returns the location and offset of an upload that was begun, or begins an upload.
func (s *HTTP) resume(ctx context.Context, note string, b Spooled) (location string, offset int64, err error) {
	known, err := os.ReadFile(note)
	if err != nil && !os.IsNotExist(err) {
		return "", 0, err
	}
	// Another target's upload cannot be used here, and that target may be down for long.
	others, location := s.noted(string(known))
	if location != "" {
		offset, err = s.offset(ctx, location)
		if err == nil && offset <= b.Size {
			return location, offset, nil
		}
		if err != nil && !errors.Is(err, ErrUnknown) {
			return "", 0, err
		}
	}
	if location, err = s.begin(ctx, b); err != nil {
		return "", 0, err
	}
	return location, 0, os.WriteFile(note, []byte(others+s.Base+" "+location+"\n"), 0o644)
}

// noted splits a note into other targets' lines and this target's location. Each line of a note has
// a target and a location.
func (s *HTTP) noted(text string) (others, location string) {
	for line := range strings.Lines(text) {
		if at, ok := strings.CutPrefix(line, s.Base+" "); ok {
			location = strings.TrimSpace(at)
		} else {
			others += line
		}
	}
	return others, location
}

func (s *HTTP) begin(ctx context.Context, b Spooled) (string, error) {
	req, err := s.request(ctx, http.MethodPost, s.Base+wire.PathUploads, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Upload-Length", strconv.FormatInt(b.Size, 10))
	req.Header.Set("Upload-Metadata", "batch "+base64.StdEncoding.EncodeToString([]byte(b.ID)))
	resp, err := s.do(req, http.StatusCreated)
	if err != nil {
		return "", err
	}
	defer drop(resp)
	base, err := url.Parse(s.Base + wire.PathUploads)
	if err != nil {
		return "", err
	}
	location, err := base.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return "", fmt.Errorf("POST %s: answer without a usable Location %q", req.URL, resp.Header.Get("Location"))
	}
	return location.String(), nil
}

func (s *HTTP) offset(ctx context.Context, location string) (int64, error) {
	req, err := s.request(ctx, http.MethodHead, location, nil)
	if err != nil {
		return 0, err
	}
	resp, err := s.do(req, http.StatusOK, http.StatusNoContent)
	if err != nil {
		return 0, err
	}
	defer drop(resp)
	return uploadOffset(resp)
}

func uploadOffset(resp *http.Response) (int64, error) {
	n, err := strconv.ParseInt(resp.Header.Get("Upload-Offset"), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s %s: answer with Upload-Offset %q", resp.Request.Method, resp.Request.URL, resp.Header.Get("Upload-Offset"))
	}
	return n, nil
}

func (s *HTTP) patch(ctx context.Context, location string, b Spooled, offset int64) error {
	f, err := os.Open(b.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	body := moving(io.NewSectionReader(f, offset, b.Size-offset), offset, s.Moved)
	req, err := s.request(ctx, http.MethodPatch, location, body)
	if err != nil {
		return err
	}
	req.ContentLength = b.Size - offset
	req.Header.Set("Content-Type", "application/offset+octet-stream")
	req.Header.Set("Upload-Offset", strconv.FormatInt(offset, 10))
	req.Header.Set("Expect", "100-continue") // so that a service that refuses the bytes does so before they are sent
	resp, err := s.do(req, http.StatusNoContent)
	if err != nil {
		return err
	}
	defer drop(resp)
	got, err := uploadOffset(resp)
	if err != nil {
		return err
	}
	if got != b.Size {
		return fmt.Errorf("PATCH %s: the service has %d of %d bytes", location, got, b.Size)
	}
	return nil
}

func (s *HTTP) putManifest(ctx context.Context, b Spooled) error {
	req, err := s.request(ctx, http.MethodPut, s.Base+batchPath(wire.PathManifest, b.ID), bytes.NewReader(b.Signed))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.do(req, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent)
	if err != nil {
		return err
	}
	drop(resp)
	return nil
}

// Receipt fetches the receipt of a batch and checks its signature and batch ID.
func (s *HTTP) Receipt(ctx context.Context, id wire.BatchID, sha256 string) (*wire.Receipt, error) {
	req, err := s.request(ctx, http.MethodGet, s.Base+batchPath(wire.PathReceipt, id)+"?sha256="+url.QueryEscape(sha256), nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.do(req, http.StatusOK)
	if err != nil {
		return nil, err
	}
	defer drop(resp)
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	return openReceipt(ctx, data, s.Key, id)
}

func openReceipt(ctx context.Context, data []byte, by wire.Verifier, id wire.BatchID) (receipt *wire.Receipt, err error) {
	err = by.Verify(ctx, func(keys ...ed25519.PublicKey) (err error) {
		receipt, err = wire.OpenReceipt(data, keys...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("receipt of %s: %w", id, err)
	}
	if receipt.Batch != id {
		return nil, fmt.Errorf("receipt of %s: it is for %s", id, receipt.Batch)
	}
	return receipt, nil
}

func batchPath(pattern string, id wire.BatchID) string {
	return strings.Replace(pattern, "{batch}", url.PathEscape(string(id)), 1)
}

func (s *HTTP) request(ctx context.Context, method, url string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(s.Robot, s.Secret)
	req.Header.Set("Tus-Resumable", "1.0.0")
	return req, nil
}

// do sends the request. Any status that is not in want is an error.
func (s *HTTP) do(req *http.Request, want ...int) (*http.Response, error) {
	resp, err := s.Client.Do(req)
	if err != nil {
		return nil, err
	}
	if slices.Contains(want, resp.StatusCode) {
		return resp, nil
	}
	defer drop(resp)
	return nil, answered(resp)
}

// answered returns the error for an unwanted answer.
func answered(resp *http.Response) error {
	said := problem(resp)
	err := fmt.Errorf("%s %s: %s%s", resp.Request.Method, resp.Request.URL, resp.Status, strings.TrimRight(": "+said.Title+": "+said.Detail, ": "))
	if after := wire.RetryAfter(resp.Header, time.Now()); after > 0 {
		err = &LaterError{After: after, Err: err}
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case http.StatusUnauthorized, http.StatusProxyAuthRequired, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &DownError{err}
	}
	if reason, ok := refusal(said.Reason); ok {
		return &RefusedError{reason, err}
	}
	return err
}

// problem returns the description in an error's body, or an empty one.
func problem(resp *http.Response) (p wire.Problem) {
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || json.Unmarshal(data, &p) != nil {
		return wire.Problem{}
	}
	return p
}

// drop reads the rest of a short body, so that the connection can be reused.
func drop(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	resp.Body.Close()
}
