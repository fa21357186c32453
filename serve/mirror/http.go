package mirror

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"sheaf/internal/api"
	"sheaf/serve/client"
)

// httpRemote is a remote over HTTP.
type httpRemote struct {
	client    *client.Client
	selection api.Selection
	transport *http.Transport
}

// pageEvents is how many events are asked for at once.
const pageEvents = 2000

func newHTTP(to *url.URL, user, password string, trusted *x509.CertPool, opt Options) *httpRemote {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = opt.Parallel + 1
	transport.ResponseHeaderTimeout = opt.Poll + stall
	transport.DisableCompression = true
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	r := &httpRemote{
		client:    &client.Client{URL: to, User: user, Password: password, HTTP: &http.Client{Transport: transport}},
		selection: opt.Selection, transport: transport,
	}
	if opt.Selection.Len() > api.MaxSelected { // the mirror chooses among all changes
		r.selection = api.Selection{}
	}
	return r
}

func (r *httpRemote) changes(ctx context.Context, at api.Cursor, wait time.Duration) (api.Page, error) {
	page, err := r.client.Changes(ctx, at, r.selection, pageEvents, min(wait, 5*time.Minute))
	return page, sort(err)
}

func (r *httpRemote) open(ctx context.Context, path string, from int64, etag string) (*client.File, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	f, err := r.client.Open(ctx, path, from, etag)
	if err != nil {
		cancel(nil)
		return nil, sort(err)
	}
	f.Body = watch(ctx, cancel, f.Body)
	return f, nil
}

// folderLink matches the link to a folder in a listing.
var folderLink = regexp.MustCompile(`<a href="([^"./]+)/">`)

func (r *httpRemote) folders(ctx context.Context, dir string) (names []string, err error) {
	f, err := r.open(ctx, dir, 0, "")
	if err != nil {
		return nil, err
	}
	page, err := io.ReadAll(io.LimitReader(f.Body, maxText))
	for _, link := range folderLink.FindAllSubmatch(page, -1) {
		names = append(names, string(link[1]))
	}
	return names, errors.Join(err, f.Body.Close())
}

func (r *httpRemote) close() { r.transport.CloseIdleConnections() }

var errStalled = fmt.Errorf("nothing has come for %v", stall)

// watched is a body whose reads must each make progress within the time stall.
type watched struct {
	io.ReadCloser
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// watch returns a body that cancels ctx when it stalls.
func watch(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser) *watched {
	w := &watched{ReadCloser: body, timer: time.AfterFunc(stall, func() { cancel(errStalled) }), ctx: ctx, cancel: cancel}
	w.timer.Stop()
	return w
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(stall)
	n, err := w.ReadCloser.Read(p)
	w.timer.Stop() // between two reads the mirror may wait for its own limit
	if err != nil && err != io.EOF && w.ctx.Err() != nil {
		err = context.Cause(w.ctx)
	}
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	err := w.ReadCloser.Close()
	w.cancel(nil)
	return err
}

// sort converts an error of the client to an error of a remote.
func sort(err error) error {
	status := client.Status(err)
	if status == 0 {
		return err
	}
	answer := err.(*client.Error)
	switch status {
	case http.StatusNotFound:
		return errGone
	case http.StatusGone:
		return errExpired
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		until := answer.Retry
		if until.IsZero() {
			if answer.Reason == "window_closed" { // and never opens
				return &refusedError{cmp.Or(answer.Detail, err.Error())}
			}
			until = time.Now().Add(busyPause)
		}
		return &laterError{until, cmp.Or(answer.Detail, err.Error())}
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed:
		return &refusedError{err.Error()}
	}
	return err
}
