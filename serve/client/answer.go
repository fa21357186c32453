package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/wire"
)

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
