package problem

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"sheaf/internal/wire"
)

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
