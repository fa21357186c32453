package mirror

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/jdx/go-netrc"

	"sheaf/internal/api"
	"sheaf/internal/certs"
	"sheaf/serve/client"
)

// remote is a service, by one of the protocols. Its methods may be called concurrently.
type remote interface {
	// changes returns what follows a cursor. If nothing does, it waits for news, at most for wait.
	changes(ctx context.Context, at api.Cursor, wait time.Duration) (api.Page, error)
	// open opens a file of the tree from a byte on. If the file has changed since it had etag, open
	// opens it from its beginning.
	open(ctx context.Context, path string, from int64, etag string) (*client.File, error)
	// folders returns the names of the folders in a folder of the tree, and maybe other names.
	folders(ctx context.Context, dir string) ([]string, error)
	close()
}

// Errors of a remote, besides laterError and refusedError. After any other error a repetition may
// help.
var (
	errGone    = errors.New("is not there")
	errExpired = errors.New("the feed is another than the one that was followed")
)

// laterError says that the service wants no requests until some time.
type laterError struct {
	until time.Time
	why   string
}

func (e *laterError) Error() string { return e.why }

// refusedError says that a repetition cannot help.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

// stall is how long a connection may make no progress.
const stall = time.Minute

// maxText is the limit for a MANIFEST and for a part of the feed, in bytes.
const maxText = 256 << 20

// busyPause is the pause if a busy service does not say how long it will be busy.
const busyPause = 30 * time.Second

// dial returns the remote for a URL. It does not connect yet.
func dial(ctx context.Context, opt Options) (remote, error) {
	to, err := url.Parse(opt.URL)
	if err != nil {
		return nil, err
	}
	if to.Host == "" {
		return nil, fmt.Errorf("%q names no service: give a URL such as https://archive.example.jp or ftp://archive.example.jp", to.Redacted())
	}
	user, password, err := Credentials(to, opt.User, opt.Password)
	if err != nil {
		return nil, err
	}
	trusted, err := certs.Pool(opt.CAFile)
	if err != nil {
		return nil, err
	}
	switch to.Scheme {
	case "http", "https":
		return newHTTP(to, user, password, trusted, opt), nil
	case "ftp", "ftpes":
		return newFTP(ctx, to, user, password, trusted), nil
	}
	return nil, fmt.Errorf("%q: want http, https, ftp or ftpes", to.Redacted())
}

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

// Credentials returns the account for a service: that in the URL, the given one, or that in the
// netrc file ($NETRC, or ~/.netrc), in this order. If there is a name without a password, the
// password may be in the netrc file.
func Credentials(to *url.URL, givenUser, givenPassword string) (user, password string, err error) {
	user = to.User.Username()
	password, known := to.User.Password()
	if user == "" {
		user, password, known = givenUser, givenPassword, givenPassword != ""
	}
	if user != "" && known {
		return user, password, nil
	}
	path := os.Getenv("NETRC")
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return user, password, nil
		}
		path = filepath.Join(home, ".netrc")
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return user, password, nil
	}
	file, err := netrc.Parse(path)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", path, err)
	}
	m := file.Machine(to.Hostname())
	if m == nil || user != "" && m.Get("login") != user {
		return user, password, nil
	}
	return m.Get("login"), m.Get("password"), nil
}
