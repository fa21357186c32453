package batch

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"sheaf/internal/wire"
)

// TestUploadBegunElsewhere: an upload that was begun at a target that is gone is begun again at the
// next target, and continued there.
func TestUploadBegunElsewhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "batch.tar.gz")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := Spooled{ID: "r1-20261121T030000Z-1", Path: path, Size: 10}
	var dying atomic.Bool
	dying.Store(true)
	var begun, had int
	serve := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.Method {
		case http.MethodPost:
			begun, had = begun+1, 0
			w.Header().Set("Location", wire.PathUploads+string(b.ID))
			w.WriteHeader(http.StatusCreated)
		case http.MethodHead:
			w.Header().Set("Upload-Offset", strconv.Itoa(had))
		case http.MethodPatch:
			if dying.Load() {
				panic(http.ErrAbortHandler)
			}
			had += len(body)
			w.Header().Set("Upload-Offset", strconv.Itoa(had))
			w.WriteHeader(http.StatusNoContent)
		case http.MethodPut:
			if dying.Load() {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusAccepted)
		}
	}
	first, second := httptest.NewServer(http.HandlerFunc(serve)), httptest.NewServer(http.HandlerFunc(serve))
	defer second.Close()
	at := func(url string) error { return (&HTTP{Base: url, Client: http.DefaultClient}).Send(t.Context(), b) }
	if at(first.URL) == nil {
		t.Fatal("a dying target took the batch")
	}
	first.Close()
	if at(second.URL) == nil || begun != 2 {
		t.Fatalf("begun %d times", begun)
	}
	dying.Store(false)
	if err := at(second.URL); err != nil || begun != 2 || had != 10 {
		t.Errorf("%v; begun %d times, %d bytes", err, begun, had)
	}
}
