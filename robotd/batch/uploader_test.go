package batch

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ftpserver "goftp.io/server/v2"
	"goftp.io/server/v2/driver/file"

	"sheaf/internal/wire"
)

// world is a spool, a target and a ReceiptSource.
type world struct {
	batches     []Spooled
	send        func(n int) error // result of the n-th try
	tries       []time.Time
	state       wire.State // empty: unknown until it is sent
	sha         string
	removed     int
	quarantined string
	have        map[wire.BatchID]bool // if several are sent
}

func (w *world) Spool() ([]Spooled, error) { return w.batches, nil }
func (w *world) Remove(wire.BatchID) error { w.removed++; w.batches = nil; return nil }
func (w *world) Quarantine(_ wire.BatchID, reason string) error {
	w.quarantined, w.batches = reason, nil
	return nil
}

func (w *world) Name() string { return "world" }

func (w *world) Send(context.Context, Spooled) error {
	w.tries = append(w.tries, time.Now())
	if err := w.send(len(w.tries)); err != nil {
		return err
	}
	w.state = wire.StateReceived
	return nil
}

func (w *world) Receipt(_ context.Context, id wire.BatchID, _ string) (*wire.Receipt, error) {
	if w.state == "" {
		return nil, ErrUnknown
	}
	r := &wire.Receipt{Batch: id, SHA256: w.sha, State: w.state, Reason: wire.ReasonClock, Detail: "an hour off"}
	if w.state == wire.StateReceived {
		w.state = wire.StatePublished
	}
	return r, nil
}

var one = Spooled{ID: "r1-20261121T030000Z-1", SHA256: "aa", Size: 1}

func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{batches: []Spooled{one}, sha: "aa"}
		w.send = func(n int) error {
			switch n {
			case 1, 2, 3:
				return errors.New("broken off")
			case 4:
				return &LaterError{After: 10 * time.Minute, Err: errors.New("full")}
			}
			return nil
		}
		u := NewUploader(UploaderOptions{Spool: w, Targets: []Target{w}, Receipts: w, BackOff: 10 * time.Second})
		if err := u.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.removed != 1 || len(w.tries) != 5 {
			t.Fatalf("removed %d times after %d tries", w.removed, len(w.tries))
		}
		for i, least := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 10 * time.Minute} {
			if gap := w.tries[i+1].Sub(w.tries[i]); gap < least || gap > least*5/4+time.Second {
				t.Errorf("try %d came %v after the one before, want %v and up to a quarter more", i+2, gap, least)
			}
		}
	})
}

func TestReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{batches: []Spooled{one}, sha: "aa", state: wire.StateQuarantined}
		u := NewUploader(UploaderOptions{Spool: w, Targets: []Target{w}, Receipts: w})
		if err := u.Drain(t.Context()); err != nil || !strings.HasPrefix(w.quarantined, "clock: an hour off\nSet this robot's clock") || w.removed != 0 {
			t.Errorf("a quarantined batch: %v, %q, removed %d times", err, w.quarantined, w.removed)
		}
		w = &world{batches: []Spooled{one}, sha: "bb", state: wire.StatePublished}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		u = NewUploader(UploaderOptions{Spool: w, Targets: []Target{w}, Receipts: w})
		if err := u.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) || w.removed != 0 {
			t.Errorf("a receipt for other bytes: %v, removed %d times", err, w.removed)
		}
	})
}

func TestReceiptOfAnotherKey(t *testing.T) {
	_, key, _ := ed25519.GenerateKey(nil)
	other, _, _ := ed25519.GenerateKey(nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed, err := (&wire.Receipt{Batch: one.ID, SHA256: "aa", State: wire.StatePublished}).Sign(key)
		if err != nil {
			t.Error(err)
		}
		w.Write(signed)
	})}
	go server.Serve(l)
	defer server.Close()
	s := &HTTP{Base: "http://" + l.Addr().String(), Key: wire.OneKey(other), Client: http.DefaultClient}
	if _, err := s.Receipt(t.Context(), one.ID, "aa"); !errors.Is(err, wire.ErrSignature) {
		t.Errorf("a receipt that another key signed: %v", err)
	}
	s.Key = wire.OneKey(key.Public().(ed25519.PublicKey))
	if _, err := s.Receipt(t.Context(), one.ID, "aa"); err != nil {
		t.Error(err)
	}
	if _, err := s.Receipt(t.Context(), "r1-20261121T030000Z-2", "aa"); err == nil {
		t.Error("a receipt for another batch was accepted")
	}
}

// TestFTPResumes uses the library's own server on a folder: bytes that are there are not sent
// again, and the manifest comes last.
func TestFTPResumes(t *testing.T) {
	root := t.TempDir()
	driver, err := file.NewDriver(root)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	server, err := ftpserver.NewServer(&ftpserver.Options{
		Driver: driver, Hostname: "127.0.0.1", Port: port,
		Auth: &ftpserver.SimpleAuth{Name: "r1", Password: "s3cret"},
		Perm: ftpserver.NewSimplePerm("r1", "r1"), Logger: new(ftpserver.DiscardLogger),
	})
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	defer server.Shutdown()

	data := make([]byte, 100_000)
	for i := range data {
		data[i] = byte(i * i)
	}
	path := filepath.Join(t.TempDir(), string(one.ID)+".tar.gz")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	b := Spooled{ID: one.ID, Path: path, Size: int64(len(data)), Signed: []byte("signed")}
	stored := filepath.Join(root, string(one.ID)+".tar.gz")
	if err := os.WriteFile(stored, data[:40_000], 0o644); err != nil {
		t.Fatal(err)
	}
	to := &FTP{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Robot: "r1", Secret: "s3cret"}
	if err := to.Send(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(stored)
	if err != nil || string(got) != string(data) {
		t.Errorf("%d bytes were stored, %v; want %d", len(got), err, len(data))
	}
	if got, err := os.ReadFile(filepath.Join(root, string(one.ID)+".manifest")); err != nil || string(got) != "signed" {
		t.Errorf("manifest: %q, %v", got, err)
	}
	to.Secret = "wrong"
	if err := to.Send(t.Context(), b); err == nil {
		t.Error("a wrong secret was accepted")
	}
}

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
