package mirror

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

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
