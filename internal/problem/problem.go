// Package problem answers HTTP requests with errors, in the form that all the service's paths use:
// application/problem+json (RFC 9457), with a title for people, a detail that says what is wrong
// and what to do, and a stable reason for programs.
package problem

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/wire"
)

// HeaderRequest is the header with a request's ID: in requests from proxies, in answers, and in the
// service's requests to an object store.
const HeaderRequest = "X-Request-Id"

// Write sends p as the whole answer. The default status is 500, the default title is that of the
// status. If p.Next is set, the answer also has Retry-After. The request's ID is taken from the
// answer's header.
func Write(w http.ResponseWriter, p wire.Problem) {
	p.Status = cmp.Or(p.Status, http.StatusInternalServerError)
	p.Title = cmp.Or(p.Title, http.StatusText(p.Status))
	h := w.Header()
	p.Request = h.Get(HeaderRequest)
	for _, name := range []string{"Content-Length", "Content-Encoding", "ETag", "Last-Modified"} {
		h.Del(name) // they describe the answer that this one replaces
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if next, err := time.Parse(time.RFC3339, p.Next); err == nil && h.Get("Retry-After") == "" {
		h.Set("Retry-After", next.UTC().Format(http.TimeFormat))
	}
	body, _ := json.Marshal(p) // strings and an int: cannot fail
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}

// Error is a problem as a Go error.
type Error wire.Problem

func (e *Error) Error() string { return cmp.Or(e.Detail, e.Title) }

// New returns an Error. reason is a stable code for programs. detail says what is wrong and what to
// do.
func New(status int, reason, detail string) *Error {
	return &Error{Status: status, Reason: reason, Detail: detail}
}

// BadQuery returns the Error for a query that has a wrong parameter.
func BadQuery(format string, args ...any) *Error {
	return New(http.StatusBadRequest, "bad_query", fmt.Sprintf(format, args...))
}

// Handler runs f and answers with the error that f returns. It sends an *Error, or the result of an
// error's method Problem, as it is. For a body that is too large it sends a 413. If the database or
// the store does not answer, it sends a 503; if a disk is full, a 507; for any other error, a 500.
// The causes of these three go to the log and not to the client. When f returns an error, it must
// not have begun its answer. If f fails because the client has hung up, that is logged at debug
// level only.
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
		var own interface{ Problem() wire.Problem }
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &e):
			Write(w, wire.Problem(*e))
		case errors.As(err, &own):
			Write(w, own.Problem())
		case errors.As(err, &tooLarge):
			Write(w, wire.Problem{Status: http.StatusRequestEntityTooLarge, Reason: "too_large", Detail: tooLarge.Error()})
		case r.Context().Err() != nil && errors.Is(err, context.Canceled), body.broken && errors.Is(err, body.err):
			log.DebugContext(r.Context(), "client has gone", "method", r.Method, "path", r.URL.Path, "err", err)
			Write(w, wire.Problem{Status: http.StatusBadRequest, Reason: "broken_off", Detail: "the request's body broke off"})
		case files.IsFull(err):
			log.ErrorContext(r.Context(), "a request found the disk full", "method", r.Method, "path", r.URL.Path, "err", err)
			Write(w, wire.Problem{Status: http.StatusInsufficientStorage, Reason: "disk_full", Detail: "the service's disk is full, so this was not completed; make room, and send it again"})
		case notAnswering(r, err):
			log.ErrorContext(r.Context(), "a request got no answer from the database or the store", "method", r.Method, "path", r.URL.Path, "err", err)
			Write(w, later())
		default:
			log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "err", err)
			Write(w, wire.Problem{Status: http.StatusInternalServerError, Reason: "internal", Detail: "the service failed; its log says why. Try again later."})
		}
	})
}

// sentBody notes whether reading a request's body failed.
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

// NotFound answers 404. It is for a router's NotFoundHandler.
func NotFound(w http.ResponseWriter, r *http.Request) {
	Write(w, wire.Problem{Status: http.StatusNotFound, Reason: "not_found", Detail: r.URL.Path + " is not here"})
}

// MethodNotAllowed answers 405. It is for a router's MethodNotAllowedHandler.
func MethodNotAllowed(w http.ResponseWriter, r *http.Request) {
	Write(w, wire.Problem{Status: http.StatusMethodNotAllowed, Reason: "method_not_allowed", Detail: r.URL.Path + " does not take " + r.Method})
}

const (
	// Patience is how long a page may take. The database takes most of that time.
	Patience = 5 * time.Second

	// NotAnswering is the detail of the answer if the database or the store does not answer.
	NotAnswering = "the service's database or store does not answer now; try again in a moment"

	tryAgain = 30 * time.Second
)

// errLate ends the context of a request that has taken too long.
var errLate = errors.New("the answer takes too long")

// Within ends the context of a request to which next has not answered after Patience. Handler then
// says that the database or the store does not answer, so next must answer through Handler. Within
// is not for downloads or other requests whose answers take long by themselves.
func Within(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), Patience, errLate)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// notAnswering reports whether a request failed because the database or the store does not answer:
// the request took longer than Within allows, or a connection failed or timed out.
func notAnswering(r *http.Request, err error) bool {
	var network net.Error // context.DeadlineExceeded is a net.Error, too
	return errors.Is(context.Cause(r.Context()), errLate) || errors.As(err, &network)
}

// later returns the answer if the database or the store does not answer.
func later() wire.Problem {
	return wire.Problem{Status: http.StatusServiceUnavailable, Reason: "not_answering", Detail: NotAnswering,
		Next: time.Now().Add(tryAgain).UTC().Format(time.RFC3339)}
}
