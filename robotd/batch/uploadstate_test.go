package batch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/internal/wire"
)

// dead is a target that cannot be reached.
type dead struct{}

func (dead) Name() string { return "dead" }
func (dead) Send(context.Context, Spooled) error {
	return &DownError{errors.New("no route to it")}
}

// TestState: State shows which batch is being sent, how far and to which target, and what is wrong
// with the other targets.
func TestState(t *testing.T) {
	const size = 3 << 20
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	half, goOn := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost:
			w.Header().Set("Location", wire.PathUploads+"1")
			w.WriteHeader(http.StatusCreated)
		case http.MethodPatch:
			io.CopyN(io.Discard, r.Body, size/2)
			close(half)
			<-goOn
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Upload-Offset", "3145728")
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer srv.Close()
	service := &HTTP{Base: srv.URL, Client: srv.Client()}
	w := &world{batches: []Spooled{{ID: "r1-20261121T000000Z-1", Path: path, Size: size}}}
	before := time.Now()
	u := NewUploader(UploaderOptions{Spool: w, Targets: []Target{dead{}, service}, Receipts: w, BackOff: time.Hour})
	service.Moved = u.Moved
	done := make(chan error, 1)
	go func() {
		_, _, err := u.round(t.Context())
		done <- err
	}()
	<-half
	s := u.State()
	if s.Sending != w.batches[0].ID || s.To != srv.URL || s.Moved < size/2 || s.Since.IsZero() {
		t.Errorf("state in the middle of the upload: %+v", s)
	}
	if d := s.Targets[0]; d.Failures != 1 || !strings.Contains(d.Error, "no route") || d.Failed.IsZero() || !d.Again.After(before) || !d.Answered.IsZero() {
		t.Errorf("state of the dead target: %+v", d)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s = u.State()
	if s.Sending != "" || s.Targets[1].Answered.IsZero() || s.Targets[1].Failures != 0 {
		t.Errorf("state after the upload: %+v", s)
	}
}

// TestNotesOfTargets: the locations at several targets are kept apart.
func TestNotesOfTargets(t *testing.T) {
	a, b := &HTTP{Base: "http://a"}, &HTTP{Base: "http://a:81"}
	note := "http://a http://a/v1/uploads/1\nhttp://a:81 http://a:81/v1/uploads/2\n"
	if others, at := a.noted(note); at != "http://a/v1/uploads/1" || others != "http://a:81 http://a:81/v1/uploads/2\n" {
		t.Errorf("a: %q, %q", others, at)
	}
	if _, at := b.noted(note); at != "http://a:81/v1/uploads/2" {
		t.Errorf("b: %q", at)
	}
	if _, at := (&HTTP{Base: "http://c"}).noted(note); at != "" {
		t.Errorf("c: %q", at)
	}
}
