package problem_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/iotest"

	"sheaf/internal/problem"
)

// A client that hangs up, while it sends or while it waits, is no ERROR in the log; a failure is.
func TestHangUpIsNoError(t *testing.T) {
	t.Parallel()
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for name, c := range map[string]struct {
		ctx    context.Context
		body   io.Reader
		err    error // returned where reading the body does not fail
		logged bool
	}{
		"sending":             {t.Context(), iotest.ErrReader(io.ErrUnexpectedEOF), nil, false},
		"waiting":             {gone, http.NoBody, errors.Join(errors.New("query"), context.Canceled), false},
		"failure":             {t.Context(), http.NoBody, io.ErrUnexpectedEOF, true},
		"failure, and gone":   {gone, http.NoBody, errors.New("the disk is broken"), true},
		"cancelled by itself": {t.Context(), http.NoBody, context.Canceled, true},
	} {
		var log bytes.Buffer
		h := problem.Handler(slog.New(slog.NewTextHandler(&log, nil)), func(_ http.ResponseWriter, r *http.Request) error {
			if _, err := io.ReadAll(r.Body); err != nil {
				return err
			}
			return c.err
		})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(c.ctx, "POST", "/", c.body))
		if logged := log.Len() > 0; logged != c.logged {
			t.Errorf("%s: logged %q", name, log.String())
		}
	}
}
