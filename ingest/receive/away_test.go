package receive_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gorilla/mux"

	"sheaf/ingest/receive"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// absent is a manager whose database does not answer.
type absent struct{ *batchtest.Robots }

func (absent) Authenticate(context.Context, string, string) error {
	return errors.New("the database is away")
}

// TestAwayIsNoWrongSecret shows that a robot is told to come again, and is not taken for one that
// guesses, while its secret cannot be checked.
func TestAwayIsNoWrongSecret(t *testing.T) {
	t.Parallel()
	r, err := receive.New(t.Context(), receive.Options{Dir: t.TempDir(), Robots: absent{batchtest.NewRobots(t)}})
	testkit.Must(t, err)
	router := mux.NewRouter()
	testkit.Must(t, r.Register(router))
	server := httptest.NewServer(router)
	defer server.Close()
	for range 20 { // more than may be guessed
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+wire.PathUploads, nil)
		testkit.Must(t, err)
		req.SetBasicAuth(batchtest.Robot, batchtest.Secret)
		resp, err := http.DefaultClient.Do(req)
		testkit.Must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("%s, Retry-After %q; want 503 and a time", resp.Status, resp.Header.Get("Retry-After"))
		}
	}
}
