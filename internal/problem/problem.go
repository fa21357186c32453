// Package problem answers HTTP requests with errors in the one form that every
// path of the service uses: application/problem+json (RFC 9457), with a title for
// people, a detail that says where and what to do, and a stable reason for programs.
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"sheaf/internal/wire"
)

// Write sends p as the whole answer. A missing status is 500, a missing title
// the status's own; where p.Next says when to come back, Retry-After does too.
func Write(w http.ResponseWriter, p wire.Problem) {
	if p.Status == 0 {
		p.Status = http.StatusInternalServerError
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	h := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "ETag", "Last-Modified"} {
		h.Del(name) // they would describe the answer that is not given
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if next, err := time.Parse(time.RFC3339, p.Next); err == nil && h.Get("Retry-After") == "" {
		h.Set("Retry-After", next.UTC().Format(http.TimeFormat))
	}
	body, err := json.Marshal(p)
	if err != nil { // strings and an int: cannot be
		body = []byte(`{"title":"Internal Server Error","status":500}`)
	}
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}

// Error is a problem as a Go error, for handlers that return one.
type Error wire.Problem

func (e *Error) Error() string {
	if e.Detail != "" {
		return e.Detail
	}
	return e.Title
}

// New makes an Error of a status, a reason code and a detail.
func New(status int, reason, detail string) *Error {
	return &Error{Status: status, Reason: reason, Detail: detail}
}

// Handler runs f and writes the error that it returns: an *Error as it is, any
// other as a bare 500, whose cause goes to the log and not to the client. f must
// not have begun its answer when it returns an error. What fails because the client has hung up
// is nobody's failure, and stands in the log for those who debug only.
func Handler(log *slog.Logger, f func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &sentBody{ReadCloser: r.Body}
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = body
		}
		err := f(w, r)
		if err == nil {
			return
		}
		var e *Error
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &e):
			Write(w, wire.Problem(*e))
		case errors.As(err, &tooLarge):
			Write(w, wire.Problem{Status: http.StatusRequestEntityTooLarge, Reason: "too_large", Detail: tooLarge.Error()})
		case r.Context().Err() != nil && errors.Is(err, context.Canceled), body.broken && errors.Is(err, body.err):
			log.DebugContext(r.Context(), "client has gone", "method", r.Method, "path", r.URL.Path, "err", err)
			Write(w, wire.Problem{Status: http.StatusBadRequest, Reason: "broken_off", Detail: "the request's body broke off"})
		default:
			log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "err", err)
			Write(w, wire.Problem{Status: http.StatusInternalServerError, Reason: "internal", Detail: "the service failed; its log says why. Try again later."})
		}
	})
}

// sentBody notes whether a request's body ended before it was whole.
type sentBody struct {
	io.ReadCloser
	broken bool
	err    error
}

func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.broken, b.err = true, err
	}
	return n, err
}

// NotFound answers 404; a router's NotFoundHandler.
func NotFound(w http.ResponseWriter, r *http.Request) {
	Write(w, wire.Problem{Status: http.StatusNotFound, Reason: "not_found", Detail: r.URL.Path + " is not here"})
}

// MethodNotAllowed answers 405; a router's MethodNotAllowedHandler.
func MethodNotAllowed(w http.ResponseWriter, r *http.Request) {
	Write(w, wire.Problem{Status: http.StatusMethodNotAllowed, Reason: "method_not_allowed", Detail: r.URL.Path + " does not take " + r.Method})
}
