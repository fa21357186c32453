package receive

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/exp/slog" // the type of tusd's logger

	"sheaf/ingest/inbox"
	"sheaf/internal/problem"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
)

// tusExtensions are the extensions of tus 1.0 that are offered.
const tusExtensions = "creation,termination"

// newTus returns tusd's handler for the uploads. authorise must run before it: it puts the robot
// into the context and checks that the batch is the robot's.
func newTus(r *Receiver) (*handler.UnroutedHandler, error) {
	composer := handler.NewStoreComposer()
	ds := &dataStore{r}
	composer.UseCore(ds)
	composer.UseTerminater(ds)
	return handler.NewUnroutedHandler(handler.Config{
		StoreComposer:        composer,
		BasePath:             wire.PathUploads,
		NetworkTimeout:       r.opt.Stall,
		DisableDownload:      true,
		DisableConcatenation: true,
		Cors:                 &handler.CorsConfig{Disable: true},
		Logger:               slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
}

// dataStore gives tusd access to the uploads. It needs no locker: an upload has one writer at a
// time, and a request for its offset stops the writer.
type dataStore struct{ r *Receiver }

type caller struct{ robot, remote string }

type callerKey struct{}

// callerOf returns the caller that authorise has put into the context.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

func (d *dataStore) NewUpload(ctx context.Context, info handler.FileInfo) (handler.Upload, error) {
	u, err := d.r.uploads.create(status{Batch: wire.BatchID(info.MetaData["batch"]), Robot: callerOf(ctx).robot, Protocol: overHTTP, Size: info.Size})
	if err != nil {
		return nil, d.r.tusError(ctx, err)
	}
	return &tusUpload{d.r, u}, nil
}

func (d *dataStore) GetUpload(ctx context.Context, id string) (handler.Upload, error) {
	u, err := d.r.uploads.get(id)
	if err != nil {
		return nil, handler.ErrNotFound
	}
	return &tusUpload{d.r, u}, nil
}

func (d *dataStore) AsTerminatableUpload(u handler.Upload) handler.TerminatableUpload {
	return u.(*tusUpload)
}

type tusUpload struct {
	r *Receiver
	u *upload
}

// WriteChunk appends the bytes of src. It returns how many of them are durable, even if src failed.
func (t *tusUpload) WriteChunk(ctx context.Context, offset int64, src io.Reader) (int64, error) {
	start := time.Now()
	select {
	case <-t.r.opt.Stopping: // tusd has not noticed, if that was before it had the body
		return 0, handler.ErrServerShutdown
	default:
	}
	w, err := t.u.resume(offset)
	if err != nil {
		return 0, t.r.tusError(ctx, err)
	}
	counted := &countingWriter{Writer: w}
	st := t.u.get()
	note := transfers.Transfer{Protocol: overHTTP, Who: st.Robot, Name: string(st.Batch), Remote: callerOf(ctx).remote, Outcome: transfers.OK}
	defer t.r.begun(note, counted.n.Load)()
	n, err := io.CopyBuffer(counted, src, make([]byte, 256<<10))
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	st = t.u.get()
	if err != nil {
		n = min(n, max(st.Offset-offset, 0))
	}
	if err != nil || st.Offset < st.Size {
		note.Outcome = transfers.Aborted
	}
	note.Bytes, note.Took = n, time.Since(start)
	t.r.record(ctx, note)
	return n, t.r.tusError(ctx, err)
}

// countingWriter counts the bytes that are written.
type countingWriter struct {
	io.Writer
	n atomic.Int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// GetInfo returns the durable offset. It stops the writer, so that the offset does not change.
func (t *tusUpload) GetInfo(context.Context) (handler.FileInfo, error) {
	st, err := t.u.settled()
	return handler.FileInfo{
		ID: t.u.name, Size: st.Size, Offset: st.Offset,
		MetaData: handler.MetaData{"batch": string(st.Batch)},
	}, err
}

// GetReader is never called: downloads are off.
func (t *tusUpload) GetReader(context.Context) (io.ReadCloser, error) {
	return nil, handler.ErrNotImplemented
}

// FinishUpload does nothing: only the manifest finishes a batch.
func (t *tusUpload) FinishUpload(context.Context) error { return nil }

func (t *tusUpload) Terminate(context.Context) error {
	t.u.mu.Lock()
	defer t.u.mu.Unlock()
	return t.r.uploads.remove(t.u)
}

// tusError turns err into tusd's error type with an HTTP status. It returns unknown errors
// unchanged.
func (r *Receiver) tusError(ctx context.Context, err error) error {
	err = r.turnedAway(ctx, callerOf(ctx).robot, err)
	var full *inbox.Full
	switch {
	case err == nil:
		return nil
	case errors.As(err, &full) && full.Never:
		return handler.NewError(string(wire.ReasonTooLarge), full.Detail, http.StatusRequestEntityTooLarge)
	case errors.As(err, &full):
		e := handler.NewError("no_space", full.Detail, statusOf(full))
		e.HTTPResponse.Header["Retry-After"] = retryAfter(full)
		return e
	case errors.Is(err, errTooSlow):
		e := handler.NewError("too_slow", err.Error(), http.StatusRequestTimeout)
		e.HTTPResponse.Header["Connection"] = "close"
		return e
	case errors.Is(err, errTakenOver):
		return handler.NewError("taken_over", err.Error(), http.StatusConflict)
	case errors.Is(err, errOffset):
		return handler.ErrMismatchOffset
	}
	return err
}

func statusOf(full *inbox.Full) int {
	if full.Draining {
		return http.StatusServiceUnavailable
	}
	return http.StatusInsufficientStorage
}

// retryAfter returns whole seconds, rounded up.
func retryAfter(full *inbox.Full) string {
	return strconv.FormatInt(int64((full.RetryAfter+time.Second-1)/time.Second), 10)
}

// problemWriter turns tusd's errors in plain text into problem+json.
type problemWriter struct {
	http.ResponseWriter
	head   bool // the request is HEAD, so there is no body
	status int  // status of an error whose text is still to come
}

func (w *problemWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *problemWriter) WriteHeader(status int) {
	if status < 400 || w.head {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.status = status
}

func (w *problemWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		return w.ResponseWriter.Write(p)
	}
	w.problem(string(p))
	return len(p), nil
}

// problem sends the error status that WriteHeader has held back, if any, with tusd's text.
func (w *problemWriter) problem(text string) {
	if w.status == 0 {
		return
	}
	reason, detail, ok := cutReason(text)
	if w.status == http.StatusInternalServerError && !ok {
		detail = "the service failed; its log says why. Try again later."
	}
	problem.Write(w.ResponseWriter, wire.Problem{Status: w.status, Reason: reason, Detail: detail})
	w.status = 0
}
