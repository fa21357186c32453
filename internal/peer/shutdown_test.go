package peer

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"sheaf/internal/testkit"
)

// A server that stops waits for the request that runs, and no longer than it may.
func TestShutdown(t *testing.T) {
	begun, end := make(chan struct{}, 1), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-end }))
	answered := make(chan error, 1)
	go func() {
		resp, err := http.Get(s.URL)
		if err == nil {
			err = resp.Body.Close()
		}
		answered <- err
	}()
	testkit.Receive(t, "the request", begun)
	none, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Shutdown(none, s.Config); !errors.Is(err, context.Canceled) {
		t.Errorf("with a request under way: %v", err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- Shutdown(t.Context(), s.Config) }()
	close(end)
	testkit.Must(t, testkit.Receive(t, "the answer", answered))
	testkit.Must(t, testkit.Receive(t, "the end", stopped))
}
