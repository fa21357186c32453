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
	header, _, err := s.ask(ctx, call{method: http.MethodPost, url: s.Base + wire.PathUploads, header: map[string]string{
		"Upload-Length": strconv.FormatInt(b.Size, 10), "Upload-Metadata": "batch " + base64.StdEncoding.EncodeToString([]byte(b.ID)),
	}}, http.StatusCreated)
	if err != nil {
		return "", err
	}
	base, err := url.Parse(s.Base + wire.PathUploads)
	if err != nil {
		return "", err
	}
	location, err := base.Parse(header.Get("Location"))
	if err != nil || header.Get("Location") == "" {
		return "", fmt.Errorf("POST %s: answer without a usable Location %q", base, header.Get("Location"))
	}
	return location.String(), nil
}

func (s *HTTP) offset(ctx context.Context, location string) (int64, error) {
	header, _, err := s.ask(ctx, call{method: http.MethodHead, url: location}, http.StatusOK, http.StatusNoContent)
	if err != nil {
		return 0, err
	}
	return uploadOffset(header, location)
}

func uploadOffset(header http.Header, location string) (int64, error) {
	n, err := strconv.ParseInt(header.Get("Upload-Offset"), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: answer with Upload-Offset %q", location, header.Get("Upload-Offset"))
	}
	return n, nil
}

func (s *HTTP) patch(ctx context.Context, location string, b Spooled, offset int64) error {
	f, err := os.Open(b.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	rest := b.Size - offset
	header, _, err := s.ask(ctx, call{
		method: http.MethodPatch, url: location, body: moving(io.NewSectionReader(f, offset, rest), offset, s.Moved), size: rest,
		header: map[string]string{
			"Content-Type": "application/offset+octet-stream", "Upload-Offset": strconv.FormatInt(offset, 10),
			"Expect": "100-continue", // so that a service that refuses the bytes does so before they are sent
		},
	}, http.StatusNoContent)
	if err != nil {
		return err
	}
	got, err := uploadOffset(header, location)
	if err == nil && got != b.Size {
		err = fmt.Errorf("PATCH %s: the service has %d of %d bytes", location, got, b.Size)
	}
	return err
}

func (s *HTTP) putManifest(ctx context.Context, b Spooled) error {
	_, _, err := s.ask(ctx, call{
		method: http.MethodPut, url: s.Base + batchPath(wire.PathManifest, b.ID), body: bytes.NewReader(b.Signed), size: int64(len(b.Signed)),
		header: map[string]string{"Content-Type": "application/json"},
	}, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent)
	return err
}

// Receipt fetches the receipt of a batch and checks its signature and batch ID.
func (s *HTTP) Receipt(ctx context.Context, id wire.BatchID, sha256 string) (*wire.Receipt, error) {
	_, data, err := s.ask(ctx, call{method: http.MethodGet, url: s.Base + batchPath(wire.PathReceipt, id) + "?sha256=" + url.QueryEscape(sha256)}, http.StatusOK)
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

// call is a request to the service.
type call struct {
	method, url string
	header      map[string]string
	body        io.Reader // nil: none
	size        int64     // of the body, in bytes
}

// ask makes a request, and returns the header and the body of the answer, of which it reads at most
// a MiB. Any status that is not in want is an error.
func (s *HTTP) ask(ctx context.Context, c call, want ...int) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, c.method, c.url, c.body)
	if err != nil {
		return nil, nil, err
	}
	req.ContentLength = c.size
	req.SetBasicAuth(s.Robot, s.Secret)
	req.Header.Set("Tus-Resumable", "1.0.0")
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if !slices.Contains(want, resp.StatusCode) {
		return nil, nil, answered(resp, body)
	}
	return resp.Header, body, err
}

// answered returns the error for an unwanted answer. body is what could be read of its body.
func answered(resp *http.Response, body []byte) error {
	var said wire.Problem
	if json.Unmarshal(body, &said) != nil {
		said = wire.Problem{}
	}
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
